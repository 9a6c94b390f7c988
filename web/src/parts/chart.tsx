/** A chart over time, and the same as a table. */
import { useEffect, useRef, useState } from "preact/hooks";
import "./language";
import uPlot from "uplot";
import { prefs } from "../state/prefs";
import type { Values } from "../state/series";
import { time } from "../state/text";
import { duration } from "./duration";
import { Later } from "./later";

export interface Line {
  name: string;
  /** A colour of the style sheet. */
  tone: string;
  values: Values;
}

const HEIGHT = 170;
/** 1.2M and not 1,200,000, which is wider than the axis. */
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 3 });

/** The hour, and at midnight the day. */
function clock(seconds: number): string {
  const at = new Date(seconds * 1000);
  return at.getHours() || at.getMinutes() ? time(seconds * 1000).slice(0, 5) : `${at.getDate()}.${at.getMonth() + 1}.`;
}

/** Where a duration has its lines: not at 2,500 seconds. */
const STEPS = [0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 21600, 86400, 604800];

export interface Charted {
  title: string;
  /** Its values are seconds, shown as 1h30m. */
  isDuration?: boolean;
  from: number;
  step: number;
  lines: Line[];
  unit?: string;
}

export function Chart(given: Charted) {
  const { title, from, lines, unit = "" } = given;
  const latest = useRef(given);
  latest.current = given;
  const box = useRef<HTMLDivElement>(null);
  const [isTable, setTable] = useState(false);
  const theme = prefs.value.theme;
  const clear = useRef(() => {});
  useEffect(() => {
    if (isTable) return;
    // Each chart in a task of its own, so that no click waits for all of them. The old one stays until then.
    const timer = setTimeout(() => {
      clear.current();
      clear.current = plotted(box.current!, given);
    });
    return () => clearTimeout(timer);
  }, [isTable, theme, from, lines]);
  useEffect(() => () => clear.current(), []);
  return (
    <figure class="chart">
      <figcaption>
        <h2>
          <bdi>{title}</bdi> {unit && <small>{unit}</small>}
        </h2>
        <button class="plain" aria-pressed={isTable} aria-label={`${title} as a table`} onClick={() => setTable(!isTable)}>
          table
        </button>
      </figcaption>
      {isTable ? (
        <Later load={() => import("./chart_table").then((found) => () => <found.ChartTable {...latest.current} />)} />
      ) : (
        <div ref={box} role="img" aria-label={`${title}: ${lines.map((line) => line.name).join(", ")}; the table has the figures`} />
      )}
    </figure>
  );
}

/** Draws into the element, until the returned function is called. */
function plotted(element: HTMLElement, { from, step, lines, isDuration }: Charted): () => void {
  const style = getComputedStyle(element);
  const color = (name: string) => {
    element.style.color = `var(--${name})`;
    const found = style.color;
    element.style.color = "";
    return found;
  };
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
  const times = Array.from(lines[0]?.values ?? [], (_, at) => from / 1000 + at * step);
  const plot = new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      legend: { live: false },
      cursor: { y: false },
      scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
      axes: [{ ...axis, size: 28, values: (_, at) => at.map(clock) }, { ...axis, size: 50, ...(isDuration ? { incrs: STEPS } : {}), values: (_, at) => at.map(isDuration ? duration : compact.format) }],
      series: [
        {},
        ...lines.map((line) => ({ label: line.name, stroke: color(line.tone), width: 1.5, points: { show: false }, spanGaps: true })),
      ],
    },
    [times, ...lines.map((line) => line.values)],
    element,
  );
  const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
  observer.observe(element);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}
