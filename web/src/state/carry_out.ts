/** Sends an action to the server, and says what came of it. */
import "../core";
import type { Brief, Bulk } from "../api";
import type { Action } from "../rules";
import { decided, seen } from "./actions";
import { say } from "./notices";
import { ask, itemPath, Problem } from "./http";
import { many } from "./text";

/** Exactly the revision that was read is acted on: what changed meanwhile is refused by the server. */
export async function carryOut(action: Action, targets: Brief[], args: Record<string, unknown>): Promise<void> {
  try {
    if (targets.length === 1) {
      const [item] = targets as [Brief];
      await ask("POST", itemPath(item.id, action.verb), { ...asRead(action, item), ...action.args, ...args });
      // It has changed by this decision; nobody waits for a chance to read it again first.
      seen.delete(item.id);
      say(`${item.id}: ${action.label}`);
    } else {
      const answer = await inBulk(action, targets, args);
      for (const one of answer.refused) decided.delete(one.item);
      const refused = answer.refused.map((one) => one.detail);
      const done = targets.length - refused.length;
      say(`${many(done, "item")}: ${action.label}${refused.length ? `; ${refused.length} refused: ${refused[0]}` : ""}`, refused.length > 0);
    }
  } catch (error) {
    for (const item of targets) decided.delete(item.id);
    say(error instanceof Problem ? error.message : String(error), true);
  }
}

/** What was read of the item, as its action wants it said. A plan has no token. */
const asRead = ({ reads = [] }: Action, item: Brief) =>
  Object.fromEntries(reads.flatMap((name) => (item[name] ? [[name, item[name]]] : [])));

async function inBulk(action: Action, targets: Brief[], args: Record<string, unknown>): Promise<Bulk> {
  return await ask<Bulk>("POST", "/v1/bulk", {
    verb: action.verb,
    args,
    items: targets.map((item) => ({
      id: item.id,
      ...(action.verb === "force_release" ? { token: item.token } : { revision: item.revision }),
    })),
  });
}
