/** Made by `python -m web.tools.api_types` from the server's OpenAPI document. */

export interface View {
  event: number;
  at: number;
  me: Record<string, string> | null;
  settings: Record<string, number>;
  counts: Record<string, number>;
  items: Brief[];
  holdings: Held[];
  sessions: Seat[];
  left_off: number;
  holdings_left_off: number;
  sessions_left_off: number;
}

export interface Paged {
  items: Brief[];
  next: string | null;
  total: number;
  counts: Record<string, Record<string, number>>;
  left_off: number;
}

export interface Window {
  from_at: number;
  to_at: number;
  runs: unknown[][];
  refused: unknown[][];
  truncated: boolean;
}

export interface Series {
  from_at: number;
  step_seconds: number;
  events: Record<string, unknown[]>;
  depth: Record<string, unknown[]>;
  time_to_claim: Record<string, unknown[]>;
  duration: Record<string, unknown[]>;
  cost: Record<string, unknown[]>;
  truncated: boolean;
}

export interface Bulk {
  done: string[];
  refused: BulkRefusal[];
}

export interface Detail {
  item: Item;
  claim: Claim | null;
  runs: Run[];
  notes: Note[];
  blockers: Blocker[];
  waiters: Ticket[];
}

export interface Event {
  item: string;
  number: number;
  kind: string;
  at: number;
  status: string;
  token: number;
  actor: string;
  session: string | null;
  agent: string | null;
  data: Record<string, unknown>;
  id: number;
}

export interface Reason {
  code: string;
  text: string;
  claimable: boolean;
}

export interface Brief {
  id: string;
  project: string;
  type: string;
  action: string;
  phase: string | null;
  title: string;
  labels: string[];
  priority: number;
  depends_on: string[];
  not_before: number | null;
  timeout_seconds: number;
  retries: number;
  needs_approval: boolean;
  approved: boolean;
  status: string;
  created_by: string;
  created_at: number;
  updated_at: number;
  attempts: number;
  strikes: number;
  failures: number;
  token: number;
  revision: number;
  offered_to: string | null;
  offer_expires_at: number | null;
  open_blockers: Blocker[];
  waiters: number;
  reason: string | null;
}

export interface Held {
  item: string;
  token: number;
  session: string;
  agent: string;
  kind: string | null;
  claimed_at: number;
  renewed_at: number;
  expires_at: number;
  deadline_at: number;
  ttl_seconds: number;
  health: string;
  heartbeat_count: number;
  note: Remark | null;
  waiters: Waiter[];
}

export interface Seat {
  id: string;
  agent: string;
  kind: string;
  host: string;
  meta: Record<string, unknown>;
  started_at: number;
  seen_at: number;
  score: number;
  reasons: Deduction[];
  holding: string[];
  ended: Record<string, number>;
  recent: PastRun[];
}

export interface BulkRefusal {
  item: string;
  code: string;
  detail: string;
}

export interface Item {
  id: string;
  project: string;
  type: string;
  action: string;
  phase: string | null;
  title: string;
  body: string;
  payload: Record<string, unknown>;
  labels: string[];
  priority: number;
  depends_on: string[];
  resources: string[];
  not_before: number | null;
  timeout_seconds: number;
  retries: number;
  needs_approval: boolean;
  approved: boolean;
  status: string;
  created_by: string;
  created_at: number;
  updated_at: number;
  attempts: number;
  strikes: number;
  failures: number;
  token: number;
  revision: number;
  offered_to: string | null;
  offer_expires_at: number | null;
  subject: string | null;
  review: boolean;
}

export interface Claim {
  item: string;
  token: number;
  session: string;
  agent: string;
  claimed_at: number;
  renewed_at: number;
  expires_at: number;
  deadline_at: number;
  ttl_seconds: number;
  heartbeat_count: number;
}

export interface Run {
  item: string;
  token: number;
  session: string;
  agent: string;
  started_at: number;
  ended_at: number | null;
  outcome: string | null;
  reason: string | null;
  draft: string | null;
  links: Record<string, unknown>;
  cost: Record<string, unknown>;
  checks: Record<string, unknown>;
}

export interface Note {
  at: number;
  note: string;
  meta: Record<string, unknown>;
}

export interface Blocker {
  item: string;
  status: string;
  will_move: boolean;
}

export interface Ticket {
  item: string;
  session: string;
  agent: string;
  since_at: number;
  expires_at: number;
  ttl_seconds: number;
  closed_at: number | null;
  reason: string | null;
  id: number;
}

export interface Remark {
  at: number;
  note: string;
}

export interface Waiter {
  session: string;
  agent: string;
  since_at: number;
  expires_at: number;
  offered: boolean;
}

export interface Deduction {
  code: string;
  points: number;
  text: string;
}

export interface PastRun {
  item: string;
  outcome: string | null;
  started_at: number;
  ended_at: number | null;
}
