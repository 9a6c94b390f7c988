/** Runs put on lanes: a lane for each session, agent or item. */
import { holdings, seats } from "../state/board";
import { isSilent } from "../state/health";
import type { RunsWindow, Span } from "../state/window";
import type { Lane } from "./lanes";

export const LANES = ["session", "agent", "item"] as const;
export type By = (typeof LANES)[number];

export function lanesOf(found: RunsWindow, by: By, from: number, now: number): Lane[] {
  const lanes = new Map<string, Lane>();
  const lane = (key: string, name: string) => {
    let one = lanes.get(key);
    if (!one) lanes.set(key, (one = { name, runs: [], refused: [], silentSince: null }));
    return one;
  };
  const nameOf = (run: { session: string; agent: string }) => `${run.agent} ${run.session}`;
  const keyOf = (run: Span) => run[by];
  for (const run of found.runs.values()) {
    if ((run.end ?? now) < from) continue;
    const one = lane(keyOf(run), by === "session" ? nameOf(run) : keyOf(run));
    one.runs.push(run);
    const held = holdings.get(run.item);
    if (run.end === null && held?.token === run.token && isSilent(held, now)) one.silentSince = held.renewed_at;
  }
  for (const one of found.refused.values()) {
    const key = by === "item" ? one.item : by === "session" ? one.session : (seats.get(one.session)?.agent ?? "");
    if (one.at >= from) lanes.get(key)?.refused.push(one);
  }
  const sorted = [...lanes.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  for (const one of sorted) one.runs.sort((a, b) => a.start - b.start);
  return sorted;
}
