/** One item: who has it, what it needs and frees, every run of it, and its history. */
import "../core";
import { useEffect, useState } from "preact/hooks";
import type { Brief, Detail, Event, Reason } from "../api";
import { Buttons, Edit } from "../parts/actions";
import { Text } from "../parts/bits";
import { Ago, ItemLink, Lease, Priority, SessionName, Status } from "../parts/words";
import { Changed } from "../parts/changed";
import { useDetail } from "../parts/detail";
import { Draft, hasDraft } from "../parts/draft";
import { EventLine } from "../parts/feed";
import { Runs, Target } from "../parts/runs";
import { holdings, items, seats, version } from "../state/board";
import { now } from "../state/clock";
import { latestEvents } from "../state/events";
import { get, itemPath } from "../state/http";
import { back, change, href, opened, view } from "../state/route";
import { moment, when } from "../state/text";

const LOG = 60;

export function ItemView() {
  version.value;
  const id = opened.value;
  const found = useDetail(id);
  if (!id) return <p class="row empty">No item is open.</p>;
  if (found && "problem" in found)
    return (
      <article class="item">
        <h1>
          <span class="id">
            <Text>{id}</Text>
          </span>
          <Close />
        </h1>
        <p class="dim">
          <Text>{found.problem}</Text>
        </p>
      </article>
    );
  if (!found) return <p class="row empty late">loading …</p>;
  const { detail, isOld, renew } = found;
  const brief = items.get(id) ?? ({ ...detail.item, open_blockers: detail.blockers, waiters: 0, reason: null } as Brief);
  return (
    <article class="item">
      <h1>
        <span class="id">
          <Text>{id}</Text>
        </span>{" "}
        <Text>{detail.item.title}</Text>
        <Close page={id} />
      </h1>
      <p>
        <Status of={brief.status} />
        {brief.status === "scheduled" && brief.not_before && ` until ${moment(brief.not_before, now.value)}`} · <Priority of={brief.priority} /> · <Text>{brief.project}</Text> ·{" "}
        <Text>{brief.type}</Text>{" "}
        {brief.labels.map((label) => (
          <span class="label" key={label}>
            <Text>{label}</Text>
          </span>
        ))}
      </p>
      <Subject of={detail} />
      <p class="buttons">
        <Buttons item={brief} />
        <Edit id={id} />
      </p>
      {isOld && <Changed renew={renew} />}
      <Holder item={brief} />
      <Links item={brief} />
      <Why item={brief} />
      {detail.item.body && (
        <section>
          <h2>Text</h2>
          <pre class="body">
            <Text>{detail.item.body}</Text>
          </pre>
        </section>
      )}
      {hasDraft(detail) && (
        <section class="draft">
          <Draft detail={detail} />
        </section>
      )}
      <Runs detail={detail} />
      <Log id={id} revision={brief.revision} />
    </article>
  );
}

const Close = ({ page }: { page?: string }) => (
  <span class="close">
    {page && view.value !== "item" && (
      <a href={href("item", { item: page })} title="as a page (Enter)">
        ⤢<span class="unseen">open as a page</span>
      </a>
    )}
    <button class="plain" aria-label="close" onClick={() => (view.value === "item" ? back() : change({ item: null }))}>
      ✕
    </button>
  </span>
);

/** What the item is about, as a link to where that is, if another system said so. */
function Subject({ of }: { of: Detail }) {
  const { subject, payload } = of.item;
  if (!subject) return null;
  const { url } = (payload["external"] ?? {}) as { url?: string };
  return (
    <p>
      about <Target name={subject} target={url || subject} />
    </p>
  );
}

function Holder({ item }: { item: Brief }) {
  const held = holdings.get(item.id);
  if (!held) return null;
  return (
    <section class="holder">
      <p>
        held by <SessionName id={held.session} /> (<Text>{held.agent}</Text>) since {moment(held.claimed_at, now.value)}, deadline{" "}
        {moment(held.deadline_at, now.value)}
      </p>
      <Lease of={held} />
      {held.note && (
        <p>
          <Text>{held.note.note}</Text>{" "}
          <span class="dim">
            <Ago at={held.note.at} /> ago
          </span>
        </p>
      )}
      {held.waiters.length > 0 && (
        <p>
          next:{" "}
          {held.waiters.map((one, at) => (
            <span key={one.session}>
              {at > 0 && ", "}
              <SessionName id={one.session} />
            </span>
          ))}
        </p>
      )}
    </section>
  );
}

function Links({ item }: { item: Brief }) {
  const frees = [...items.values()].filter((one) => one.depends_on.includes(item.id)).slice(0, 20);
  if (!item.depends_on.length && !frees.length) return null;
  const blocker = (id: string) => item.open_blockers.find((one) => one.item === id);
  return (
    <p>
      {item.depends_on.length > 0 && <>needs </>}
      {item.depends_on.map((id) => (
        <span key={id}>
          <ItemLink id={id} /> {blocker(id) ? <Status of={blocker(id)!.status} /> : "✓"}{" "}
        </span>
      ))}
      {frees.length > 0 && <>frees </>}
      {frees.map((one) => (
        <span key={one.id}>
          <ItemLink id={one.id} />{" "}
        </span>
      ))}
    </p>
  );
}

/** Why a session can or cannot have it: asked of the rules, not guessed here. */
function Why({ item }: { item: Brief }) {
  const [session, setSession] = useState("");
  const [reasons, setReasons] = useState<Reason[] | null>(null);
  useEffect(() => {
    setReasons(null);
    if (!session) return;
    get<Reason[]>(`${itemPath(item.id, "why")}?session=${encodeURIComponent(session)}`).then(setReasons, () => undefined);
  }, [session, item.id, item.revision]);
  return (
    <p>
      <label>
        why not?{" "}
        <select value={session} onChange={(chosen) => setSession(chosen.currentTarget.value)}>
          <option value="" dir="auto">
            choose a session
          </option>
          {[...seats.keys()].sort().slice(0, 200).map((id) => (
            <option key={id} dir="auto">
              {id}
            </option>
          ))}
        </select>
      </label>{" "}
      {reasons?.map((reason) => (
        <span key={reason.code} class={reason.claimable ? "green" : "amber"}>
          <code>{reason.code}</code> <Text>{reason.text}</Text>{" "}
        </span>
      ))}
    </p>
  );
}

function Log({ id, revision }: { id: string; revision: number }) {
  const [events, setEvents] = useState<Event[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    latestEvents(LOG, id).then(
      (found) => (setEvents(found.sort((a, b) => b.id - a.id)), setProblem(null)),
      (error: Error) => setProblem(error.message),
    );
  }, [id, revision]);
  return (
    <section>
      <h2>History</h2>
      {problem && (
        <p class="red" role="alert">
          The history could not be read: {problem}
        </p>
      )}
      <ol class="events" aria-label="History, the latest first">
        {events.map((event) => (
          <EventLine key={event.id} event={event} names={false} />
        ))}
      </ol>
      {events.at(-1)?.number === 1 && <p class="dim">added {when(events.at(-1)!.at)}</p>}
    </section>
  );
}
