/** Events and vitals, folded into the board as the rules fold them: nothing is read again for a change. */
import type { Brief, Event, Seat, Waiter } from "../api";
import { ENDED, feed, FEED_MAX, holdings, items, type Known, nextCounts, readEvent, seats, soon } from "./board";
import type { Vitals } from "./stream";
import { CONTENT, DECIDED, DEFAULTS } from "../rules";

const RECENT_MAX = 10;

/** False if the event is about an item that this tab does not have. */
export function applyEvent(event: Event): boolean {
  const before = items.get(event.item);
  // A snapshot that was read meanwhile may show what the event did, but no snapshot has events.
  if (event.id > (feed[0]?.id ?? readEvent) && feed.unshift(event) > FEED_MAX) feed.pop();
  soon();
  if (before && event.number <= before.revision) return true;
  if (!before && event.kind !== "added") return false;
  const after = before ? fold(before, event) : added(event);
  items.set(after.id, after);
  count(before?.status, after.status);
  if (ENDED.has(after.status) || (before && ENDED.has(before.status))) tellDependents(after);
  hold(after, event);
  return true;
}

export function applyVitals(vitals: Vitals): void {
  for (const [item, [expires, beats]] of Object.entries(vitals.renewed ?? {})) {
    const held = holdings.get(item);
    if (!held) continue;
    const expires_at = ms(expires);
    // A claim that reaches its deadline expires earlier than its TTL after the renewal.
    const renewed_at = expires_at < held.deadline_at ? expires_at - held.ttl_seconds * 1000 : vitals.at;
    holdings.set(item, { ...held, expires_at, renewed_at, heartbeat_count: beats });
  }
  for (const [session, at] of Object.entries(vitals.seen ?? {})) {
    const seat = seats.get(session);
    if (seat) seats.set(session, { ...seat, seen_at: ms(at) });
  }
  for (const [item, queue] of Object.entries(vitals.queues ?? {})) {
    const held = holdings.get(item);
    const known = new Map(held?.waiters.map((one) => [one.session, one]));
    const waiters = queue.map((session) => known.get(session) ?? waiter(session, vitals.at));
    if (held) holdings.set(item, { ...held, waiters });
    const brief = items.get(item);
    if (brief) items.set(item, { ...brief, waiters: queue.length });
  }
  for (const seat of (vitals.sessions?.started ?? []) as Seat[]) seats.set(seat.id, seat);
  for (const id of vitals.sessions?.ended ?? []) seats.delete(id);
  soon();
}

function added(event: Event): Brief {
  return {
    ...DEFAULTS,
    reason: null,
    ...picked(event, CONTENT),
    id: event.item,
    status: event.status,
    created_by: event.actor,
    created_at: event.at,
    updated_at: event.at,
    token: event.token,
    revision: event.number,
    open_blockers: blockers(picked(event, ["depends_on"]).depends_on as string[] | undefined, event.status),
  } as Brief;
}

function fold(item: Known, event: Event): Known {
  const after = { ...item, ...picked(event, event.kind === "edited" ? [...DECIDED, ...CONTENT] : DECIDED) } as Known;
  after.status = event.status;
  after.updated_at = event.at;
  after.revision = event.number;
  after.token = event.token;
  if (event.kind === "claimed") after.attempts++;
  if (event.status !== "failed") after.reason = null;
  else if (item.status !== "failed") after.reason = (event.data.reason ?? null) as string | null;
  if (event.status !== "ready") after.offered_to = after.offer_expires_at = null;
  if (event.status !== "blocked") after.open_blockers = [];
  else if (event.data.depends_on) after.open_blockers = blockers(after.depends_on, event.status);
  return after;
}

function picked(event: Event, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.filter((name) => name in event.data).map((name) => [name, event.data[name]]));
}

function blockers(depends: string[] | undefined, status: string): Brief["open_blockers"] {
  if (status !== "blocked") return [];
  const open = (depends ?? []).map((id) => ({ id, status: items.get(id)?.status ?? "ready" }));
  return open
    .filter((one) => one.status !== "done")
    .map((one) => ({ item: one.id, status: one.status, will_move: !ENDED.has(one.status) }));
}

function tellDependents(ended: Brief): void {
  for (const item of items.values())
    if (item.open_blockers.some((one) => one.item === ended.id))
      items.set(item.id, { ...item, open_blockers: blockers(item.depends_on, item.status) });
}

/** The claim of the item, and the card of its session. */
function hold(item: Brief, event: Event): void {
  const held = holdings.get(item.id);
  const session = event.session ?? held?.session;
  const seat = session ? seats.get(session) : undefined;
  if (event.kind === "claimed" && session) {
    const ttl_seconds = Number(event.data.ttl_seconds);
    const deadline_at = ms(event.data.deadline_at as number);
    holdings.set(item.id, {
      ...{ item: item.id, token: event.token, session, agent: event.agent ?? "", kind: seat?.kind ?? null },
      ...{ claimed_at: event.at, renewed_at: event.at, deadline_at, ttl_seconds },
      expires_at: Math.min(event.at + ttl_seconds * 1000, deadline_at),
      ...{ health: "healthy", heartbeat_count: 0, note: null, waiters: [] },
    });
    const run = { item: item.id, outcome: null, started_at: event.at, ended_at: null };
    if (seat)
      sit(seat, event, { holding: [...seat.holding, item.id], recent: [run, ...seat.recent].slice(0, RECENT_MAX) });
  } else if (event.kind === "progress" && held) {
    holdings.set(item.id, {
      ...held,
      renewed_at: event.at,
      expires_at: Math.min(event.at + held.ttl_seconds * 1000, held.deadline_at),
      note: { at: event.at, note: String(event.data.note ?? "") },
    });
    if (seat) sit(seat, event, {});
  } else if (held && item.status !== "in_progress") {
    holdings.delete(item.id);
    const of = seats.get(held.session);
    if (!of) return;
    const outcome = event.kind;
    const recent = of.recent.map((run) =>
      run.item === item.id && !run.ended_at ? { ...run, outcome, ended_at: event.at } : run,
    );
    const ended = { ...of.ended, [outcome]: (of.ended[outcome] ?? 0) + 1 };
    seats.set(of.id, { ...of, holding: of.holding.filter((id) => id !== item.id), recent, ended });
  }
}

const sit = (seat: Seat, event: Event, change: Partial<Seat>) =>
  seats.set(seat.id, { ...seat, seen_at: event.at, ...change });

const waiter = (session: string, at: number): Waiter => ({
  ...{ session, agent: seats.get(session)?.agent ?? "", since_at: at, expires_at: at, offered: false },
});

function count(before: string | undefined, after: string): void {
  if (before === after) return;
  if (before) nextCounts[before] = Math.max(0, (nextCounts[before] ?? 0) - 1);
  nextCounts[after] = (nextCounts[after] ?? 0) + 1;
}

const ms = (at: number | string): number => (typeof at === "number" ? at : Date.parse(at));
