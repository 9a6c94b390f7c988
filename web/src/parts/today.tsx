/** The day in three lines. */
import "../core";
import { counts } from "../state/board";
import { sum, useSeries, type Values } from "../state/series";
import { number } from "../state/text";

function Spark({ values, label }: { values: Values; label: string }) {
  const most = Math.max(1, ...values.map(Number));
  const points = values.map((value, at) => `${(at * 100) / Math.max(1, values.length - 1)},${22 - (20 * (value ?? 0)) / most}`);
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.join(" ")} fill="none" stroke="currentColor" vector-effect="non-scaling-stroke" />
    </svg>
  );
}

export function Today() {
  const { series, problem } = useSeries(24, null, true);
  if (problem && !series) return <p class="dim">{problem}</p>;
  if (!series) return <p class="late">loading …</p>;
  const { done = [], failed = [], expired = [] } = series.events;
  const rate = sum(done) + sum(failed) ? Math.round((100 * sum(failed)) / (sum(done) + sum(failed))) : 0;
  const perHour = Math.max(1, Math.round(3600 / series.step_seconds));
  const ready = series.depth.ready ?? [];
  return (
    <dl class="today-lines">
      <dt>ready</dt>
      <dd>{number(counts.value.ready ?? 0)}</dd>
      <dd class="blue">
        <Spark values={ready} label={`ready items over the day, now ${counts.value.ready ?? 0}`} />
      </dd>
      <dt>done in the last hour</dt>
      <dd>{number(sum(done.slice(-perHour)))}</dd>
      <dd class="green">
        <Spark values={done} label={`${sum(done)} done over the day`} />
      </dd>
      <dt>failed</dt>
      <dd>{rate}%</dd>
      <dd class="red">
        <Spark values={failed} label={`${sum(failed)} failed over the day`} />
      </dd>
      <dt>lost leases</dt>
      <dd>{number(sum(expired))}</dd>
      <dd class="amber">
        <Spark values={expired} label={`${sum(expired)} claims expired over the day`} />
      </dd>
    </dl>
  );
}
