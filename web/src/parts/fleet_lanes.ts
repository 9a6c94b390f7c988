/** Runs put on lanes: a lane for each session, agent or item, and more than one where runs overlap. */
import { holdings, seats } from "../state/board";
import { isSilent } from "../state/health";
import { sessionName } from "../state/text";
import type { RunsWindow, Span } from "../state/window";
import type { Bar, Lane } from "./lanes";

export const LANES = ["session", "agent", "item"] as const;
export type By = (typeof LANES)[number];

export function lanesOf(found: RunsWindow, by: By, from: number, now: number): Lane[] {
  const lanes = new Map<string, Lane>();
  const nameOf = (run: Span) => (by === "session" ? named(run) : run[by]);
  for (const run of found.runs.values()) {
    if ((run.end ?? now) < from) continue;
    let one = lanes.get(run[by]);
    if (!one) lanes.set(run[by], (one = { name: nameOf(run), runs: [], refused: [] }));
    const held = run.end === null ? holdings.get(run.item) : undefined;
    one.runs.push({ ...run, silentSince: held?.token === run.token && isSilent(held, now) ? held.renewed_at : null });
  }
  for (const one of found.refused.values()) {
    const key = by === "item" ? one.item : by === "session" ? one.session : (seats.get(one.session)?.agent ?? "");
    if (one.at >= from) lanes.get(key)?.refused.push(one);
  }
  const sorted = [...lanes.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  for (const one of sorted) one.runs.sort((a, b) => a.start - b.start);
  return sorted;
}

/** Ids that dibs makes begin with the agent, which is not repeated: there is little room. */
const named = ({ agent, session }: Span): string =>
  session.startsWith(`${agent}-`) ? sessionName(session) : `${agent} ${sessionName(session)}`;

/** An agent has many sessions, and a session may hold many items: what goes on at the same time is drawn on lanes of its
 * own, below each other. */
export const stacked = (lanes: Lane[]): Lane[] =>
  lanes.flatMap((lane) => {
    const rows: { runs: Bar[]; end: number }[] = [];
    for (const run of lane.runs) {
      let row = rows.find((one) => one.end <= run.start);
      if (!row) rows.push((row = { runs: [], end: 0 }));
      row.runs.push(run);
      row.end = run.end ?? Infinity;
    }
    return rows.map(({ runs }, at) => (at ? { name: "", runs, refused: [] } : { ...lane, runs }));
  });
