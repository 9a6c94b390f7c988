// Story 011's edge function. Changed: the address of `serve`, which stands in deno.mjs for Deno's.
// supabase/functions/agent-claim/index.ts
import { serve } from './deno.mjs'
import { createClient } from '@supabase/supabase-js'

serve(async (req) => {
  const { workItemId, agentType, agentInstanceId } = await req.json()

  const supabase = createClient(
    Deno.env.get('SUPABASE_URL')!,
    Deno.env.get('SUPABASE_SERVICE_ROLE_KEY')!
  )

  // Use transaction for atomic claim
  const { data, error } = await supabase.rpc('claim_work_item', {
    p_work_item_id: workItemId,
    p_agent_type: agentType,
    p_agent_instance_id: agentInstanceId
  })

  if (error) {
    return new Response(
      JSON.stringify({ success: false, error: error.message }),
      { status: 400, headers: { 'Content-Type': 'application/json' } }
    )
  }

  return new Response(
    JSON.stringify({ success: true, claimed: data }),
    { headers: { 'Content-Type': 'application/json' } }
  )
})
