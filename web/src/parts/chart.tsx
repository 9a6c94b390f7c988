/** A chart over time, and the same as a table. */
import { useEffect, useRef, useState } from "preact/hooks";
import "./language";
import uPlot from "uplot";
import { prefs } from "../state/prefs";
import type { Values } from "../state/series";
import { time } from "../state/text";

export interface Line {
  name: string;
  /** A colour of the style sheet. */
  tone: string;
  values: Values;
}

const HEIGHT = 170;
const TABLE_ROWS = 24;
/** 1.2M and not 1,200,000, which is wider than the axis. */
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 3 });

/** The hour, and at midnight the day. */
function clock(seconds: number): string {
  const at = new Date(seconds * 1000);
  return at.getHours() || at.getMinutes() ? time(seconds * 1000).slice(0, 5) : `${at.getDate()}.${at.getMonth() + 1}.`;
}

export function Chart({ title, from, step, lines, unit = "" }: { title: string; from: number; step: number; lines: Line[]; unit?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [isTable, setTable] = useState(false);
  const theme = prefs.value.theme;
  const size = lines[0]?.values.length ?? 0;
  useEffect(() => {
    const element = box.current;
    if (isTable || !element) return;
    const style = getComputedStyle(element);
    const color = (name: string) => {
      element.style.color = `var(--${name})`;
      const found = style.color;
      element.style.color = "";
      return found;
    };
    const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { live: false },
        cursor: { y: false },
        scales: { y: { range: (_, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
        axes: [{ ...axis, size: 28, values: (_, at) => at.map(clock) }, { ...axis, size: 46, values: (_, at) => at.map((value) => compact.format(value)) }],
        series: [
          {},
          ...lines.map((line) => ({ label: line.name, stroke: color(line.tone), width: 1.5, points: { show: false }, spanGaps: true })),
        ],
      },
      [Array.from({ length: size }, (_, at) => from / 1000 + at * step), ...lines.map((line) => line.values)],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [isTable, theme, from, lines]);
  const stride = Math.max(1, Math.ceil(size / TABLE_ROWS));
  // The latest value is the last row, whatever the stride.
  const rows = Array.from({ length: Math.ceil(size / stride) }, (_, at) => size - 1 - at * stride).reverse();
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
        <div class="chart-table" tabIndex={0} role="region" aria-label={title}>
          <table class="runs">
            <thead>
              <tr>
                <th>time</th>
                {lines.map((line) => (
                  <th key={line.name}>{line.name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((at) => (
                <tr key={at}>
                  <td>{time(from + at * step * 1000).slice(0, 5)}</td>
                  {lines.map((line) => (
                    <td key={line.name}>{line.values[at] == null ? "–" : Math.round(line.values[at]! * 100) / 100}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <div ref={box} role="img" aria-label={`${title}: ${lines.map((line) => line.name).join(", ")}; the table has the figures`} />
      )}
    </figure>
  );
}
