/** Reading the feed in pages: some events contain a text of a megabyte, and an answer has a limit. */
import type { Event } from "../api";
import { get } from "./http";

const PAGE = 200;
/** What a page of events may have, a little less than what the server sends. */
const BYTES_MAX = 2_000_000;

const page = (question: string, limit: number): Promise<Event[]> =>
  get<Event[]>(`/v1/events?${question}&limit=${limit}&bytes_max=${BYTES_MAX}`);

/** The latest events, of one item if it is named, oldest first: as many as fit into a page, and at least one. */
export const latestEvents = (limit: number, item?: string): Promise<Event[]> =>
  page(`newest=true${item === undefined ? "" : `&item=${encodeURIComponent(item)}`}`, limit);

/** All events between these two numbers, oldest first, however many pages that takes. */
export async function eventsBetween(after: number, until: number): Promise<Event[]> {
  const found: Event[] = [];
  for (let cursor = after; cursor < until - 1; ) {
    const more = await page(`after=${cursor}`, Math.min(PAGE, until - 1 - cursor));
    if (!more.length) break;
    found.push(...more.filter((event) => event.id < until));
    cursor = more.at(-1)!.id;
  }
  return found;
}
