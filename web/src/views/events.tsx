/** The feed since this page was opened, and further back on demand. */
import "../core";
import { computed, signal } from "@preact/signals";
import type { Event } from "../api";
import { EventLine } from "../parts/feed";
import { useSight } from "../parts/window";
import { feed, readEvent, version } from "../state/board";
import { get } from "../state/http";
import { change, route } from "../state/route";
import { number } from "../state/text";

const BACK = 200;
const SHOWN_MAX = 1_000;
const LINE = 22;
const BEYOND = 6;
const older = signal<Event[]>([]);
const isAsking = signal(false);
const text = computed(() => route.value.query.q ?? "");

async function back(): Promise<void> {
  const first = older.value.at(-1)?.id ?? feed.at(-1)?.id ?? readEvent + 1;
  isAsking.value = true;
  const found = await get<Event[]>(`/v1/events?after=${Math.max(0, first - BACK - 1)}&limit=${BACK}`).catch(() => []);
  older.value = [...older.value, ...found.filter((event) => event.id < first).reverse()].slice(0, SHOWN_MAX);
  isAsking.value = false;
}

const fits = (event: Event, words: string[]): boolean => {
  const hay = `${event.item} ${event.kind} ${event.session ?? ""} ${event.agent ?? ""} ${event.actor}`.toLowerCase();
  return words.every((word) => hay.includes(word));
};

export function Events() {
  const { box, sight, look } = useSight();
  version.value;
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = [...feed, ...older.value].filter((event) => fits(event, words)).slice(0, SHOWN_MAX);
  const first = Math.max(0, Math.floor(sight.top / LINE) - BEYOND);
  const last = first + Math.ceil(sight.height / LINE) + 2 * BEYOND;
  if (!shown.length && !words.length && !isAsking.value && !older.value.length) void back();
  return (
    <section class="view" aria-label="Events">
      <div class="bar-top">
        <span class="filter">
          <input
            type="search"
            id="filter"
            aria-label="Filter the events"
            placeholder="item, kind, session, agent …  ( / )"
            value={text.value}
            onInput={(input) => change({ q: input.currentTarget.value || null }, true)}
          />
        </span>
        <span class="count" role="status">
          {number(shown.length)} events
        </span>
      </div>
      <div class="tall" ref={box} onScroll={look} tabIndex={0} role="region" aria-label="Events, the latest first">
        <ol class="events" style={{ height: `${shown.length * LINE}px`, paddingTop: `${first * LINE}px` }}>
          {shown.slice(first, last).map((event) => (
            <EventLine key={event.id} event={event} />
          ))}
        </ol>
        <button disabled={isAsking.value} onClick={() => void back()}>
          earlier
        </button>
      </div>
    </section>
  );
}
