/** A card for each session: what it holds, how it is doing and why, and how its last ten claims ended. */
import "../core";
import { computed, effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Component } from "preact";
import type { Deduction, Held, Seat } from "../api";
import { openItem, Text } from "../parts/bits";
import { Legend, MARKS, OTHER } from "../parts/marks";
import { Ago, ItemLink, Lease, SessionText } from "../parts/words";
import { useSight } from "../parts/window";
import { holdings, isLoaded, items, seats, sessionsLeftOff, version } from "../state/board";
import { now } from "../state/clock";
import { isSilent } from "../state/health";
import { current, List } from "../state/list";
import { change, href, route, view } from "../state/route";
import { score } from "../state/score";
import { KINDS, number, words } from "../state/text";

const CARD = { width: 330, height: 132 };
const BEYOND = 1;
const STATES = ["working", "silent", "idle"] as const;
type State = (typeof STATES)[number];

/** The keys act on the first item that the session of a card holds. */
const list = new List((id) => seats.get(id)?.holding[0] ?? null);
const text = computed(() => route.value.query.q ?? "");
const chosen = computed(() => STATES.find((one) => one === route.value.query.state));
let asked = "";

function stateOf(seat: Seat, at: number): State {
  const held = seat.holding.flatMap((id) => holdings.get(id) ?? []);
  return !held.length ? "idle" : held.some((one) => isSilent(one, at)) ? "silent" : "working";
}

const states = computed(() => {
  version.value;
  const at = Math.floor(now.value / 5000) * 5000;
  return new Map([...seats.values()].map((seat) => [seat.id, stateOf(seat, at)]));
});

effect(() => {
  version.value;
  if (view.value !== "sessions") return;
  const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...seats.values()].filter((seat) => {
    const hay = `${seat.id} ${seat.agent} ${seat.kind} ${seat.host} ${seat.holding.join(" ")}`.toLowerCase();
    return (!chosen.value || states.value.get(seat.id) === chosen.value) && wanted.every((word) => hay.includes(word));
  });
  const rank = (seat: Seat) => ["silent", "working", "idle"].indexOf(states.value.get(seat.id)!);
  found.sort((a, b) => rank(a) - rank(b) || (a.id < b.id ? -1 : 1));
  const question = `${text.value}\n${chosen.value}`;
  list.offer(
    found.map((seat) => seat.id),
    question !== asked,
  );
  asked = question;
});

interface Given {
  seat: Seat;
  /** The first claim of the session. */
  held: Held | undefined;
  isCursor: boolean;
  at: number;
}

/** Shown again only if something about its session has changed; its clocks go by themselves. */
class Card extends Component<Given> {
  override shouldComponentUpdate(next: Given): boolean {
    return (Object.keys(next) as (keyof Given)[]).some((name) => next[name] !== this.props[name]);
  }

  override render(given: Given) {
    return <Content {...given} />;
  }
}

/** What each reason takes away stands behind it: a number before it would be read as how many. */
const told = (reasons: Deduction[], between: string) => reasons.map((one) => `${one.text} −${one.points}`).join(between);

function Content({ seat, held, isCursor, at }: Given) {
  const health = score(seat, now.value);
  const tone = health.score >= 80 ? "green" : health.score >= 50 ? "amber" : "red";
  const context = seat.meta.context_percent;
  const ended = Object.values(seat.ended).reduce((sum, one) => sum + one, 0);
  return (
    <li
      class="card"
      tabIndex={isCursor || at === 0 ? 0 : -1}
      data-cursor={isCursor || undefined}
      data-id={seat.id}
      onClick={(click) => {
        if (held && !(click.target as Element).closest("a")) openItem(held.item);
      }}
    >
      <h2>
        <span class="kind">[{KINDS[seat.kind] ?? seat.kind.toUpperCase()}]</span> <Text>{seat.agent}</Text>{" "}
        <small>
          <Text>{seat.host}</Text>
        </small>
        <span class={`score ${tone}`} title={told(health.reasons, "\n")}>
          <span class="unseen">health </span>
          {health.score}
        </span>
      </h2>
      <p class="holds">
        {held ? (
          <>
            <span class={isSilent(held, now.value) ? "sign amber" : "sign"}>
              {isSilent(held, now.value) ? "(!)" : "(*)"}
            </span>{" "}
            <ItemLink id={held.item} />
            {items.get(held.item)?.phase && <small> [{items.get(held.item)!.phase!.slice(0, 4).toUpperCase()}]</small>}
            {seat.holding.length > 1 && <small> +{seat.holding.length - 1}</small>}
            <Lease of={held} />
          </>
        ) : (
          <span class="dim">idle, waits for work</span>
        )}
      </p>
      <p class="dim facts">
        <a class="id" href={href("sessions", { q: seat.id })}>
          #<SessionText id={seat.id} />
        </a>
        {typeof context === "number" && ` | ${Math.round(context)}% ctx`} | {seat.ended.done ?? 0}/{ended} done | seen{" "}
        <Ago at={seat.seen_at} /> ago
      </p>
      <p class="facts">
        {health.reasons.length ? (
          <span class="reasons">{told(health.reasons, " · ")}</span>
        ) : (
          <span class="dim">nothing to complain about</span>
        )}
      </p>
      <p class="past" aria-label="last ten claims, the latest last">
        {[...seat.recent].reverse().map((run, index) => {
          const [sign, color] = run.outcome ? (MARKS[run.outcome] ?? OTHER) : ["▸", "blue"];
          return (
            <span key={index} class={color} title={`${run.item}: ${words(run.outcome ?? "going on")}`}>
              {sign}
            </span>
          );
        })}
      </p>
    </li>
  );
}

export function Sessions() {
  version.value;
  const { box, sight, look } = useSight();
  useEffect(() => {
    current.value = list;
    return () => void (current.value = null);
  }, []);
  const cursor = list.index.value;
  useEffect(() => {
    if (cursor >= 0) box.current?.querySelector<HTMLElement>("[data-cursor]")?.focus();
  }, [cursor]);
  const ids = list.shown.value;
  const columns = Math.max(1, Math.floor(sight.width / CARD.width));
  const lines = Math.ceil(ids.length / columns);
  const first = Math.max(0, Math.floor(sight.top / CARD.height) - BEYOND);
  const last = Math.min(lines, first + Math.ceil(sight.height / CARD.height) + 2 * BEYOND + 1);
  const tally = (state: State) => [...states.value.values()].filter((one) => one === state).length;
  return (
    <section class="view" aria-label="Sessions">
      <div class="bar-top">
        <span class="filter">
          <input
            type="search"
            id="filter"
            aria-label="Filter the sessions"
            placeholder="session, agent, host, item …  ( / )"
            value={text.value}
            onInput={(input) => change({ q: input.currentTarget.value || null }, true)}
          />
        </span>
        <span class="count" role="status">
          {number(ids.length)} of {number(seats.size + sessionsLeftOff.value)}
        </span>
        <span class="facets">
          {STATES.map((state) => (
            <button
              key={state}
              class="facet"
              aria-pressed={chosen.value === state}
              onClick={() => change({ state: chosen.value === state ? null : state })}
            >
              {state} <b>{number(tally(state))}</b>
            </button>
          ))}
        </span>
      </div>
      <div class="cards" ref={box} onScroll={look} onMouseEnter={() => list.hold(true)} onMouseLeave={() => list.hold(false)}>
        {!ids.length && isLoaded.value && (
          <p class="row empty">
            {seats.size ? "No session fits." : <>Nobody is here. <code>dibs session start --agent coder</code> starts one.</>}
          </p>
        )}
        <ul
          style={{
            height: `${lines * CARD.height}px`,
            paddingTop: `${first * CARD.height}px`,
            gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
          }}
        >
          {ids.slice(first * columns, last * columns).flatMap((id, index) => {
            const seat = seats.get(id);
            return seat ? [
                  <Card
                    key={id}
                    seat={seat}
                    held={holdings.get(seat.holding[0] ?? "")}
                    at={index}
                    isCursor={cursor === first * columns + index}
                  />,
                ] : [];
          })}
        </ul>
      </div>
      <footer class="bar-bottom">
        <span class="legend">
          <span class="sign">(*)</span> in flight <span class="sign amber">(!)</span> silent · <Legend />{" "}
          <span class="blue">▸ going on</span>
        </span>
      </footer>
    </section>
  );
}
