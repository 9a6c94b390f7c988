/** The board over time, rebuilt from its history. */
import "../core";
import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Chart, type Charted, type Line } from "../parts/chart";
import { change, hoursOf, route } from "../state/route";
import { type Series, useSeries, type Values } from "../state/series";
import { words } from "../state/text";

const SPANS: [hours: number, label: string][] = [
  [4, "4h"],
  [24, "24h"],
  [168, "7d"],
];
const DEPTHS: [status: string, tone: string][] = [
  ...([["ready", "green"], ["in_progress", "blue"], ["blocked", "amber"]] as [string, string][]),
  ...([["pending_approval", "violet"], ["parked", "dim"]] as [string, string][]),
];
const hours = computed(() => hoursOf(4, 168));

function charts(series: Series): Omit<Charted, "from" | "step">[] {
  const perMinute = (values: Values) => values.map((value) => value && (value * 60) / series.step_seconds);
  const { claimed = [], done = [], failed = [], expired = [] } = series.events;
  const percentiles = (of: Record<string, Values>): Line[] => [
    { name: "p50", tone: "blue", values: of.p50 ?? [] },
    { name: "p95", tone: "amber", values: of.p95 ?? [] },
  ];
  const rate = done.map((value, at) => {
    const all = (value ?? 0) + (failed[at] ?? 0);
    return all ? (100 * (failed[at] ?? 0)) / all : null;
  });
  return [
    {
      title: "Items by status",
      kind: "count",
      lines: DEPTHS.map(([name, tone]) => ({ name: words(name), tone, values: series.depth[name] ?? [] })),
    },
    {
      title: "Claimed and done",
      unit: "per minute",
      lines: [
        { name: "claimed", tone: "blue", values: perMinute(claimed) },
        { name: "done", tone: "green", values: perMinute(done) },
      ],
    },
    {
      ...{ title: "Failure rate", unit: "% of the runs that ended", kind: "percent" },
      lines: [{ name: "failed", tone: "red", values: rate }],
    },
    { title: "Lost leases", kind: "count", lines: [{ name: "expired", tone: "amber", values: expired }] },
    { title: "Time to claim", kind: "duration", lines: percentiles(series.time_to_claim) },
    { title: "Duration of claims", kind: "duration", lines: percentiles(series.duration) },
    // A chart for each name, since each has a unit of its own.
    ...Object.entries(series.cost).map(([name, values]) => ({ title: `Cost: ${name}`, lines: [{ name, tone: "violet", values }] })),
  ];
}

export function Metrics() {
  const isChosen = !!route.value.query.hours;
  const { series, problem } = useSeries(hours.value, null, !isChosen);
  const isWhole = !series || (series.depth.ready ?? []).length * series.step_seconds > 0.95 * hours.value * 3600;
  const shown = useMemo(() => (series ? charts(series) : []), [series]);
  return (
    <section class="view" aria-label="Metrics">
      <div class="bar-top">
        <span class="facets start" role="group" aria-label="span">
          {SPANS.map(([value, label]) => (
            <button
              key={value}
              class="facet"
              aria-pressed={isWhole && hours.value === value}
              onClick={() => change({ hours: String(value) })}
            >
              {label}
            </button>
          ))}
        </span>
      </div>
      {problem && !series && <p class="row empty">{problem}</p>}
      <div class="charts">
        {series && shown.map((one) => <Chart key={one.title} {...one} from={series.from_at} step={series.step_seconds} />)}
      </div>
    </section>
  );
}
