/** What every session did and when: runs, ends, losses, silence, and claims that were refused. */
import "../core";
import { computed, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { openItem } from "../parts/bits";
import { Depth } from "../parts/depth";
import { type By, LANES, lanesOf, stacked } from "../parts/fleet_lanes";
import { LANE, Lanes, NAME, scaleOf } from "../parts/lanes";
import { Legend } from "../parts/marks";
import { Table } from "../parts/timetable";
import { useKey } from "../parts/use_key";
import { useSight } from "../parts/window";
import { now } from "../state/clock";
import { change, hoursOf, oneOf, route } from "../state/route";
import { type Place, SPAN_MS_MIN } from "../state/series";
import { many } from "../state/text";
import { RunsWindow } from "../state/window";

const HOURS = [1, 4, 12, 24];
const SPAN_MS_MAX = 48 * 3600_000;
/** A pointer that moved further than this was dragged. */
const CLICK_PIXELS_MAX = 3;

const hours = computed(() => hoursOf(4, SPAN_MS_MAX / 3600_000));
const by = computed<By>(() => oneOf(LANES, route.value.query.lanes));
const isTable = computed(() => route.value.query.as === "table");
/** Where somebody is dragging or zooming to. The address follows when they rest: browsers refuse to change it often. */
const moving = signal<Place | null>(null);
const REST_MS = 250;
let rest: ReturnType<typeof setTimeout> | undefined;
const settled = computed<Place | null>(() => {
  const [from, to] = [Number(route.value.query.from), Number(route.value.query.to)];
  return from > 0 && to > from && to - from <= SPAN_MS_MAX ? { from, to } : null;
});
/** Null: the latest hours, moving with the clock. */
const place = computed(() => moving.value ?? settled.value);

function moveTo(from: number, to: number): void {
  moving.value = { from: Math.round(from), to: Math.round(to) };
  clearTimeout(rest);
  rest = setTimeout(settle, REST_MS);
}

function settle(): void {
  const found = moving.peek();
  clearTimeout(rest);
  if (found) change({ from: String(found.from), to: String(found.to) }, true);
  moving.value = null;
}

function leave(): void {
  clearTimeout(rest);
  moving.value = null;
}

function span(at: number): Place {
  const length = hours.value * 3600_000;
  return place.value ?? { from: at - length, to: at + length / 40 };
}

/** The span, unless somebody chose one, without the hours before the first run: the first minutes of a board are not a
 * line at the edge. */
function fitted(at: number, found: RunsWindow): Place {
  const whole = span(at);
  if (place.value || route.value.query.hours) return whole;
  let first = at - SPAN_MS_MIN;
  for (const run of found.runs.values()) first = Math.min(first, run.start);
  const from = Math.max(whole.from, first);
  return { from, to: at + (at - from) / 40 };
}

export function Timeline() {
  const found = useMemo(() => new RunsWindow(), []);
  const { box, sight, look } = useSight();
  const drag = useRef<{ x: number; from: number; to: number } | null>(null);
  const wasDragged = useRef(false);
  useEffect(() => found.follow(() => span(now.peek()).from), []);
  useEffect(() => leave, []);
  useKey("T", () => change({ as: isTable.peek() ? null : "table" }));
  found.changed.value;
  const at = Math.floor(now.value / 2000) * 2000;
  const { from, to } = fitted(at, found);
  const isWhole = !place.value && from === span(at).from;
  const lanes = lanesOf(found, by.value, from, at);
  const rows = stacked(lanes);
  const runs = lanes.flatMap((lane) => lane.runs).filter((run) => run.start <= to);
  const refused = [...found.refused.values()].filter((one) => one.at >= from && one.at <= to);
  const onPick = (item: string) => wasDragged.current || openItem(item);
  const move = (by: number) => moveTo(from + by, to + by);
  const zoom = (factor: number, center: number) => {
    const length = Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, (to - from) * factor));
    const start = center - ((center - from) / (to - from)) * length;
    moveTo(start, start + length);
  };
  return (
    <section class="view" aria-label="Timeline">
      <div class="bar-top">
        <span class="facets start" role="group" aria-label="span">
          {HOURS.map((one) => (
            <button
              key={one}
              class="facet"
              aria-pressed={isWhole && hours.value === one}
              onClick={() => {
                leave();
                change({ hours: String(one), from: null, to: null });
              }}
            >
              {one}h
            </button>
          ))}
        </span>
        <label class="sort">
          lanes{" "}
          <select value={by.value} onChange={(chosen) => change({ lanes: chosen.currentTarget.value })}>
            {LANES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <span class="buttons">
          <button aria-label="earlier" onClick={() => move((from - to) / 3)}>
            ←
          </button>
          <button aria-label="later" onClick={() => move((to - from) / 3)}>
            →
          </button>
          <button aria-label="a shorter span" onClick={() => zoom(0.5, to)}>
            +
          </button>
          <button aria-label="a longer span" onClick={() => zoom(2, to)}>
            −
          </button>
          {place.value && (
            <button
              onClick={() => {
                leave();
                change({ from: null, to: null });
              }}
            >
              now
            </button>
          )}
        </span>
        <button aria-pressed={isTable.value} onClick={() => change({ as: isTable.value ? null : "table" })}>
          <kbd>T</kbd> table
        </button>
        <span class="count" role="status" data-runs={runs.length}>
          {many(runs.length, "run")}, {many(refused.length, "conflict")} avoided
          {found.isTruncated.value && ", the oldest are left out"}
        </span>
      </div>
      {found.problem.value && <p class="row empty">{found.problem.value}</p>}
      <div
        class="time-box"
        ref={box}
        onScroll={look}
        tabIndex={0}
        aria-label="Lanes"
        role="region"
        onWheel={(wheel) => {
          if (!wheel.ctrlKey) return;
          wheel.preventDefault();
          const rect = box.current!.getBoundingClientRect();
          zoom(wheel.deltaY > 0 ? 1.25 : 0.8, from + (wheel.clientX - rect.left - NAME) / scaleOf(sight.width, from, to));
        }}
        onPointerDown={(down) => {
          drag.current = { x: down.clientX, from, to };
          wasDragged.current = false;
        }}
        onPointerMove={(pointer) => {
          const start = drag.current;
          if (!start || !pointer.buttons) return;
          const shift = (start.x - pointer.clientX) / scaleOf(sight.width, start.from, start.to);
          if (Math.abs(pointer.clientX - start.x) <= CLICK_PIXELS_MAX) return;
          wasDragged.current = true;
          moveTo(start.from + shift, start.to + shift);
        }}
        onPointerUp={() => (drag.current = null)}
      >
        {!runs.length && found.changed.value > 0 && !found.problem.value && (
          <p class="row empty">Nobody held anything in this span.</p>
        )}
        {isTable.value ? (
          <Table {...{ runs, refused, at }} />
        ) : (
          <div style={{ height: `${Math.max(sight.height - 4, rows.length * LANE + 24)}px` }}>
            <div class="stick">
              <Lanes
                {...{ lanes: rows, from, to, now: at, top: sight.top, height: sight.height - 4, onPick }}
                label={`${many(lanes.length, "lane")} with ${many(runs.length, "run")}; T shows them as a table`}
              />
            </div>
          </div>
        )}
      </div>
      {!isTable.value && <Depth hours={hours.value} place={settled.value} width={sight.width} from={from} to={to} />}
      <footer class="bar-bottom">
        <span class="legend">
          <Legend /> <span class="violet">◆ refused</span> <span class="amber">▒ silent</span>
          <span class="fine-pointer"> · drag, ctrl+wheel</span>
        </span>
      </footer>
    </section>
  );
}
