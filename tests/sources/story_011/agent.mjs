// What story 011 leaves to whoever writes the agent: its name, its types, and where it asks. The client is Supabase's own.
import { createClient } from '@supabase/supabase-js'

export const { AGENT_TYPE, AGENT_INSTANCE_ID, SUPABASE_URL, SUPABASE_SERVICE_KEY } = process.env
export const agentClient = createClient(process.env.REST_URL, SUPABASE_SERVICE_KEY)
export const getTypesForAgent = (agent) => ({ coder: ['bug', 'feature'] })[agent] ?? []
