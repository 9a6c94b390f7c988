/**
 * The board as this tab knows it: one snapshot, which `fold` brings up to date.
 *
 * The collections are plain maps; `version` says that something in them changed, at most a few times a second, however
 * many events arrive.
 */
import { signal } from "@preact/signals";
import type { Brief, Event, Held, Seat, View } from "../api";
import * as clock from "./clock";
import { get } from "./http";

export const ENDED = new Set(["done", "failed", "rejected", "cancelled"]);
const RENDER_MS = 500;
const ITEMS_MAX = 8_000;
export const FEED_MAX = 1_000;

export const items = new Map<string, Known>();
export const holdings = new Map<string, Held>();
export const seats = new Map<string, Seat>();
/** The latest events, the newest first, without a gap. */
export const feed: Event[] = [];
/** A failed item says why its latest run ended. */
export type Known = Brief & { reason?: string | null };

export const version = signal(0);
export const isLoaded = signal(false);
export const counts = signal<Record<string, number>>({});
export const settings = signal<Record<string, number>>({});
export const me = signal<Record<string, string>>({ role: "viewer", actor: "" });
/** How many items that have not ended, and how many live sessions, the board has beside those that it gave. */
export const leftOff = signal(0);
export const sessionsLeftOff = signal(0);

/** Nothing on the screen changes while it is paused; afterwards it shows everything at once. */
export const isPaused = signal(false);

/** The counts that `version` shows next. */
export let nextCounts: Record<string, number> = {};
/** When and after which event the board was read, by the server. */
export let readAt = 0;
export let readEvent = 0;
let timer: ReturnType<typeof setTimeout> | null = null;
let readings = 0;

export async function read(): Promise<void> {
  const mine = ++readings;
  const view = await get<View & { sessions_left_off?: number }>("/v1/view");
  // Reading the answer took a while; a click that came meanwhile goes first.
  await new Promise((resolve) => setTimeout(resolve));
  // An answer that was overtaken shows an older board, or one that was replaced.
  if (mine !== readings) return;
  replace(items, view.items, (one) => one.id);
  replace(holdings, view.holdings, (one) => one.item);
  replace(seats, view.sessions, (one) => one.id);
  settings.value = view.settings;
  me.value = view.me ?? me.value;
  leftOff.value = view.left_off;
  sessionsLeftOff.value = view.sessions_left_off ?? 0;
  nextCounts = { ...view.counts };
  readAt = view.at;
  readEvent = view.event;
  clock.set(view.at);
  show();
  isLoaded.value = true;
}

export function pause(paused: boolean): void {
  isPaused.value = paused;
  if (!paused) show();
}

/** A page that is open for days must not collect everything that ever ended. */
function trim(): void {
  let surplus = items.size - ITEMS_MAX;
  for (const item of surplus > 0 ? items.values() : []) {
    if (surplus <= 0) break;
    if (!ENDED.has(item.status)) continue;
    items.delete(item.id);
    surplus--;
  }
}

/** Show what has changed, not at once but with what changes next. */
export function soon(): void {
  timer ??= setTimeout(show, RENDER_MS);
}

function show(): void {
  if (timer) clearTimeout(timer);
  timer = null;
  trim();
  if (isPaused.peek()) return;
  counts.value = { ...nextCounts };
  version.value++;
}

function replace<T>(map: Map<string, T>, values: T[], key: (value: T) => string): void {
  map.clear();
  for (const value of values) map.set(key(value), value);
}
