// agent/lib/workItems.ts
// Story 011's helper of an agent. Changed: nothing; added: the two imports, of what the document leaves open.
import { AGENT_INSTANCE_ID, AGENT_TYPE, SUPABASE_SERVICE_KEY, SUPABASE_URL, agentClient, getTypesForAgent } from './agent.mjs'
import type { WorkItem, WorkItemType } from './agent.mjs'

export async function claimNextItem(type: WorkItemType): Promise<WorkItem | null> {
  // Find available items
  const { data: items } = await agentClient
    .from('work_items')
    .select('*')
    .eq('status', 'ready')
    .in('type', getTypesForAgent(AGENT_TYPE))
    .order('priority', { ascending: false })
    .order('created_at', { ascending: true })
    .limit(1)

  if (!items?.length) return null

  // Attempt to claim
  const response = await fetch(`${SUPABASE_URL}/functions/v1/agent-claim`, {
    method: 'POST',
    headers: {
      'Authorization': `Bearer ${SUPABASE_SERVICE_KEY}`,
      'Content-Type': 'application/json'
    },
    body: JSON.stringify({
      workItemId: items[0].id,
      agentType: AGENT_TYPE,
      agentInstanceId: AGENT_INSTANCE_ID
    })
  })

  const result = await response.json()
  return result.claimed ? items[0] : null
}
