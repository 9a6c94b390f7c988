/** What a person can do to items. A caller sees only what its role may do, and an item only what fits its status. */
import type { Brief } from "../api";
import { type Action, ACTIONS, ROLES } from "../rules";
import { items, me } from "./board";
import { isLive } from "./lamp";
import { question, say } from "./notices";

export { ACTIONS };

export const fits = (action: Action, item: Brief): boolean =>
  action.statuses.includes(item.status) && (item.token > 0 || !action.needs_draft);

export const may = (role: string): boolean => ROLES.indexOf(me.value.role!) >= ROLES.indexOf(role);

export const actionsFor = (item: Brief): Action[] => ACTIONS.filter((one) => may(one.role) && fits(one, item));

/** The revisions of the items that are open to be read: a decision is about these, not about what came since. */
export const seen = new Map<string, Pick<Brief, "revision" | "token">>();

/** The revisions of the items about which something was decided here: until the event of that arrives, a key that is
 * pressed again is no second decision. */
export const decided = new Map<string, number>();

/** Start the action of a key on these items. Whether there is one. */
export function start(key: string, ids: string[]): boolean {
  const known = ids.flatMap((id) => items.get(id) ?? []);
  const action = ACTIONS.find((one) => one.key === key && may(one.role) && known.some((item) => fits(one, item)));
  if (!action) return false;
  begin(action, known.filter((item) => fits(action, item)));
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
