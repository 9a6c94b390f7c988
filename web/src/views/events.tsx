/** The feed, the latest event first, and further back on demand. */
import "../core";
import { computed } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Event } from "../api";
import { EventLine, Nothing, useFeed } from "../parts/feed";
import { useSight } from "../parts/window";
import { feed, version } from "../state/board";
import { back, hasEarlier, isAsking } from "../state/history";
import { change, route } from "../state/route";
import { many, number } from "../state/text";

const LINE = 22;
const BEYOND = 6;
const text = computed(() => route.value.query.q ?? "");

const fits = (event: Event, words: string[]): boolean => {
  const hay = `${event.item} ${event.kind} ${event.session ?? ""} ${event.agent ?? ""} ${event.actor}`.toLowerCase();
  return words.every((word) => hay.includes(word));
};

export function Events() {
  const { box, sight, look } = useSight();
  version.value;
  useFeed();
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = feed.filter((event) => fits(event, words));
  // Lines do not move under somebody who reads them: what is newer is counted.
  const [upTo, setUpTo] = useState(Infinity);
  const hold = () => {
    const isRead = box.current!.scrollTop > 0 || box.current!.matches(":hover");
    setUpTo((old) => (isRead ? Math.min(old, feed[0]?.id ?? Infinity) : Infinity));
  };
  const shown = fitting.filter((event) => event.id <= upTo);
  const news = fitting.length - shown.length;
  const first = Math.max(0, Math.floor(sight.top / LINE) - BEYOND);
  const last = first + Math.ceil(sight.height / LINE) + 2 * BEYOND;
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
          {many(shown.length, "event")}
        </span>
        {news > 0 && (
          <button
            class="chip"
            onClick={() => {
              box.current!.scrollTop = 0;
              setUpTo(Infinity);
            }}
          >
            {number(news)} new
          </button>
        )}
      </div>
      <div
        class="tall"
        ref={box}
        onScroll={() => (look(), hold())}
        onMouseEnter={hold}
        onMouseLeave={hold}
        tabIndex={0}
        role="region"
        aria-label="Events, the latest first"
      >
        <ol class="events" style={{ height: `${shown.length * LINE}px`, paddingTop: `${first * LINE}px` }}>
          {shown.slice(first, last).map((event) => (
            <EventLine key={event.id} event={event} />
          ))}
        </ol>
        {!shown.length && !isAsking.value && (words.length && feed.length ? <p class="dim">No event fits.</p> : <Nothing />)}
        {feed.length > 0 && hasEarlier() && (
          <button disabled={isAsking.value} onClick={back}>
            earlier
          </button>
        )}
      </div>
    </section>
  );
}
