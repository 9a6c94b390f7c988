/** Events from before the page was opened, appended to the feed. */
import { signal } from "@preact/signals";
import type { Event } from "../api";
import { feed, FEED_MAX, soon } from "./board";
import { get, Problem } from "./http";

const PAGE = 200;
/** As many as a glance takes in. */
const FEW = 30;

export const isAsking = signal(false);

/** So that the feed does not begin empty. */
export function begin(): void {
  if (feed.length < FEW) back();
}

/** Whether there may be something before the oldest event of the feed, as far as this page keeps events. */
export const hasEarlier = (): boolean => feed.length < FEED_MAX && feed.at(-1)?.id !== oldest;

/** The first event that the board has kept, as far as that is known. */
let oldest = 1;

export function back(): void {
  if (isAsking.peek() || !hasEarlier()) return;
  const first = feed.at(-1)?.id;
  void append(first ? `after=${Math.max(0, first - PAGE - 1)}` : "newest=true");
}

async function append(where: string): Promise<void> {
  isAsking.value = true;
  try {
    const found = await get<Event[]>(`/v1/events?${where}&limit=${PAGE}`).catch((error: Problem) => {
      // Events after this cursor were pruned: what is left begins later.
      if (error.status === 422) return get<Event[]>(`/v1/events?limit=${PAGE}`);
      throw error;
    });
    // Events that arrived meanwhile are in the feed already.
    const first = feed.at(-1)?.id ?? Infinity;
    const older = found.filter((event) => event.id < first).reverse();
    feed.push(...older.slice(0, FEED_MAX - feed.length));
    if (!older.length && feed.length) oldest = first;
    soon();
  } catch {
    // The lamp says that the server is away.
  } finally {
    isAsking.value = false;
  }
}
