/** The latest events as lines. */
import "../core";
import { useEffect } from "preact/hooks";
import type { Event } from "../api";
import { feed, version } from "../state/board";
import { back, begin, isAsking, problem } from "../state/history";
import { now } from "../state/clock";
import { isLive } from "../state/lamp";
import { ago, moment, when } from "../state/text";
import { TONES } from "./marks";
import { Text } from "./bits";
import { ItemLink, SessionText } from "./words";

export function words(event: Event): string {
  const { reason, note, comment, to, ttl_seconds } = event.data as Record<string, string | number | undefined>;
  if (event.kind === "handed") return [`to ${to}`, ...(reason ? [reason] : [])].join(" · ");
  return String(note ?? reason ?? comment ?? (ttl_seconds ? `for ${ago(Number(ttl_seconds))}` : elsewhere(event)));
}

/** What another system says about the item or its run: see `external` and `annotate`. */
function elsewhere({ data, kind, actor, agent }: Event): string {
  const { payload, checks } = data as { payload?: { external?: { said?: string } }; checks?: Record<string, { state: string }> };
  const told = Object.entries(checks ?? {}).map(([name, check]) => `${name}: ${check.state}`);
  // The session of an annotation is that of the run, whoever wrote it.
  const by = kind === "annotated" && actor !== agent ? [`by ${actor}`] : [];
  return payload?.external?.said ?? [...by, ...(told.length ? [told.join(", ")] : [])].join(" · ");
}

export const EventLine = ({ event, names = true }: { event: Event; names?: boolean }) => (
  <li>
    <time class="dim" dateTime={new Date(event.at).toISOString()} title={when(event.at)}>
      {moment(event.at, now.peek())}
    </time>{" "}
    {names && <ItemLink id={event.item} />} <b class={TONES[event.kind] ?? ""}>{event.kind.replaceAll("_", " ")}</b>{" "}
    <span class="dim">
      {event.session ? <SessionText id={event.session} /> : <Text>{event.actor}</Text>}
    </span>{" "}
    <Text>{words(event)}</Text>
  </li>
);

/** Why there is no event: an error is not taken for an empty feed. */
export const Nothing = () =>
  problem.value === null ? (
    <p class="dim">Nothing has happened yet.</p>
  ) : (
    <p class="red" role="alert">
      The events could not be read: {problem.value} <button onClick={back}>try again</button>
    </p>
  );

/** More of them than fit are of no use to a glance. */
const MOST = 30;

/** The feed begins with what happened before the page was opened, and so it does after a gap. */
export const useFeed = () => useEffect(begin, [isLive(), feed.length === 0]);

export function Feed() {
  version.value;
  useFeed();
  const shown = feed.filter((event) => event.kind !== "claimable").slice(0, MOST);
  if (!shown.length) return isAsking.value ? <p class="late">loading …</p> : <Nothing />;
  return (
    <ol class="events">
      {shown.map((event) => (
        <EventLine key={event.id} event={event} />
      ))}
    </ol>
  );
}
