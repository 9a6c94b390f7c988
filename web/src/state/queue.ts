/** Which items a filter finds, in order. From this tab's own copy if that is whole, else from the server, page by page. */
import { computed, effect, signal, untracked } from "@preact/signals";
import type { Brief, Paged } from "../api";
import { counts, ENDED, isLoaded, items, leftOff, version } from "./board";
import { type Filter, matcher, parse, query } from "./filter";
import { get } from "./http";
import { List } from "./list";
import { route, view } from "./route";
import { whenSeen } from "./seen";

const PAGE = 200;
/** The server gives no more at once. */
const ASKED_MAX = 500;
/** The server is asked again at most this often while the board changes, */
const AGAIN_MS = 3_000;
/** and after this many times as long as its last answer took: many tabs on a long queue must not keep it busy. */
const REST = 10;

export const list = new List();
export const text = computed(() => route.value.query.q ?? "");
export const total = signal(0);
export const isWaiting = signal(false);

const filter = computed(() => parse(text.value));
const tally = signal<Record<string, number>>({});
/** How many items of each status fit the rest of the filter. Without one, the board counts all of them. */
export const facets = computed(() => {
  const { status: _, words, ...rest } = filter.value;
  return words.length || Object.keys(rest).length ? tally.value : counts.value;
});
/** Ended items are too many to keep here, and the latest runs of items that nobody holds are not known. */
export const isRemote = computed(
  () => leftOff.value > 0 || !!filter.value.agent || !!filter.value.status?.some((status) => ENDED.has(status)),
);

let asked = "";
let next: string | null = null;
let found: string[] = [];
let fetching = false;
let took = 0;
let timer: ReturnType<typeof setTimeout> | null = null;

const order = (a: Brief, b: Brief) => b.priority - a.priority || a.created_at - b.created_at || (a.id < b.id ? -1 : 1);

effect(() => {
  if (!isLoaded.value || view.value !== "queue") return;
  version.value;
  const fresh = text.value !== asked;
  asked = text.value;
  untracked(() => {
    if (!isRemote.value) local(fresh);
    else if (fresh || !found.length) {
      // What is known here is shown while the server looks at all of them.
      if (fresh) list.offer(fitting(filter.value).sort(order).map((item) => item.id), true);
      void ask(true);
    } else askLater();
  });
});

function fitting({ status, ...rest }: Filter): Brief[] {
  const matches = matcher(rest);
  const isWanted = (item: Brief) => (status ? status.includes(item.status) : !ENDED.has(item.status));
  return [...items.values()].filter((item) => isWanted(item) && matches(item));
}

function local(fresh: boolean): void {
  const { status: _, ...rest } = filter.value;
  const matches = matcher(rest);
  const fits: Record<string, number> = {};
  for (const item of items.values()) if (matches(item)) fits[item.status] = (fits[item.status] ?? 0) + 1;
  const found = fitting(filter.value).sort(order);
  tally.value = fits;
  total.value = found.length;
  list.offer(found.map((item) => item.id), fresh);
}

export function more(): void {
  if (isRemote.peek() && next !== null && !fetching) void ask(false);
}

/** Rows change in place by events. Their order is asked for again unless somebody has scrolled far. */
function askLater(): void {
  if (found.length > ASKED_MAX) return;
  timer ??= setTimeout(() => {
    whenSeen(() => {
      timer = null;
      void ask(true);
    });
  }, Math.max(AGAIN_MS, REST * took));
}

async function ask(fresh: boolean): Promise<void> {
  const question = asked;
  const parameters = query(filter.peek());
  if (!parameters.has("status"))
    for (const status of ["pending_approval", "blocked", "scheduled", "ready", "in_progress", "parked"])
      parameters.append("status", status);
  parameters.set("limit", String(fresh ? Math.max(PAGE, found.length) : PAGE));
  if (!fresh && next) parameters.set("cursor", next);
  fetching = true;
  isWaiting.value = !found.length;
  const began = performance.now();
  try {
    const page = await get<Paged>(`/v1/page?${parameters}`);
    if (question !== asked) return;
    for (const item of page.items) if ((items.get(item.id)?.revision ?? 0) < item.revision) items.set(item.id, item);
    found = fresh ? [] : found;
    const known = new Set(found);
    found = [...found, ...page.items.map((item) => item.id).filter((id) => !known.has(id))];
    next = page.next;
    total.value = page.total;
    tally.value = page.counts.status ?? {};
    list.offer(found, question !== shownFor || !fresh);
    shownFor = question;
  } catch {
    // The lamp says that the server is away; the next change asks again.
  } finally {
    took = performance.now() - began;
    fetching = false;
    isWaiting.value = false;
  }
}
let shownFor = "";
