/** Events from before the page was opened, appended to the feed. */
import { signal } from "@preact/signals";
import type { Event } from "../api";
import { feed, FEED_MAX, soon } from "./board";
import { eventsBetween, latestEvents } from "./events";
import { Problem } from "./http";

const PAGE = 200;
/** As many as a glance takes in. */
const FEW = 30;

export const isAsking = signal(false);
/** Why the latest question was not answered. */
export const problem = signal<string | null>(null);

/** So that the feed does not begin empty. */
export function begin(): void {
  if (feed.length < FEW) back();
}

/** Whether there may be something before the oldest event of the feed, as far as this page keeps events. */
export const hasEarlier = (): boolean => feed.length < FEED_MAX && feed.at(-1)?.id !== oldest;

/** The first event that the board has kept, as far as that is known. */
let oldest = 1;
/** How many events back are asked for: less where events are large. */
let reach = PAGE;

export function back(): void {
  if (!isAsking.peek() && hasEarlier()) void append(feed.at(-1)?.id);
}

async function append(first: number | undefined): Promise<void> {
  isAsking.value = true;
  try {
    const found = first ? await before(first) : await latestEvents(PAGE);
    if (found.length) reach = Math.min(PAGE, found.length);
    // Events that arrived meanwhile are in the feed already.
    const next = feed.at(-1)?.id ?? Infinity;
    const older = found.filter((event) => event.id < next).reverse();
    feed.push(...older.slice(0, FEED_MAX - feed.length));
    if (!older.length && feed.length) oldest = next;
    problem.value = null;
    soon();
  } catch (error) {
    problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    isAsking.value = false;
  }
}

/** Numbers of events have gaps: where the last few have none, it is looked further back. */
async function before(first: number): Promise<Event[]> {
  for (; ; reach *= 2) {
    const found = await eventsBetween(Math.max(0, first - reach - 1), first).catch((error: Problem) => {
      const floor = error.facts?.event_floor;
      // Events after this cursor were pruned: what is left begins later.
      if (typeof floor === "number") return eventsBetween(floor, first);
      throw error;
    });
    if (found.length || reach >= PAGE) return found;
  }
}
