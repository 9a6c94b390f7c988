/** The figures of a chart. */
import "../core";
import { now } from "../state/clock";
import { moment } from "../state/text";
import type { Charted } from "./chart";

const ROWS = 24;

/** `duration` is given, so that it is loaded with the chart alone. */
export function ChartTable({ title, from, step, lines, kind, duration }: Charted & { duration(seconds: number): string }) {
  const written = (value: number) => (kind === "duration" ? duration(value) : String(Math.round(value * 100) / 100));
  const size = lines[0]?.values.length ?? 0;
  const stride = Math.max(1, Math.ceil(size / ROWS));
  // The latest value is the last row, whatever the stride.
  const rows = Array.from({ length: Math.ceil(size / stride) }, (_, at) => size - 1 - at * stride).reverse();
  return (
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
              <td>{moment(from + at * step * 1000, now.peek())}</td>
              {lines.map((line) => (
                <td key={line.name}>{line.values[at] == null ? "–" : written(line.values[at]!)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
