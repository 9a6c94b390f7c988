/** How many items were ready, as a line below lanes of the same span of time. */
import { counts } from "../state/board";
import { type Place, useSeries } from "../state/series";
import { number } from "../state/text";
import { NAME } from "./lanes";

const HEIGHT = 40;

export function Depth({ hours, place, width, from, to }: Place & { hours: number; place: Place | null; width: number }) {
  const { series, problem } = useSeries(hours, place, true);
  const ready = series?.depth.ready ?? [];
  const most = Math.max(0, ...ready.map(Number));
  const points = ready.flatMap((value, at) => {
    const end = series!.from_at + (at + 1) * series!.step_seconds * 1000;
    return value === null ? [] : [`${end - from},${HEIGHT - 3 - ((HEIGHT - 6) * value) / (most || 1)}`];
  });
  const words = problem ?? (points.length ? `up to ${number(most)}` : "");
  return (
    <div class="depth" style={{ width: `${width}px` }}>
      <span style={{ width: `${NAME}px` }}>
        ready <small class="dim">{words}</small>
      </span>
      <svg
        viewBox={`0 0 ${to - from} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`ready items over this span, ${words}, now ${counts.value.ready ?? 0}; Metrics has the figures`}
      >
        <polyline points={points.join(" ")} fill="none" stroke="currentColor" vector-effect="non-scaling-stroke" />
      </svg>
    </div>
  );
}
