/** Figures over time, as the server rebuilds them from the history. */
import { useEffect, useState } from "preact/hooks";
import type * as api from "../api";
import { isSet, now } from "./clock";
import { get } from "./http";

/** One value for each step; null where there is none. */
export type Values = (number | null)[];
type Lists = "events" | "depth" | "time_to_claim" | "duration" | "cost";
export type Series = Omit<api.Series, Lists> & Record<Lists, Record<string, Values>>;

const AGAIN_MS = 30_000;
const POINTS = 240;

export function useSeries(hours: number): { series: Series | null; problem: string | null } {
  const [found, setFound] = useState<{ series: Series | null; problem: string | null }>({ series: null, problem: null });
  const hasTime = isSet.value;
  useEffect(() => {
    if (!hasTime) return;
    let isWanted = true;
    const ask = () => {
      const to = now.peek();
      const step = Math.ceil((hours * 3600) / POINTS);
      get<Series>(`/v1/series?from=${to - hours * 3600_000}&to=${to}&step=${step}`).then(
        (series) => isWanted && setFound({ series, problem: null }),
        (error) => isWanted && setFound((old) => ({ ...old, problem: error.message })),
      );
    };
    ask();
    const timer = setInterval(ask, AGAIN_MS);
    return () => {
      isWanted = false;
      clearInterval(timer);
    };
  }, [hours, hasTime]);
  return found;
}

export const sum = (values: Values = []): number => values.reduce<number>((all, one) => all + (one ?? 0), 0);
