/** What waits for a person's yes: the item and its draft side by side. What is approved is what was read here. */
import "../core";
import { computed, effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Buttons } from "../parts/actions";
import { Text } from "../parts/bits";
import { Ago, ItemLink, Priority } from "../parts/words";
import { useDetail } from "../parts/detail";
import { Changed } from "../parts/changed";
import { Draft, hasDraft, isResult } from "../parts/draft";
import { Rows } from "../parts/rows";
import { may } from "../state/actions";
import { isLoaded, items, version } from "../state/board";
import { now } from "../state/clock";
import { List } from "../state/list";
import { ago, number } from "../state/text";

const list = new List();
const waiting = computed(() => {
  version.value;
  const found = [...items.values()].filter((item) => item.status === "pending_approval");
  return found.sort((a, b) => b.priority - a.priority || a.updated_at - b.updated_at);
});

effect(() =>
  list.offer(
    waiting.value.map((item) => item.id),
    false,
  ),
);

export function Approvals() {
  version.value;
  const oldest = Math.min(...waiting.value.map((item) => item.updated_at));
  const id = list.cursor.value ?? list.shown.value[0] ?? null;
  useEffect(() => {
    // The keys act on what is shown, so the first one is under the cursor from the start.
    if (list.cursor.peek() === null && list.shown.peek().length) list.move(0);
  }, [waiting.value.length > 0]);
  return (
    <section class="view approvals" aria-label="Approvals">
      <div class="bar-top">
        <span class="count" role="status">
          {number(waiting.value.length)} {waiting.value.length === 1 ? "waits" : "wait"}
          {waiting.value.length ? `, the oldest for ${ago((now.value - oldest) / 1000)}` : ""}
        </span>
      </div>
      <div class="sides">
        <Rows
          list={list}
          label="Waiting for approval"
          kind="waiting"
          columns={["prio", "item", "waits"]}
          onOpen={(one) => (list.cursor.value = one)}
          tone={(one) => (items.get(one)?.status === "pending_approval" ? "" : "gone")}
          empty={isLoaded.value ? "Nothing waits for approval." : <span class="late">loading …</span>}
          cells={(one) => {
            const item = items.get(one);
            return [
              item && <Priority of={item.priority} />,
              <span class="id">
                <Text>{one}</Text>
              </span>,
              item?.status === "pending_approval" ? <Ago at={item.updated_at} /> : "settled",
            ];
          }}
        />
        {id && <Decision id={id} key={id} />}
      </div>
    </section>
  );
}

function Decision({ id }: { id: string }) {
  const found = useDetail(id);
  if (!found) return <p class="row empty late">loading …</p>;
  if ("problem" in found) return <p class="row empty">{found.problem}</p>;
  const { detail, isOld, renew } = found;
  const brief = items.get(id);
  return (
    <>
      <article class="item asked">
        <h1>
          <Text>{detail.item.title}</Text>
        </h1>
        <p>
          <ItemLink id={id} /> · action <b><Text>{detail.item.action || detail.item.type}</Text></b> ·{" "}
          <Priority of={detail.item.priority} /> · <Text>{detail.item.project}</Text>
        </p>
        {detail.item.body && (
          <pre class="body">
            <Text>{detail.item.body}</Text>
          </pre>
        )}
        <p class="buttons">{brief && <Buttons item={brief} />}</p>
        {isOld && <Changed renew={renew} />}
        {may("admin") && brief?.status === "pending_approval" && (
          <p class="dim">
            decides about revision {detail.item.revision}
            {detail.item.token > 0 && `, token ${detail.item.token}`}: if it changes meanwhile, nothing is decided
          </p>
        )}
      </article>
      <article class="item draft">
        {isResult(detail) ? (
          <p class="dim">
            Its result waits for a yes, which ends it: <ItemLink id={id} /> has the links and the checks of run {detail.runs[0]!.token}.
          </p>
        ) : hasDraft(detail) ? (
          <Draft detail={detail} />
        ) : (
          <p class="dim">There is no draft: the item itself waits for a yes.</p>
        )}
      </article>
    </>
  );
}
