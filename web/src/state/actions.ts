/** What a person can do to items. A caller sees only what its role may do, and an item only what fits its status. */
import type { Brief } from "../api";
import { ENDED, items, me } from "./board";
import { isLive } from "./lamp";
import { question, say } from "./notices";

const ROLES = ["viewer", "agent", "person", "admin"];

export interface Action {
  key: string;
  verb: string;
  label: string;
  role: string;
  /** The parameter that a person has to fill in, and the question for it. */
  asks?: [name: string, question: string];
  /** It takes something away, so it is confirmed. */
  confirms?: boolean;
  fits: (item: Brief) => boolean;
  args?: (item: Brief) => Record<string, unknown>;
}

const waits = (item: Brief) => item.status === "pending_approval";
const held = (item: Brief) => item.status === "in_progress";
const revision = (item: Brief) => ({ revision: item.revision });

export const ACTIONS: Action[] = [
  {
    ...{ key: "a", verb: "approve", label: "approve", role: "admin", fits: waits },
    args: (item) => ({ revision: item.revision, ...(item.token ? { token: item.token } : {}) }),
  },
  {
    ...{ key: "A", verb: "approve", label: "approve as done", role: "admin" },
    fits: (item) => waits(item) && item.token > 0,
    args: (item) => ({ revision: item.revision, token: item.token, done: true }),
  },
  {
    ...{ key: "b", verb: "send_back", label: "send back", role: "admin", fits: waits, args: revision },
    asks: ["comment", "What should be different?"],
  },
  {
    ...{ key: "R", verb: "reject", label: "reject", role: "admin", fits: waits, args: revision },
    asks: ["reason", "Why is it rejected?"],
  },
  { key: "r", verb: "retry", label: "retry", role: "admin", fits: (item) => item.status === "failed" },
  {
    ...{ key: "r", verb: "reopen", label: "reopen", role: "admin", confirms: true },
    fits: (item) => ["done", "rejected", "cancelled"].includes(item.status),
  },
  {
    ...{ key: "p", verb: "park", label: "park", role: "agent" },
    fits: (item) => ["ready", "blocked", "scheduled"].includes(item.status),
  },
  { key: "p", verb: "unpark", label: "unpark", role: "agent", fits: (item) => item.status === "parked" },
  {
    ...{ key: "F", verb: "force_release", label: "force-release", role: "admin", fits: held },
    asks: ["reason", "Why is the claim taken away?"],
    args: (item) => ({ token: item.token }),
  },
  {
    ...{ key: "c", verb: "cancel", label: "cancel", role: "admin", confirms: true },
    fits: (item) => !ENDED.has(item.status),
  },
];

export const may = (role: string): boolean => ROLES.indexOf(me.value.role!) >= ROLES.indexOf(role);

export const actionsFor = (item: Brief): Action[] => ACTIONS.filter((one) => may(one.role) && one.fits(item));

/** The revisions of the items that are open to be read: a decision is about these, not about what came since. */
export const seen = new Map<string, Pick<Brief, "revision" | "token">>();

/** The revisions of the items about which something was decided here: until the event of that arrives, a key that is
 * pressed again is no second decision. */
export const decided = new Map<string, number>();

/** Start the action of a key on these items. Whether there is one. */
export function start(key: string, ids: string[]): boolean {
  const known = ids.flatMap((id) => items.get(id) ?? []);
  const action = ACTIONS.find((one) => one.key === key && may(one.role) && known.some(one.fits));
  if (!action) return false;
  begin(action, known.filter(action.fits));
  return true;
}

export function begin(action: Action, chosen: Brief[]): void {
  const targets = chosen.map((item) => ({ ...item, ...seen.get(item.id) }));
  if (!isLive()) say("the server is away; nothing was changed", true);
  else if (action.asks || action.confirms || targets.length > 1) question.value = { action, targets };
  else send(action, targets, {});
}

export function send(action: Action, targets: Brief[], args: Record<string, unknown>): void {
  question.value = null;
  const fresh = targets.filter((item) => decided.get(item.id) !== item.revision);
  if (!fresh.length) return;
  for (const item of fresh) decided.set(item.id, item.revision);
  void import("./carry_out").then(
    (found) => found.carryOut(action, fresh, args),
    () => {
      // The server was upgraded, and has the parts of another page.
      for (const item of fresh) decided.delete(item.id);
      say("nothing was changed: reload the page first", true);
    },
  );
}
