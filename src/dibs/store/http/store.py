"""The store behind a server: each verb of the contract is one request.

Most methods are built from the table of verbs; the others differ in contract and route. The server identifies the
caller by its key and ignores an `actor`, unless the key is an admin's.
"""

from __future__ import annotations

import os
import time

from dibs import randomness
from dibs.errors import Invalid, SessionNotFound, StoreUnavailable, StoreUnusable
from dibs.model import Added, Agent, Edited, Event, Grant, Item, Key, Prune, Pulse, Run, Session, Waiting
from dibs.model.webhooks import Delivery, Webhook
from dibs.store.contract import BROKEN_OFF, Store, Watch, page
from dibs.store.http.client import Client, refusal, unavailable
from dibs.store.http.transport import NoAnswer, Reply, require_private, sender
from dibs.text import json_text, wire
from dibs.verbs import BY_NAME, VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import NewItem, Request
    from dibs.store.contract import Live, Page
    from dibs.value import Value
    from dibs.verbs import Verb

    V = TypeVar("V", bound=Value)

#: How long one request for a change may wait: a proxy may cut longer ones.
WATCH_SECONDS = 25.0
#: How long `next` waits on the server. Short, because the server gives an item to this client even if the client was
#: stopped or disconnected meanwhile.
NEXT_SECONDS = 10.0
ARCHIVE_SECONDS = 600.0
#: Longer than a server waits for the answer of a receiver.
SENDING_SECONDS = 20.0
#: How much of a long answer is asked for at a time.
PAGE_BYTES = 8_000_000
#: Fields of an agent that the store sets, and of a session that a client may send.
SET_BY_STORE = ("name", "created_at", "updated_at")
SENT_OF_SESSION = ("agent", "id", "kind", "host", "owner", "meta", "parent")


class WrittenVerbs(Store):
    """The verbs whose contract differs from their route, and how all of them are asked."""

    waits = True

    def __init__(self, url: str, settings: Settings, key: str | None, *, lean: bool = False) -> None:
        self.url = url
        self.settings = settings
        self._secret = key
        self._client = Client(sender(url.rstrip("/")), key, settings.lock_wait_seconds, lean=lean)
        if key is not None:
            require_private(url)

    @property
    def reconnects(self) -> int:
        """The number of requests that were repeated because the server was unreachable or its answer was lost."""
        return self._client.repeated

    # Items, agents and sessions whose values are sent in part

    def add(self, items: Sequence[NewItem], *, actor: str, request: Request | None = None) -> tuple[Added, ...]:
        answer: tuple[Added, ...] = self._call(
            BY_NAME["add_many"], {"items": list(map(_new_item, items)), "actor": actor}, request
        )
        return answer

    def claim_subject(
        self,
        new: NewItem,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        asked = {**_new_item(new), "session": session, "agent": agent, "ttl_seconds": ttl_seconds}
        answer: Grant = self._call(BY_NAME["claim_subject"], asked, request)
        return answer

    def edit(
        self,
        item: str,
        changes: Mapping[str, Any],
        *,
        actor: str,
        relabel: bool = True,
        request: Request | None = None,
        **more: Any,
    ) -> Edited:
        body = {"actor": actor, "relabel": relabel, **wire.encode(dict(changes))}
        body |= {name: wire.encode(value) for name, value in more.items() if value not in (None, ())}
        # None is a value here: it removes a schedule.
        answer = self._client.ask("PATCH", f"/v1/items/{item}", body, request_id=_id_of(request), keeps_none=True)
        return _decoded(Edited, answer)

    def set_agent(self, agent: Agent) -> Agent:
        body = {name: value for name, value in _sent(agent).items() if name not in SET_BY_STORE}
        return _decoded(Agent, self._client.ask("PUT", f"/v1/agents/{agent.name}", body))

    def start_session(self, session: Session) -> Session:
        sent = wire.encode(session)
        body = {name: sent[name] for name in SENT_OF_SESSION}
        return _decoded(Session, self._client.ask("POST", "/v1/sessions", body))

    def find_session(self, id: str) -> Session | None:
        try:
            found: Session = self._call(BY_NAME["find_session"], {"session": id}, None)
        except SessionNotFound:
            return None
        return found

    def put_key(self, key: Key, *, seconds: float | None = None) -> Key:
        body = {name: getattr(key, name) for name in ("id", "role", "agent", "digest", "name")} | {"seconds": seconds}
        return _key(self._client.ask("POST", "/v1/keys", body))

    def rotate_key(self, id: str, key: Key, *, seconds: float | None = None, grace_seconds: float) -> Key:
        body = {"id": key.id, "digest": key.digest, "seconds": seconds, "grace_seconds": grace_seconds}
        return _key(self._client.ask("POST", f"/v1/keys/{_quoted(id)}/rotate", body))

    def find_key(self, id: str) -> Key | None:
        found = self._read(f"/v1/keys/{_quoted(id)}")["key"]
        return None if found is None else _key(found)

    def keys(self) -> tuple[Key, ...]:
        return tuple(map(_key, self._read("/v1/keys")))

    def revoke_key(self, id: str, *, request: Request | None = None) -> Key:
        # A client that revokes its own key cannot authenticate a retry.
        is_own = self._secret is not None and f"_{id}_" in self._secret
        path = f"/v1/keys/{_quoted(id)}/revoke"
        return _key(self._client.ask("POST", path, request_id=_id_of(request), repeatable=not is_own))

    def add_webhook(self, webhook: Webhook, *, secret: str) -> Webhook:
        from dibs.rules.webhooks import GIVEN

        body = {name: wire.encode(getattr(webhook, name)) for name in GIVEN}
        answer = self._client.ask("POST", "/v1/webhooks", {**body, "actor": webhook.created_by, "secret": secret})
        return _decoded(Webhook, answer["webhook"])

    def send_webhook(self, webhook: str, *, event: int | None = None) -> Delivery:
        """Not repeated if the answer is lost: the message may have been sent, and a dead letter deleted."""
        path = f"/v1/webhooks/{_quoted(webhook)}/send"
        asked = {"event": event}
        answer = self._client.ask("POST", path, asked, repeatable=False, wait_seconds=SENDING_SECONDS)
        return _decoded(Delivery, answer)

    # Long answers, in pages

    def list(self, *, after: str | None = None, limit: int, bytes_max: int | None = None, **filters: Any) -> Page[Item]:
        return self._pages(Item, "/v1/items", filters, after, limit, bytes_max, lambda item: item.id)

    def events(
        self, *, after: int | None = None, limit: int, bytes_max: int | None = None, **filters: Any
    ) -> Page[Event]:
        if filters.get("newest") and bytes_max is None:
            # The end of the feed has no further pages. If it is too large, the server refuses.
            return page(_all(Event, self._read("/v1/events", after=after, limit=limit, **filters)))
        return self._pages(Event, "/v1/events", filters, after, limit, bytes_max, lambda event: event.id)

    def runs(
        self, *, after: tuple[str, int] | None = None, limit: int, bytes_max: int | None = None, **filters: Any
    ) -> Page[Run]:
        begin = None if after is None else f"{after[0]}:{after[1]}"
        return self._pages(Run, "/v1/runs", filters, begin, limit, bytes_max, lambda run: f"{run.item}:{run.token}")

    def pulse(self) -> Pulse:
        return _decoded(Pulse, self._read("/v1/pulse"))

    # Waiting

    def watch(self, *, session: str | None = None) -> Watch:
        return HttpWatch(self._client)

    def live(self, after: int) -> Live:
        from dibs.store.http.live import HttpLive

        return HttpLive(self._client, after)

    def next_in_time(self, wait_seconds: float, *, request: Request | None = None, **asked: Any) -> tuple[Grant, ...]:
        answer: tuple[Grant, ...] = self._call(BY_NAME["next"], asked, request, min(wait_seconds, NEXT_SECONDS))
        return answer

    def wait_in_time(self, wait_seconds: float, item: str, **asked: Any) -> Waiting:
        asked["item"] = item
        answer: Waiting = self._call(BY_NAME["wait"], asked, None, min(wait_seconds, WATCH_SECONDS))
        return answer

    def due_seconds(self, item: str | None = None) -> float | None:
        found: float | None = self._read("/v1/due", item=item)["due_seconds"]
        return found

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        body = {"older_than_seconds": older_than_seconds, "limit": limit, "dry_run": dry_run}
        # A repeated request would report only the items that the first one left.
        return _decoded(Prune, self._client.ask("POST", "/v1/prune", body, repeatable=False))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return self._records("/v1/export")

    def histories(self) -> Iterator[tuple[str, Any]]:
        from dibs.store.contract import histories

        return histories.decode(self._records("/v1/export?by=item"))

    def _records(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        lines = self._client.sender.stream(path, self._client.headers, ARCHIVE_SECONDS)
        try:
            status = int(next(lines))
            if status != 200:
                raise refusal(Reply(status, "", b"".join(lines)))
            for line in lines:
                kind, data = json_text.loads(line.decode())
                if kind == BROKEN_OFF:
                    raise refusal(Reply(data["status"], "", json_text.line(data).encode()))
                yield kind, data
        except NoAnswer as lost:
            raise unavailable(lost, unknown=False) from lost

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        lines = ((json_text.line([kind, data]) + "\n").encode() for kind, data in records)
        reply = self._transfer("POST", "/v1/import", lines)
        return int(json_text.loads(reply.body.decode())["records"])

    def backup(self, path: str) -> None:
        from dibs.system import durable

        try:
            with durable.NewFile(path) as partial, open(partial, "wb") as file:
                file.write(self._transfer("GET", "/v1/backup", None).body)
        except FileExistsError:
            raise Invalid(f"{path} exists already; a backup does not overwrite it", field="path") from None
        except OSError as error:
            raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error

    def restore(self, path: str, *, actor: str) -> int:
        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        with open(path, "rb") as file:
            chunks = iter(lambda: file.read(1 << 20), b"")
            reply = self._transfer("POST", f"/v1/restore?actor={_quoted(actor)}", chunks)
        return int(json_text.loads(reply.body.decode())["items"])

    def close(self) -> None:
        self._client.sender.close()

    # Requests

    def _call(self, verb: Verb, asked: dict[str, Any], request: Request | None, wait_seconds: float = 0.0) -> Any:
        path = verb.path
        for name in [part[1:-1].partition(":")[0] for part in path.split("/") if part.startswith("{")]:
            path = path.replace(f"{{{name}}}", asked[name]).replace(f"{{{name}:path}}", _quoted(asked[name]))
            del asked[name]
        if verb.method == "GET":
            answer = self._client.ask("GET", path, query={name.rstrip("_"): value for name, value in asked.items()})
        else:
            answer = self._client.ask(
                verb.method,
                path,
                asked,
                query={"wait": wait_seconds or None},
                request_id=_id_of(request),
                wait_seconds=wait_seconds,
            )
        if verb.answer is str:
            return tuple(answer)
        return _all(verb.answer, answer) if verb.many else _decoded(verb.answer, answer)

    def _read(self, path: str, **query: Any) -> Any:
        return self._client.ask("GET", path, query=query)

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
        """One page of `bytes_max`; without `bytes_max`, all pages together."""
        found: list[V] = []
        more = True
        while more and len(found) < limit and (bytes_max is None or not found):
            size = PAGE_BYTES if bytes_max is None else bytes_max
            query = {**asked, "after": after, "limit": limit - len(found), "bytes_max": size}
            answer, more = self._client.ask_page(path, query)
            found += _all(kind, answer)
            more = more and bool(answer)
            after = name(found[-1]) if found else after
        return page(found, more=more and len(found) < limit)

    def _transfer(self, method: str, path: str, body: Iterator[bytes] | None) -> Reply:
        """A request about a whole board: with a long timeout, and without retries."""
        headers = {**self._client.headers, "Content-Type": "application/octet-stream"}
        try:
            reply = self._client.sender.send(method, path, headers, body, ARCHIVE_SECONDS)
        except NoAnswer as lost:
            raise unavailable(lost, unknown=lost.sent and body is not None) from lost
        if reply.status != 200:
            raise refusal(reply, writes=body is not None)
        return reply


def _verb(verb: Verb) -> Any:
    """The method for a verb whose parameters are those of its route."""

    def method(store: WrittenVerbs, *given: Any, request: Request | None = None, **asked: Any) -> Any:
        asked.update(zip(verb.positional, given, strict=False))  # each may also be given by its name
        return store._call(verb, asked, request)

    method.__name__ = verb.name
    return method


_VERBS_OF_TABLE: Any = type("VerbsOfTable", (), {verb.name: _verb(verb) for verb in VERBS})


class HttpStore(WrittenVerbs, _VERBS_OF_TABLE):  # type: ignore[misc]  # a base that is made at run time
    """Every other verb of the contract follows from the table of verbs."""


class HttpWatch(Watch):
    """A long request to the server's feed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._at: int = client.ask("GET", "/v1/watch")["event"]

    def wait(self, timeout_seconds: float) -> bool:
        wait = max(0.0, min(timeout_seconds, WATCH_SECONDS))
        query = {"after": self._at, "wait": wait}
        try:
            found = self._client.ask("GET", "/v1/watch", query=query, wait_seconds=wait)
        except StoreUnavailable as error:
            if "limit" in error.facts:
                # The server serves no more waiting clients, so this client polls.
                time.sleep(min(wait, error.facts.get("retry_after_seconds", 0)))
            return True  # a change may have been missed; if the server is down, the caller's next read raises
        before, self._at = self._at, found["event"]
        return bool(self._at != before)

    def close(self) -> None:
        pass


def _decoded(kind: type[V], answer: dict[str, Any]) -> V:
    """The value that a server sent. Unknown fields are ignored, because the server may be newer than this client."""
    return wire.decode(kind, answer)


def _all(kind: type[V], answer: Sequence[dict[str, Any]]) -> tuple[V, ...]:
    return tuple(_decoded(kind, one) for one in answer)


def _new_item(item: NewItem) -> dict[str, Any]:
    """A new item as it is sent. Without an id, the server chooses one."""
    return {name: value for name, value in _sent(item).items() if name != "id" or value}


def _sent(value: Value) -> dict[str, Any]:
    """A value as it is sent, without the defaults: an older server refuses a field that it does not know."""
    return {name: wire.encode(held, name) for name, held in value.without_defaults().items()}


def _key(shown: dict[str, Any]) -> Key:
    """A key as a server shows it: without its digest."""
    return _decoded(Key, {"digest": "", **shown})


def _id_of(request: Request | None) -> str:
    return randomness.request_id() if request is None else request.id


def _quoted(name: str) -> str:
    """Percent-encode a name, which may contain characters with a meaning in a path."""
    from urllib.parse import quote

    return quote(name, safe="")
