/** The last two hours of the sessions that are at work, the ones with trouble first. */
import "../core";
import { useEffect, useMemo } from "preact/hooks";
import { now } from "../state/clock";
import { SPAN_MS_MIN } from "../state/series";
import { RunsWindow } from "../state/window";
import { LAPSED } from "./marks";
import { lanesOf, stacked } from "./fleet_lanes";
import { type Lane, LANE, Lanes } from "./lanes";
import { openItem } from "./bits";
import { useSight } from "./window";

const SPAN_MS = 2 * 3600_000;

const trouble = (lane: Lane): number =>
  (lane.runs.some((run) => run.silentSince) ? 4 : 0) +
  lane.runs.filter((run) => ["failed", ...LAPSED].includes(run.outcome ?? "")).length;

export function Fleet() {
  const found = useMemo(() => new RunsWindow(), []);
  const { box, sight } = useSight();
  useEffect(() => found.follow(() => now.peek() - SPAN_MS), []);
  found.changed.value;
  const at = Math.floor(now.value / 5000) * 5000;
  const starts = [...found.runs.values()].map((run) => run.start);
  // The first minutes of a board are not a line at the edge.
  const from = Math.max(at - SPAN_MS, Math.min(at - SPAN_MS_MIN, starts.reduce((a, b) => Math.min(a, b), at)));
  const lanes = lanesOf(found, "session", from, at).sort((a, b) => trouble(b) - trouble(a));
  const shown = stacked(lanes).slice(0, Math.max(1, Math.floor((sight.height - 24) / LANE)));
  return (
    <div class="fleet-box" ref={box}>
      {found.problem.value ? (
        <p class="dim">{found.problem.value}</p>
      ) : (
        <Lanes
          {...{ lanes: shown, from, to: at + (at - from) / 120, now: at, height: sight.height, onPick: openItem }}
          label={`${lanes.length} sessions worked in the last two hours; the timeline has them as a table`}
        />
      )}
    </div>
  );
}
