/** Every claim: how much time it has left, what its holder last said, and who waits behind it. */
import "../core";
import { computed, effect } from "@preact/signals";
import { Buttons } from "../parts/actions";
import { openItem, Text } from "../parts/bits";
import { Ago, Lease, SessionName, SessionText } from "../parts/words";
import { Filter } from "../parts/filter";
import { Rows } from "../parts/rows";
import { Selected } from "../parts/selected";
import type { Held } from "../api";
import { counts, holdings, isLoaded, items, nextCounts, settings, version } from "../state/board";
import { now } from "../state/clock";
import { matcher, parse } from "../state/filter";
import { isSilent } from "../state/health";
import { List } from "../state/list";
import { change, oneOf, route, view } from "../state/route";
import { ago, number } from "../state/text";

const SORTS: Record<string, [string, (a: Held, b: Held) => number]> = {
  expiry: ["soonest to expire", (a, b) => a.expires_at - b.expires_at],
  silence: ["longest silent", (a, b) => a.renewed_at - b.renewed_at],
  age: ["longest held", (a, b) => a.claimed_at - b.claimed_at],
  waiters: ["most waited for", (a, b) => b.waiters.length - a.waiters.length],
};

const list = new List();
const text = computed(() => route.value.query.q ?? "");
const sort = computed(() => oneOf(Object.keys(SORTS), route.value.query.sort));
let asked = "";

effect(() => {
  version.value;
  if (view.value !== "flight") return;
  const matches = matcher(parse(text.value));
  const found = [...holdings.values()].filter((held) => {
    const item = items.get(held.item);
    return !text.value || (item && matches(item));
  });
  found.sort((a, b) => SORTS[sort.value]![1](a, b) || (a.item < b.item ? -1 : 1));
  const question = text.value + "\n" + sort.value;
  list.offer(
    found.map((held) => held.item),
    question !== asked,
  );
  asked = question;
});

function Queued({ held }: { held: Held }) {
  const shown = held.waiters.slice(0, 3);
  return (
    <>
      {shown.map((one, at) => (
        <span key={one.session}>
          {at > 0 && ", "}
          <SessionText id={one.session} />
          {one.offered && " (offered)"}
        </span>
      ))}
      {held.waiters.length > 3 && ` +${held.waiters.length - 3}`}
    </>
  );
}

export function InFlight() {
  version.value;
  const { in_progress = 0 } = counts.value;
  // Of this moment, as the claims are.
  const unlisted = (nextCounts.in_progress ?? 0) - holdings.size;
  const { warning_seconds = 0, expiring_seconds = 0 } = settings.value;
  const silent = [...holdings.values()].filter((held) => isSilent(held, now.value)).length;
  return (
    <section class="view" aria-label="In flight">
      <div class="bar-top">
        <Filter text={text.value} label="Filter the claims" />
        <span class="count" role="status">
          {number(in_progress)} in flight{silent ? `, ${silent} silent` : ""}
          {unlisted > 0 && `, ${number(unlisted)} not listed`}
        </span>
        <label class="sort">
          sort{" "}
          <select value={sort.value} onChange={(chosen) => change({ sort: chosen.currentTarget.value })}>
            {Object.entries(SORTS).map(([name, [label]]) => (
              <option value={name} key={name}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Rows
        list={list}
        label="Claims"
        kind="flight"
        columns={["item", "session", "agent", "left", "note", "waiting", "do"]}
        onOpen={openItem}
        tone={(id) => (holdings.has(id) ? "" : "gone")}
        empty={
          isLoaded.value ? (
            <>
              Nobody holds anything. <code>dibs next</code> takes the best item.
            </>
          ) : (
            <span class="late">loading …</span>
          )
        }
        cells={(id) => {
          const held = holdings.get(id);
          const item = items.get(id);
          const name = (
            <span class="id">
              <Text>{id}</Text>
            </span>
          );
          if (!held) return [name, "", "", <span class="dim">{item?.status ?? "ended"}</span>, "", "", ""];
          return [
            name,
            <SessionName id={held.session} />,
            <Text>{held.agent}</Text>,
            <Lease of={held} />,
            isSilent(held, now.value) ? (
              <span class="amber">silent {ago((now.value - held.renewed_at) / 1000)}</span>
            ) : held.note ? (
              <span title={held.note.note}>
                <Text>{held.note.note}</Text> <span class="dim"><Ago at={held.note.at} /></span>
              </span>
            ) : (
              <span class="dim">–</span>
            ),
            <Queued held={held} />,
            item && <Buttons item={item} keys="F" />,
          ];
        }}
      />
      <footer class="bar-bottom">
        <span class="legend">
          time left on the server's clock · <span class="amber">warning</span> under {ago(warning_seconds)} ·{" "}
          <span class="red">expiring</span> under {ago(expiring_seconds)} · stale, orphaned: silent
        </span>
        <Selected list={list} />
      </footer>
    </section>
  );
}
