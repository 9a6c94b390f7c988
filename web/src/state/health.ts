/** The marks of claims, and what needs a person, at this second: silence sends no event. */
import type { Brief, Held } from "../api";
import { holdings, items, type Known, settings } from "./board";
import { ago, ordinal, sessionName } from "./text";

export type Mark = "healthy" | "stale" | "orphaned" | "warning" | "expiring";

export function mark(held: Held, now: number): Mark {
  const limits = settings.value;
  const left = (held.expires_at - now) / 1000;
  const silent = (now - held.renewed_at) / 1000;
  if (left <= limits.expiring_seconds!) return "expiring";
  if (left <= limits.warning_seconds!) return "warning";
  // A person sends no heartbeats.
  if (held.kind === "person") return "healthy";
  if (silent > limits.orphan_seconds!) return "orphaned";
  return silent > limits.stale_seconds! ? "stale" : "healthy";
}

export const isSilent = (held: Held, now: number): boolean =>
  held.kind !== "person" && (now - held.renewed_at) / 1000 > settings.value.stale_seconds!;

/** What needs a person: why, since when, and which keys answer it. */
export interface Need {
  item: Brief;
  rank: number;
  why: string;
  since: number;
  keys: string;
}

export function needs(now: number): Need[] {
  const found: Need[] = [];
  for (const item of items.values()) {
    const need = needOf(item, now);
    if (need) found.push(need);
  }
  return found.sort((a, b) => a.rank - b.rank || b.item.priority - a.item.priority || a.since - b.since);
}

function needOf(item: Known, now: number): Need | null {
  const age = (since: number) => ago((now - since) / 1000);
  switch (item.status) {
    case "pending_approval": {
      const what = item.token ? "draft" : "plan";
      return { item, rank: 0, why: `${what} waits ${age(item.updated_at)}`, since: item.updated_at, keys: "ab" };
    }
    case "in_progress": {
      const held = holdings.get(item.id);
      if (!held || !isSilent(held, now)) return null;
      const again = item.strikes ? `${ordinal(item.strikes + 1)} try, ` : "";
      const why = `${again}${sessionName(held.session)} silent ${age(held.renewed_at)}`;
      return { item, rank: 1, why, since: held.renewed_at, keys: "F" };
    }
    case "blocked": {
      const dead = item.open_blockers.find((one) => !one.will_move);
      const why = dead && `needs ${dead.item}, which ${dead.status === "failed" ? "failed" : `is ${dead.status}`}`;
      return why ? { item, rank: 2, why, since: item.updated_at, keys: "ec" } : null;
    }
    case "failed": {
      const why = item.reason ? `failed: ${item.reason}` : `failed ${age(item.updated_at)} ago, attempt ${item.attempts}`;
      return { item, rank: 3, why, since: item.updated_at, keys: "r" };
    }
    default:
      return null;
  }
}
