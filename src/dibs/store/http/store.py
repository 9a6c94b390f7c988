"""The store behind a server: each verb of the contract is one request, and the server does the rest.

Who acts is known there by the key; what is sent along as an actor counts only if the key is an admin's.
"""

from __future__ import annotations

import os
import time

from dibs import jsontext, wire
from dibs.errors import Invalid, StoreUnavailable
from dibs.model import (
    Activity,
    Added,
    Agent,
    Detail,
    Edited,
    Ended,
    Event,
    Finished,
    Grant,
    Heartbeat,
    Holding,
    Item,
    Key,
    Prune,
    Pulse,
    Reason,
    Renewal,
    Run,
    Session,
    SessionEnd,
    SessionView,
    SoftClaim,
    Stats,
    Sweep,
    Waiting,
)
from dibs.store.contract import Store, Watch, page
from dibs.store.http.asking import Asking, away, new_request_id, refusal
from dibs.store.http.sending import Lost, Reply, require_private, sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import NewItem, Owner, Request
    from dibs.store.contract import Page
    from dibs.value import Value

    V = TypeVar("V", bound=Value)

#: How long one look at a watch may take: something between us and the server may cut longer ones.
WATCH_SECONDS = 25.0
#: How long `next` is left to wait there. What comes meanwhile is given to who asked, even if that stands still by now,
#: or its network is gone: so not for long.
NEXT_SECONDS = 10.0
WHOLE_SECONDS = 600.0
#: How much of a long answer is asked for at a time.
PAGE_BYTES = 8_000_000


class HttpStore(Store):
    waits = True

    def __init__(self, url: str, settings: Settings, key: str | None, *, lean: bool = False) -> None:
        """`lean`: over the standard library, for a process that lives for one verb and asks again by itself."""
        self.url = url
        self.settings = settings
        self._secret = key
        self._asking = Asking(sender(url.rstrip("/"), lean=lean), key, settings.lock_wait_seconds, lean=lean)
        if key is not None:
            require_private(url)

    @property
    def reconnects(self) -> int:
        """How often something was asked again because its answer, or the server, was lost."""
        return self._asking.repeated

    # Items

    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Added, ...]:
        new = [wire.encode(item) for item in items]
        return self._all(Added, self._write("/v1/add_many", {"items": new, "actor": actor}, request))

    def get(self, item: str) -> Detail:
        return _decoded(Detail, self._read(f"/v1/items/{item}"))

    def list(
        self,
        *,
        statuses: Sequence[str] = (),
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        after: str | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        asked = {"statuses": statuses, "projects": projects, "types": types, "labels": labels}
        return self._pages(Item, "/v1/items", asked, after, limit, bytes_max, lambda item: item.id)

    def edit(
        self,
        item: str,
        changes: Mapping[str, Any],
        *,
        actor: str,
        revision: int | None = None,
        relabel: bool = True,
        request: Request | None = None,
    ) -> Edited:
        said = {"actor": actor, "relabel": relabel} | ({} if revision is None else {"revision": revision})
        # None is a value here: it takes a schedule away.
        body = {**said, **wire.encode(dict(changes))}
        return _decoded(Edited, self._send("PATCH", f"/v1/items/{item}", body, request))

    def cancel(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(item, "cancel", request, actor=actor, reason=reason)

    def retry(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(item, "retry", request, actor=actor, reason=reason)

    def park(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(item, "park", request, actor=actor, reason=reason)

    def unpark(self, item: str, *, actor: str, reason: str | None = None, request: Request | None = None) -> Item:
        return self._move(item, "unpark", request, actor=actor, reason=reason)

    def approve(
        self,
        item: str,
        *,
        actor: str,
        comment: str | None = None,
        done: bool = False,
        token: int | None = None,
        revision: int | None = None,
        request: Request | None = None,
    ) -> Item:
        decision = {"comment": comment, "done": done, "token": token, "revision": revision}
        return self._move(item, "approve", request, actor=actor, **decision)

    def send_back(
        self, item: str, *, actor: str, comment: str, revision: int | None = None, request: Request | None = None
    ) -> Item:
        return self._move(item, "send_back", request, actor=actor, comment=comment, revision=revision)

    def reject(
        self,
        item: str,
        *,
        reason: str,
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Item:
        decision = {"reason": reason, "session": session, "token": token, "revision": revision}
        return self._move(item, "reject", request, actor=actor, **decision)

    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        return self._of(Ended, item, "force_release", request, actor=actor, reason=reason, token=token)

    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any],
        checks: Mapping[str, Any],
        cost: Mapping[str, Any],
        session: str | None = None,
        agent: str | None = None,
        key: str | None = None,
        actor: str,
        request: Request | None = None,
    ) -> Ended:
        # The key is this client's own, and the server knows it.
        said = {"links": dict(links), "checks": dict(checks), "cost": dict(cost)}
        return self._of(
            Ended, item, "annotate", request, token=token, session=session, agent=agent, actor=actor, **said
        )

    # Agents, sessions, keys

    def set_agent(self, agent: Agent) -> Agent:
        body = {name: value for name, value in wire.encode(agent).items() if name not in ("name", *_KEPT)}
        return _decoded(Agent, self._asking.ask("PUT", f"/v1/agents/{agent.name}", body))

    def agents(self) -> tuple[Agent, ...]:
        return self._all(Agent, self._read("/v1/agents"))

    def start_session(self, session: Session) -> Session:
        told = wire.encode(session)
        body = {name: told[name] for name in ("agent", "id", "kind", "host", "owner", "meta")}
        return _decoded(Session, self._asking.ask("POST", "/v1/sessions", body))

    def end_session(self, session: str, *, reason: str | None = None, request: Request | None = None) -> SessionEnd:
        path = f"/v1/sessions/{_quoted(session)}/end"
        return _decoded(SessionEnd, self._write(path, {"reason": reason}, request))

    def find_session(self, id: str) -> Session | None:
        from dibs.errors import SessionNotFound

        try:
            return _decoded(Session, self._read(f"/v1/sessions/{_quoted(id)}"))
        except SessionNotFound:
            return None

    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        return self._all(SessionView, self._read("/v1/sessions", ended=str(ended).lower(), limit=limit))

    def owners(self, *, boot_id: str, pid_namespace: int) -> tuple[tuple[str, Owner], ...]:
        """Whose owner is dead is judged by the server alone: anybody could say so."""
        return ()

    def put_key(self, key: Key, *, seconds: float | None = None) -> Key:
        body = {"id": key.id, "role": key.role, "agent": key.agent, "digest": key.digest, "seconds": seconds}
        # Of the very same key there is one, however often it is put.
        return self._key(self._asking.ask("POST", "/v1/keys", body))

    def find_key(self, id: str) -> Key | None:
        # Whether its time is over is for the store's clock to say.
        found = self._read(f"/v1/keys/{_quoted(id)}")["key"]
        return None if found is None else self._key(found)

    def keys(self) -> tuple[Key, ...]:
        return tuple(self._key(one) for one in self._read("/v1/keys"))

    def revoke_key(self, id: str, *, request: Request | None = None) -> Key:
        path = f"/v1/keys/{_quoted(id)}/revoke"
        # A secret names its key. Whoever revoked the own one cannot ask what became of that.
        is_own = self._secret is not None and f"_{id}_" in self._secret
        return self._key(self._asking.ask("POST", path, request_id=_id_of(request), repeatable=not is_own))

    # The claim path

    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self._of(Grant, item, "claim", request, session=session, agent=agent, ttl_seconds=ttl_seconds)

    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self._of(Grant, item, "recover", request, session=session, token=token, ttl_seconds=ttl_seconds)

    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        body = {
            "session": session,
            "agent": agent,
            "types": list(types),
            "projects": list(projects),
            "n": n,
            "ttl_seconds": ttl_seconds,
            "done": None if done is None else dict(done),
        }
        return self._all(Grant, self._write("/v1/next", body, request))

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Heartbeat:
        held = None if holding is None else dict(holding)
        every = at_most_every_seconds
        body = {"session": session, "holding": held, "known_event": known_event, "at_most_every_seconds": every}
        return _decoded(Heartbeat, self._asking.ask("POST", "/v1/heartbeat", body))

    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        every = at_most_every_seconds
        body = {"session": session, "token": token, "ttl_seconds": ttl_seconds, "at_most_every_seconds": every}
        return _decoded(Renewal, self._asking.ask("POST", f"/v1/items/{item}/renew", body))

    def progress(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str,
        meta: Mapping[str, Any],
        request: Request | None = None,
    ) -> Renewal:
        return self._of(Renewal, item, "progress", request, session=session, token=token, note=note, meta=dict(meta))

    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request: Request | None = None,
    ) -> Ended:
        return self._of(Ended, item, "release", request, session=session, token=token, reason=reason, park=park)

    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        asked = {"session": session, "token": token, "note": note, "links": dict(links), "cost": dict(cost)}
        return self._of(Ended, item, "done", request, **asked)

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        body = {"holding": dict(holding), "session": session}
        return _decoded(Finished, self._write("/v1/done_many", body, request))

    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        asked = {"session": session, "token": token, "reason": reason, "links": dict(links), "cost": dict(cost)}
        return self._of(Ended, item, "fail", request, **asked)

    def submit(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        draft: str,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        asked = {"session": session, "token": token, "note": note, "links": dict(links), "cost": dict(cost)}
        return self._of(Ended, item, "submit", request, draft=draft, **asked)

    def sweep(self, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
        return _decoded(Sweep, self._asking.ask("POST", "/v1/sweep", {"limit": limit}))

    # Waiting for one item

    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None) -> Waiting:
        body = {"session": session, "ttl_seconds": ttl_seconds}
        return _decoded(Waiting, self._asking.ask("POST", f"/v1/items/{item}/wait", body))

    def leave(self, item: str, *, session: str, request: Request | None = None) -> Waiting:
        return self._of(Waiting, item, "leave", request, session=session)

    def ticket(self, item: str, *, session: str) -> Waiting:
        return _decoded(Waiting, self._read(f"/v1/items/{item}/ticket", session=session))

    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        body = {"session": session, "ttl_seconds": ttl_seconds}
        return _decoded(SoftClaim, self._asking.ask("POST", f"/v1/items/{item}/soft_claim", body))

    def soft_release(self, item: str, *, session: str, request: Request | None = None) -> SoftClaim:
        return self._of(SoftClaim, item, "soft_release", request, session=session)

    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        return self._all(Reason, self._read(f"/v1/items/{item}/why", session=session, agent=agent))

    # Reading

    def events(
        self,
        *,
        after: int | None = None,
        item: str | None = None,
        newest: bool = False,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Event]:
        if newest and bytes_max is None:
            # The end of the feed has no further pages: if it is too large, that is refused.
            return page(self._all(Event, self._read("/v1/events", after=after, item=item, newest="true", limit=limit)))
        asked = {"item": item, "newest": str(newest).lower()}
        return self._pages(Event, "/v1/events", asked, after, limit, bytes_max, lambda event: event.id)

    def runs(
        self,
        *,
        item: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: tuple[str, int] | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Run]:
        asked = {"item": item, "session": session, "agent": agent}
        begin = None if after is None else f"{after[0]}:{after[1]}"
        return self._pages(Run, "/v1/runs", asked, begin, limit, bytes_max, lambda run: f"{run.item}:{run.token}")

    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        return self._all(Activity, self._read("/v1/activity", item=item, agent=agent, limit=limit))

    def who(self) -> tuple[Holding, ...]:
        return self._all(Holding, self._read("/v1/who"))

    def stats(self, *, agent: str | None = None) -> Stats:
        return _decoded(Stats, self._read("/v1/stats", agent=agent))

    def pulse(self) -> Pulse:
        return _decoded(Pulse, self._read("/v1/pulse"))

    # Waiting

    def watch(self, *, session: str | None = None) -> Watch:
        return HttpWatch(self._asking)

    def next_in_time(self, wait_seconds: float, *, request: Request | None = None, **asked: Any) -> tuple[Grant, ...]:
        return self._all(Grant, self._write("/v1/next", asked, request, min(wait_seconds, NEXT_SECONDS)))

    def wait_in_time(self, wait_seconds: float, item: str, **asked: Any) -> Waiting:
        path, seconds = f"/v1/items/{item}/wait", min(wait_seconds, WATCH_SECONDS)
        found = self._asking.ask("POST", path, asked, query={"wait": seconds}, wait_seconds=seconds)
        return _decoded(Waiting, found)

    def due_seconds(self, item: str | None = None) -> float | None:
        found: float | None = self._read("/v1/due", item=item)["due_seconds"]
        return found

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        body = {"older_than_seconds": older_than_seconds, "limit": limit}
        # Asked again, it would answer for what was left by then.
        return _decoded(Prune, self._asking.ask("POST", "/v1/prune", body, repeatable=False))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        lines = self._asking.sender.stream("/v1/export", self._asking.headers, WHOLE_SECONDS)
        try:
            status = int(next(lines))
            if status != 200:
                raise refusal(Reply(status, "", b"".join(lines)))
            for line in lines:
                kind, data = jsontext.loads(line.decode())
                yield kind, data
        except Lost as lost:
            raise away(lost, unknown=False) from lost

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        lines = ((jsontext.line([kind, data]) + "\n").encode() for kind, data in records)
        reply = self._whole("POST", "/v1/import", lines)
        return int(jsontext.loads(reply.body.decode())["records"])

    def backup(self, path: str) -> None:
        from dibs import durable

        try:
            with durable.NewFile(path) as half, open(half, "wb") as file:
                file.write(self._whole("GET", "/v1/backup", None).body)
        except FileExistsError:
            raise Invalid(f"{path} is there already; a backup does not overwrite", field="path") from None

    def restore(self, path: str, *, actor: str) -> int:
        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        with open(path, "rb") as file:
            reply = self._whole("POST", f"/v1/restore?actor={_quoted(actor)}", iter(lambda: file.read(1 << 20), b""))
        return int(jsontext.loads(reply.body.decode())["items"])

    def check(self) -> tuple[str, ...]:
        return tuple(self._read("/v1/check"))

    def close(self) -> None:
        self._asking.sender.close()

    # Requests

    def _whole(self, method: str, path: str, body: Iterator[bytes] | None) -> Reply:
        """A request about a whole board, which takes its time and is made once."""
        headers = {**self._asking.headers, "Content-Type": "application/octet-stream"}
        try:
            reply = self._asking.sender.send(method, path, headers, body, WHOLE_SECONDS)
        except Lost as lost:
            raise away(lost, unknown=lost.sent and body is not None) from lost
        if reply.status != 200:
            raise refusal(reply, writes=body is not None)
        return reply

    def _read(self, path: str, **query: Any) -> Any:
        return self._asking.ask("GET", path, query=query)

    def _pages(
        self,
        kind: type[V],
        path: str,
        asked: Mapping[str, Any],
        after: object,
        limit: int,
        bytes_max: int | None,
        name: Callable[[V], object],
    ) -> Page[V]:
        """One page of `bytes_max`; without that all of them, one after the other."""
        found: list[V] = []
        more = True
        while more and len(found) < limit and (bytes_max is None or not found):
            size = PAGE_BYTES if bytes_max is None else bytes_max
            query = {**asked, "after": after, "limit": limit - len(found), "bytes_max": size}
            answer, more = self._asking.ask_page(path, query)
            found += self._all(kind, answer)
            more = more and bool(answer)
            after = name(found[-1]) if found else after
        return page(found, more=more and len(found) < limit)

    def _write(
        self, path: str, body: Mapping[str, Any], request: Request | None, wait_seconds: float | None = None
    ) -> Any:
        query = {"wait": wait_seconds}
        return self._asking.ask(
            "POST", path, body, query=query, request_id=_id_of(request), wait_seconds=wait_seconds or 0.0
        )

    def _send(self, method: str, path: str, body: Mapping[str, Any], request: Request | None) -> Any:
        return self._asking.ask(method, path, body, request_id=_id_of(request), keeps_none=True)

    def _of(self, kind: type[V], item: str, verb: str, request: Request | None, **asked: Any) -> V:
        return _decoded(kind, self._write(f"/v1/items/{item}/{verb}", asked, request))

    def _move(self, item: str, verb: str, request: Request | None, **asked: Any) -> Item:
        return self._of(Item, item, verb, request, **asked)

    def _all(self, kind: type[V], answer: Sequence[dict[str, Any]]) -> tuple[V, ...]:
        return tuple(_decoded(kind, one) for one in answer)

    def _key(self, told: dict[str, Any]) -> Key:
        """A key as it is shown: without what it is checked by."""
        return _decoded(Key, {"digest": "", **told})


class HttpWatch(Watch):
    """A long look at the server's feed."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._at: int = asking.ask("GET", "/v1/watch")["event"]

    def wait(self, timeout_seconds: float) -> bool:
        wait = max(0.0, min(timeout_seconds, WATCH_SECONDS))
        query = {"after": self._at, "wait": wait}
        try:
            found = self._asking.ask("GET", "/v1/watch", query=query, wait_seconds=wait)
        except StoreUnavailable as error:
            if "limit" in error.facts:
                # There is no room for more who watch: then it is looked now and then.
                time.sleep(min(wait, error.facts.get("retry_after_seconds", 0)))
            return True  # nobody knows what was missed; whoever looks is told what is wrong
        before, self._at = self._at, found["event"]
        return bool(self._at != before)

    def close(self) -> None:
        pass


#: What the store says of an agent, and nobody tells it.
_KEPT = ("created_at", "updated_at")


def _decoded(kind: type[V], told: dict[str, Any]) -> V:
    """A value as a server tells it, which may be newer than this client."""
    return wire.decode(kind, told, lenient=True)


def _id_of(request: Request | None) -> str:
    return new_request_id() if request is None else request.id


def _quoted(name: str) -> str:
    """A name may hold what means something in a path."""
    from urllib.parse import quote

    return quote(name, safe="")
