/** Made by `python -m web.tools.tables` from `dibs.rules.actions` and `dibs.rules.event_kinds`. */

export const ROLES = ["viewer", "agent", "person", "admin"];

/** The fields of an item that any event may change, and those of its text, which only some do. */
export const DECIDED = ["offered_to", "offer_expires_at", "attempts", "strikes", "failures", "not_before", "needs_approval", "approved"];
export const CONTENT = ["title", "project", "type", "action", "phase", "labels", "priority", "depends_on", "not_before", "timeout_seconds", "retries", "needs_approval"];
/** What an item has that was added without. */
export const DEFAULTS = { project: "default", type: "task", action: "", phase: null, labels: [], priority: 5, depends_on: [], not_before: null, timeout_seconds: 28800, retries: 0, needs_approval: false, approved: false, attempts: 0, strikes: 0, failures: 0, offered_to: null, offer_expires_at: null, title: "", open_blockers: [], waiters: 0 };

export interface Action {
  key: string;
  verb: string;
  label: string;
  /** The least role that it is offered to, and the statuses in which it is. */
  role: string;
  statuses: string[];
  /** The parameters that say what was read, and others. */
  reads?: ("revision" | "token")[];
  args?: Record<string, unknown>;
  /** The parameter that a person has to fill in, and the question for it. */
  asks?: [name: string, question: string];
  /** It takes something away, so it is confirmed. */
  confirms?: boolean;
  /** It is about a draft, not about a plan. */
  needs_draft?: boolean;
}
export const ACTIONS: Action[] = [
  { key: "a", verb: "approve", label: "approve", role: "admin", statuses: ["pending_approval"], reads: ["revision", "token"] },
  { key: "A", verb: "approve", label: "approve as done", role: "admin", statuses: ["pending_approval"], reads: ["revision", "token"], args: { done: true }, needs_draft: true },
  { key: "b", verb: "send_back", label: "send back", role: "admin", statuses: ["pending_approval"], asks: ["comment", "What should be different?"], reads: ["revision"] },
  { key: "R", verb: "reject", label: "reject", role: "admin", statuses: ["pending_approval"], asks: ["reason", "Why is it rejected?"], reads: ["revision"] },
  { key: "r", verb: "retry", label: "retry", role: "admin", statuses: ["failed"] },
  { key: "r", verb: "reopen", label: "reopen", role: "admin", statuses: ["done", "cancelled", "rejected"], confirms: true },
  { key: "p", verb: "park", label: "park", role: "agent", statuses: ["blocked", "scheduled", "ready"] },
  { key: "p", verb: "unpark", label: "unpark", role: "agent", statuses: ["parked"] },
  { key: "F", verb: "force_release", label: "force-release", role: "admin", statuses: ["in_progress"], asks: ["reason", "Why is the claim taken away?"], reads: ["token"] },
  { key: "c", verb: "cancel", label: "cancel", role: "admin", statuses: ["pending_approval", "blocked", "scheduled", "ready", "in_progress", "parked"], confirms: true },
];
