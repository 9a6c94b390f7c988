/** Items, claims and sessions in a few words. */
import type { Brief, Held } from "../api";
import { holdings, seats } from "../state/board";
import { now } from "../state/clock";
import { isSilent, mark } from "../state/health";
import { href, route, view } from "../state/route";
import { ago, KINDS, left, priority, sessionName, when, words } from "../state/text";
import { Text } from "./bits";

const SIGNS: Record<string, string> = {
  ...{ pending_approval: "◇", blocked: "⊘", scheduled: "◷", ready: "○", in_progress: "●", parked: "‖" },
  ...{ done: "✓", failed: "✕", rejected: "⊗", cancelled: "–" },
};

export const Status = ({ of }: { of: string }) => (
  <span class={`status ${of}`}>
    <span aria-hidden="true">{SIGNS[of] ?? "?"}</span> {words(of)}
  </span>
);

/** When a scheduled item becomes ready, in few words. */
const Soon = ({ item }: { item: Brief }) =>
  item.status === "scheduled" && item.not_before ? (
    <span class="dim" title={when(item.not_before)}>
      {" "}
      in {ago((item.not_before - now.value) / 1000)}
    </span>
  ) : null;

export const Priority = ({ of }: { of: number }) => (
  <span class={of >= 10 ? "prio crit" : of >= 8 ? "prio high" : "prio"}>{priority(of)}</span>
);

export const Ago = ({ at }: { at: number }) => <>{ago((now.value - at) / 1000)}</>;

/** A link that opens the item beside the view. */
export const ItemLink = ({ id }: { id: string }) => (
  <a class="id" href={href(view.value, { ...route.value.query, item: id })}>
    <Text>{id}</Text>
  </a>
);

export const SessionText = ({ id }: { id: string }) => (
  <span title={id}>
    <Text>{sessionName(id)}</Text>
  </span>
);

export function SessionName({ id }: { id: string }) {
  const kind = seats.get(id)?.kind;
  return (
    <a class="id" href={href("sessions", { q: id })}>
      <SessionText id={id} />
      {kind && <small> {(KINDS[kind] ?? kind).toLowerCase()}</small>}
    </a>
  );
}

/** How much of a claim is left: a bar for the eye, the time in words. */
export function Lease({ of }: { of: Held }) {
  const at = now.value;
  const seconds = (of.expires_at - at) / 1000;
  const state = mark(of, at);
  const share = Math.min(1, Math.max(0, seconds / of.ttl_seconds));
  return (
    <span class={`lease ${state}`}>
      <span class="bar" aria-hidden="true">
        <i style={{ transform: `scaleX(${share})` }} />
      </span>
      <span class="left">{seconds > 0 ? left(seconds) : "overdue"}</span>
      <span class="mark">{state === "healthy" ? "ok" : state}</span>
    </span>
  );
}

/** Who has the item, as the legend explains it, or why nobody can. */
export function ClaimedBy({ item }: { item: Brief }) {
  const held = holdings.get(item.id);
  if (held) {
    const silent = isSilent(held, now.value);
    return (
      <span class={silent ? "claimed silent" : "claimed"}>
        <span class="sign">{silent ? "[!]" : "[*]"}</span> <SessionName id={held.session} />{" "}
        <span class="since">
          {silent ? "silent " : ""}
          <Ago at={silent ? held.renewed_at : held.claimed_at} />
        </span>
      </span>
    );
  }
  if (item.offered_to && (item.offer_expires_at ?? 0) > now.value)
    return (
      <span class="claimed">
        offered to <Text>{item.offered_to}</Text>
      </span>
    );
  if (item.status === "ready") return <span class="dim">--</span>;
  const blocker = item.open_blockers[0];
  return (
    <>
      <Status of={item.status} />
      <Soon item={item} />
      {blocker && (
        <span class="dim">
          {" "}
          by <Text>{blocker.item}</Text>
          {item.open_blockers.length > 1 && ` +${item.open_blockers.length - 1}`}
        </span>
      )}
    </>
  );
}
