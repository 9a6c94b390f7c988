/** All items that wait for something, in the order in which `next` gives them out. */
import "../core";
import { Key, openItem, Text } from "../parts/bits";
import { ClaimedBy, Priority } from "../parts/words";
import { Filter } from "../parts/filter";
import { Rows } from "../parts/rows";
import { Selected } from "../parts/selected";
import { form } from "../shell/dialogs";
import { may } from "../state/actions";
import { counts, ENDED, isLoaded, items, version } from "../state/board";
import { parse, toggled } from "../state/filter";
import { isLive } from "../state/lamp";
import { facets, isWaiting, list, more, text, total } from "../state/queue";
import { change } from "../state/route";
import { number, words } from "../state/text";

const ORDER = ["pending_approval", "ready", "in_progress", "blocked", "scheduled", "parked", "failed"];

export function Queue() {
  version.value;
  const chosen = parse(text.value).status;
  const all = Object.values(counts.value).reduce((sum, one) => sum + one, 0);
  return (
    <section class="view" aria-label="Queue">
      <div class="bar-top">
        <Filter text={text.value} label="Filter the queue" />
        <span class="count" role="status">
          {number(total.value)} of {number(all)}
        </span>
        {may("agent") && (
          <button disabled={!isLive()} onClick={() => (form.value = { edit: null })}>
            <Key>n</Key> new item
          </button>
        )}
        <span class="facets">
          {[...ORDER, ...[...ENDED].filter((one) => one !== "failed")]
            .filter((status) => facets.value[status])
            .map((status) => (
              <button
                key={status}
                class="facet"
                aria-pressed={!!chosen?.includes(status)}
                onClick={() => change({ q: toggled(text.value, "status", status) || null })}
              >
                {words(status)} <b>{number(facets.value[status]!)}</b>
              </button>
            ))}
        </span>
      </div>
      <Rows
        list={list}
        label="Items"
        kind="queue"
        columns={["", "#", "prio", "item", "title", "type", "labels", "claimed by", "waits"]}
        onOpen={openItem}
        onEnd={more}
        tone={(id) => (ENDED.has(items.get(id)?.status ?? "done") ? "gone" : "")}
        empty={
          isWaiting.value || !isLoaded.value ? (
            <span class="late">loading …</span>
          ) : text.value ? (
            <>Nothing fits this filter.</>
          ) : (
            <>
              Nothing is to be done. Add something: <code>dibs add "Login fails on Safari"</code>
            </>
          )
        }
        cells={(id, index) => {
          const item = items.get(id);
          if (!item) return ["", index + 1, "", <Text>{id}</Text>, "", "", "", "gone", ""];
          return [
            <input
              type="checkbox"
              aria-label={`select ${id}`}
              checked={list.selected.value.has(id)}
              onClick={(click) => (click.shiftKey ? list.extend(id) : list.toggle(id))}
            />,
            number(index + 1),
            <Priority of={item.priority} />,
            <span class="id">
              <Text>{item.id}</Text>
            </span>,
            <Text>{item.title}</Text>,
            <Text>{item.type}</Text>,
            item.labels.length ? item.labels.map((one) => <span class="label"><Text>{one}</Text></span>) : "–",
            <ClaimedBy item={item} />,
            item.waiters || "",
          ];
        }}
      />
      <footer class="bar-bottom">
        <span class="legend">
          <span class="sign">[*]</span> in flight <span class="sign amber">[!]</span> stale <span class="sign">--</span>{" "}
          available
        </span>
        <Selected list={list} />
      </footer>
    </section>
  );
}
