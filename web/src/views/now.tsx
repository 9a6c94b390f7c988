/** One list of what needs a person, and how the fleet is doing beside it. Silent while all is well. */
import { computed, effect } from "@preact/signals";
import { openItem, Text } from "../parts/bits";
import { slots } from "../parts/slots";
import { Later } from "../parts/later";
import { Rows } from "../parts/rows";
import { counts, isLoaded, items, version } from "../state/board";
import { now } from "../state/clock";
import { type Need, needs } from "../state/health";
import { List } from "../state/list";
import { href } from "../state/route";
import { number } from "../state/text";

const list = new List();
/** Silence grows without events, so this follows the clock, too; every ten seconds is often enough for a list. */
const tens = computed(() => Math.floor(now.value / 10_000));
export const needed = computed<Need[]>(() => {
  version.value;
  tens.value;
  return isLoaded.value ? needs(now.peek()) : [];
});
const byId = computed(() => new Map(needed.value.map((need) => [need.item.id, need])));

effect(() =>
  list.offer(
    needed.value.map((need) => need.item.id),
    false,
  ),
);

export function Now() {
  const Buttons = slots.value.Buttons;
  version.value;
  const { ready = 0, in_progress = 0 } = counts.value;
  return (
    <section class="view now" aria-label="Now">
      <div class="pane needs">
        <h2>
          Needs you <span class="dim">{needed.value.length || ""}</span>
        </h2>
        <Rows
          list={list}
          label="What needs you"
          kind="needs"
          columns={["item", "why", "title", "do"]}
          onOpen={openItem}
          tone={(id) => (byId.value.has(id) ? "" : "gone")}
          empty={
            isLoaded.value ? (
              <span class="fine">
                Nothing needs you. {number(in_progress)} in flight, {number(ready)} ready.
                {!in_progress && !ready && (
                  <>
                    {" "}
                    Add something: <code>dibs add "Login fails on Safari"</code>
                  </>
                )}
              </span>
            ) : (
              <span class="late">loading …</span>
            )
          }
          cells={(id) => {
            const need = byId.value.get(id);
            const item = items.get(id);
            return [
              <span class="id">
                <span class={`rank r${need?.rank ?? 9}`} aria-hidden="true">
                  {need ? "!" : "✓"}
                </span>{" "}
                <Text>{id}</Text>
              </span>,
              <Text>{need?.why ?? "settled"}</Text>,
              <span class="dim">
                <Text>{item?.title ?? ""}</Text>
              </span>,
              item && need && Buttons && <Buttons item={item} keys={need.keys} />,
            ];
          }}
        />
      </div>
      <div class="pane fleet">
        <h2>
          <a href={href("timeline")}>Fleet, last 2 h</a>
        </h2>
        <Later load={() => import("../parts/fleet").then((found) => found.Fleet)} />
      </div>
      <div class="pane feed">
        <h2>
          <a href={href("events")}>Events</a>
        </h2>
        <Later load={() => import("../parts/feed").then((found) => found.Feed)} />
      </div>
      <div class="pane today">
        <h2>
          <a href={href("metrics")}>Today</a>
        </h2>
        <Later load={() => import("../parts/today").then((found) => found.Today)} />
      </div>
    </section>
  );
}
