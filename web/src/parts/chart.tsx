/** A chart over time, and the same as a table. */
import { useEffect, useRef, useState } from "preact/hooks";
import "./language";
import uPlot from "uplot";
import { isDark } from "../state/prefs";
import type { Values } from "../state/series";
import { hour, shown } from "../state/text";
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

/** Where an axis may have its lines: a duration not at 2,500 seconds, and a number of items not at a half. */
const LINES: { [kind: string]: number[] } = {
  count: [1, 10, 100, 1_000, 10_000, 100_000].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  duration: [0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 21600, 86400, 604800],
};

export interface Charted {
  title: string;
  /** What its values are: items, seconds, which are shown as 1h30m, percents, or anything. */
  kind?: "count" | "duration" | "percent";
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
  const colours = isDark.value;
  const clear = useRef(() => {});
  useEffect(() => {
    if (isTable) return;
    // Each chart in a task of its own, so that no click waits for all of them. The old one stays until then.
    const timer = setTimeout(() => {
      clear.current();
      clear.current = plotted(box.current!, given);
    });
    return () => clearTimeout(timer);
  }, [isTable, colours, from, lines]);
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
        <Later load={() => import("./chart_table").then((found) => () => <found.ChartTable {...latest.current} {...{ duration }} />)} />
      ) : (
        <div ref={box} role="img" aria-label={`${title}: ${lines.map((line) => line.name).join(", ")}; the table has the figures`} />
      )}
    </figure>
  );
}

/** Draws into the element, until the returned function is called. */
function plotted(element: HTMLElement, { from, step, lines, kind }: Charted): () => void {
  const style = getComputedStyle(element);
  const color = (name: string) => {
    element.style.color = `var(--${name})`;
    const found = style.color;
    element.style.color = "";
    return found;
  };
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
  const top = (most: number) => (kind === "percent" ? 100 : most > 0 ? most * 1.05 : 1);
  const written = kind === "duration" ? duration : compact.format;
  const times = Array.from(lines[0]?.values ?? [], (_, at) => from / 1000 + at * step);
  const plot = new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT,
      legend: { live: false },
      cursor: { y: false },
      scales: { y: { range: (_, _least, most) => [0, top(most)] } },
      axes: [
        { ...axis, size: 28, values: (_, at) => at.map((seconds) => hour(seconds * 1000)) },
        { ...axis, size: 50, incrs: LINES[kind!]!, values: (_, at) => at.map(written) },
      ],
      series: [
        {},
        ...lines.map((line) => ({ label: shown(line.name), stroke: color(line.tone), width: 1.5, points: { show: false }, spanGaps: true })),
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
