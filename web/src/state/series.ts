/** Figures over time, as the server rebuilds them from the history. */
import { useEffect, useState } from "preact/hooks";
import type * as api from "../api";
import { isSet, now } from "./clock";
import { get } from "./http";
import { whenSeen } from "./seen";

/** One value for each step; null where there is none. */
export type Values = (number | null)[];
type Lists = "events" | "depth" | "time_to_claim" | "duration" | "cost";
export type Series = Omit<api.Series, Lists> & Record<Lists, Record<string, Values>>;

const AGAIN_MS = 30_000;
/** The past of a very busy board takes long to read: it is read again after so many times as long. */
const REST = 20;
const POINTS = 240;

export interface Place {
  from: number;
  to: number;
}

/** Of this place, or of the latest hours, again and again. */
export function useSeries(hours: number, place: Place | null = null): { series: Series | null; problem: string | null } {
  const [found, setFound] = useState<{ series: Series | null; problem: string | null }>({ series: null, problem: null });
  const hasTime = isSet.value;
  useEffect(() => {
    if (!hasTime) return;
    let stop = () => {};
    let isWanted = true;
    const again = (began: number) => {
      const timer = setTimeout(() => (stop = whenSeen(ask)), Math.max(AGAIN_MS, REST * (performance.now() - began)));
      stop = () => clearTimeout(timer);
    };
    const ask = () => {
      const began = performance.now();
      const to = Math.min(place?.to ?? Infinity, now.peek());
      const from = place?.from ?? to - hours * 3600_000;
      const step = Math.ceil((to - from) / 1000 / POINTS);
      if (from >= to) {
        setFound({ series: null, problem: null });
        return again(began);
      }
      void get<Series>(`/v1/series?from=${from}&to=${to}&step=${step}`)
        .then(
          (series) => isWanted && setFound({ series, problem: null }),
          (error) => isWanted && setFound((old) => ({ ...old, problem: error.message })),
        )
        .then(() => isWanted && again(began));
    };
    ask();
    return () => {
      isWanted = false;
      stop();
    };
  }, [hours, hasTime, place?.from, place?.to]);
  return found;
}

export const sum = (values: Values = []): number => values.reduce<number>((all, one) => all + (one ?? 0), 0);
