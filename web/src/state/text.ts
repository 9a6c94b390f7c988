/** Numbers, times and names as people read them. */

const PRIORITIES: [number, string][] = [
  ...([[10, "CRIT"], [9, "SEC"], [8, "HIGH"], [5, "MED"], [3, "DOCS"], [1, "LOW"]] as [number, string][]),
];
export const KINDS: Record<string, string> = { autonomous: "AUTO", cli: "CLI", person: "PERSON" };

/** As short as possible: 45s, 12m, 3h, 5d. */
export function ago(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** Time left, to the second: 21:14, 1:02:05. */
export function left(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

export const time = (at: number): string => new Date(at).toTimeString().slice(0, 8);

export const when = (at: number): string => new Date(at).toLocaleString(undefined, { hour12: false });

const day = (at: number, year?: "numeric"): string =>
  new Date(at).toLocaleDateString(undefined, { day: "numeric", month: "short", year });

/** The time of day, and before it the day if that is not the day of `now`: yesterday's 14:02 is not today's. */
export function moment(at: number, now: number): string {
  const [then, today] = [new Date(at), new Date(now)];
  if (then.toDateString() === today.toDateString()) return time(at);
  const year = then.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return `${day(at, year)} ${time(at).slice(0, 5)}`;
}

/** A mark on an axis of time: the hour, and at midnight the day. */
export function hour(at: number): string {
  const text = time(at).slice(0, 5);
  return text === "00:00" ? day(at) : text;
}

const UUID = /^([0-9a-f]{4})[0-9a-f]{4}-(?:[0-9a-f]{4}-){3}[0-9a-f]{8}([0-9a-f]{4})/;
/** The id of a session as people tell it from others: coding agents give theirs a UUID, whose beginning may be the time. */
export const sessionName = (id: string): string => id.replace(UUID, "$1…$2");

export function priority(value: number): string {
  return PRIORITIES.find(([least]) => value >= least)?.[1] ?? String(value);
}

export const ordinal = (n: number): string => n + (["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] ?? "th");

export const words = (status: string): string => status.replaceAll("_", " ");

/** The embeddings, overrides and isolates of Unicode's bidirectional text. */
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;
/** A text with marks for what reorders it. */
export const shown = (text: string): string => text.replace(REORDERING, "\ufffd");

/** 1 run, 2 runs. */
export const many = (n: number, noun: string): string => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;

export const number = (n: number): string => n.toLocaleString("en");
