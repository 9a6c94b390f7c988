/** The figures of a chart. */
import "../core";
import { time } from "../state/text";
import { duration } from "./duration";
import type { Charted } from "./chart";

const ROWS = 24;

export function ChartTable({ title, from, step, lines, isDuration }: Charted) {
  const written = (value: number) => (isDuration ? duration(value) : String(Math.round(value * 100) / 100));
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
              <td>{time(from + at * step * 1000).slice(0, 5)}</td>
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
