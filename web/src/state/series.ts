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

const AGAIN_MS = 10_000;
/** The past of a very busy board takes long to read: it is read again after so many times as long. */
const REST = 20;
const POINTS = 240;
/** What is shown of a board at least, however young it is. */
export const SPAN_MS_MIN = 2 * 60_000;

export interface Place {
  from: number;
  to: number;
}

/** When the board began, if that is within the span: before, there is nothing to be drawn. */
function beginning({ from_at, step_seconds, depth, events }: Series): number | null {
  const all = [...Object.values(depth), ...Object.values(events)];
  const first = Math.min(...all.map((values) => values.findIndex(Boolean)).filter((at) => at >= 0));
  return first > 1 && first < Infinity ? from_at + (first - 1) * step_seconds * 1000 : null;
}

/** Of this place, or of the latest hours, again and again; `fits`: without the time before the board began. */
export function useSeries(hours: number, place: Place | null = null, fits = false): { series: Series | null; problem: string | null } {
  const [found, setFound] = useState<{ series: Series | null; problem: string | null }>({ series: null, problem: null });
  const hasTime = isSet.value;
  useEffect(() => {
    if (!hasTime) return;
    let stop = () => {};
    let isWanted = true;
    let began: number | null = null;
    const again = (asked: number) => {
      const timer = setTimeout(() => (stop = whenSeen(ask)), Math.max(AGAIN_MS, REST * (performance.now() - asked)));
      stop = () => clearTimeout(timer);
    };
    const ask = () => {
      const asked = performance.now();
      const to = Math.min(place?.to ?? Infinity, now.peek());
      const from = place?.from ?? Math.max(to - hours * 3600_000, Math.min(began ?? 0, to - SPAN_MS_MIN));
      const step = Math.ceil((to - from) / 1000 / POINTS);
      if (from >= to) {
        setFound({ series: null, problem: null });
        return again(asked);
      }
      void get<Series>(`/v1/series?from=${from}&to=${to}&step=${step}`)
        .then(
          (series) => {
            const isFirst = began === null;
            if (fits && !place) began ??= beginning(series);
            // It is asked once more, for what is there to be seen.
            if (isFirst && began !== null) return isWanted && ask();
            if (isWanted) setFound({ series, problem: null });
            return isWanted && again(asked);
          },
          (error) => {
            if (isWanted) setFound((old) => ({ ...old, problem: error.message }));
            return isWanted && again(asked);
          },
        );
    };
    ask();
    return () => {
      isWanted = false;
      stop();
    };
  }, [hours, hasTime, place?.from, place?.to, fits]);
  return found;
}

export const sum = (values: Values = []): number => values.reduce<number>((all, one) => all + (one ?? 0), 0);
