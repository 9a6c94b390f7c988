"""The board: what a client holds. Each verb checks its input once, then calls the store once.

The few verbs that do more say so: `next` may wait, a verb that is refused because of a claim is asked again once the
claims of dead owners are ended, and the ends of a run may recover a claim that expired while its holder was at work.
"""

from __future__ import annotations

import os
import time

from dibs import check, config
from dibs import owner as owners
from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ResourceBusy,
    SessionNotFound,
    StoreUnavailable,
)
from dibs.model import ENDED, Agent, Request, Session
from dibs.rules.claiming import recoverable
from dibs.store.open import is_remote, is_there, migrate_store, open_store
from dibs.store.open import make_hub as make_store_hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self, TypeVar

    from dibs.asession import AsyncSession
    from dibs.config import Settings
    from dibs.model import (
        Activity,
        Added,
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
        Owner,
        Prune,
        Reason,
        Renewal,
        Run,
        SessionEnd,
        SessionView,
        SoftClaim,
        Stats,
        Sweep,
        Synced,
        Waiting,
    )
    from dibs.session import LiveSession
    from dibs.store.contract import Page, Store, Watch

    T = TypeVar("T")

NEXT_MAX = 1000
LIMIT_MAX = 10**6
PRUNE_BATCH = 200
#: A waiting client looks this often for owners that died without a word.
OWNER_LOOK_SECONDS = owners.LOOK_SECONDS
#: How often one verb ends the claims of dead owners, a batch at a time, before its refusal stands.
REAPS_MAX = 10
#: Refusals that another claim can cause. Not `RateLimited`: a claim counts towards the rate whatever became of it.
CAUSED_BY_A_CLAIM = (ItemAlreadyClaimed, ItemNotClaimable, ResourceBusy, AgentAtCapacity)


class Board:
    """The verbs, over a store. `actor` is who acts where no session does: added, edited, cancelled by."""

    def __init__(
        self,
        store: Store,
        settings: Settings = config.DEFAULTS,
        *,
        actor: str | None = None,
        watch: Callable[[str | None], Watch] | None = None,
    ) -> None:
        """`watch` stands in for the store's own where many wait in one process and share one."""
        self.store = store
        store.find_dead = owners.dead
        self.settings = settings
        self.actor = config.user_name() if actor is None else check.name(actor, "actor")
        self._shared_watch = watch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    # Items

    def add(self, title: str, *, actor: str | None = None, request_id: str | None = None, **fields: Any) -> Added:
        """Add one item; `fields` are those of `NewItem`. The answer says whether it `existed`."""
        return self.add_many([{**fields, "title": title}], actor=actor, request_id=request_id)[0]

    def add_many(
        self, items: Iterable[Mapping[str, Any]], *, actor: str | None = None, request_id: str | None = None
    ) -> tuple[Added, ...]:
        """Add all of the items or none; a refusal says which one was wrong, counted from 1, as `number`."""
        new = []
        given, actor = check.batch(items), self._actor(actor)
        for number, fields in enumerate(given, start=1):
            # Asked again, it is the same item: an id that is made up does not change.
            tail = None if request_id is None else _tail(actor, request_id, number)
            try:
                new.append(check.new_item(fields, tail))
            except Invalid as error:
                error.facts.setdefault("number", number)
                raise
        if not new:
            return ()
        return self.store.add(new, actor=actor, request=_request(request_id, actor, "add", given))

    def get(self, item: str) -> Detail:
        return self.store.get(check.item_id(item, "item"))

    def list(
        self,
        *,
        statuses: Iterable[str] = (),
        projects: Iterable[str] = (),
        types: Iterable[str] = (),
        labels: Iterable[str] = (),
        after: str | None = None,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        return self.store.list(
            statuses=check.statuses(statuses),
            projects=check.names(projects, "projects"),
            types=check.names(types, "types"),
            labels=check.names(labels, "labels"),
            after=None if after is None else check.item_id(after, "after"),
            limit=check.limit(limit),
            bytes_max=check.bytes_max(bytes_max),
        )

    def edit(
        self,
        item: str,
        *,
        revision: int | None = None,
        relabel: bool = True,
        actor: str | None = None,
        request_id: str | None = None,
        **changes: Any,
    ) -> Edited:
        """Change the content that is named; a list replaces the whole list. The answer says what was there `before`.
        With `revision`, only if the item is still at that one; without `relabel`, not its type or action."""
        item, actor, revision = check.item_id(item, "item"), self._actor(actor), check.revision(revision)
        request = _request(request_id, actor, "edit", item, changes, revision)
        changed = check.edits(changes)
        return self._past_dead_owners(
            lambda: self.store.edit(item, changed, actor=actor, revision=revision, relabel=relabel, request=request)
        )

    def cancel(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        item, actor = check.item_id(item, "item"), self._actor(actor)
        request = _request(request_id, actor, "cancel", item, reason)
        return self.store.cancel(item, actor=actor, reason=check.optional_text(reason, "reason"), request=request)

    def retry(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        item, actor = check.item_id(item, "item"), self._actor(actor)
        request, reason = _request(request_id, actor, "retry", item, reason), check.optional_text(reason, "reason")
        return self._past_dead_owners(lambda: self.store.retry(item, actor=actor, reason=reason, request=request))

    def park(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        item, actor = check.item_id(item, "item"), self._actor(actor)
        request, reason = _request(request_id, actor, "park", item, reason), check.optional_text(reason, "reason")
        return self._past_dead_owners(lambda: self.store.park(item, actor=actor, reason=reason, request=request))

    def unpark(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        item, actor = check.item_id(item, "item"), self._actor(actor)
        request = _request(request_id, actor, "unpark", item, reason)
        return self.store.unpark(item, actor=actor, reason=check.optional_text(reason, "reason"), request=request)

    def approve(
        self,
        item: str,
        *,
        comment: str | None = None,
        done: bool = False,
        token: int | None = None,
        revision: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Item:
        """Say yes to an item that waits for it: it may be done now, or with `done` it is done with its draft. With the
        `revision` of the item that was read, to that item with its draft and to nothing that came after; with the
        `token` of the run whose draft was read, to that draft and no other."""
        item, actor, comment = check.item_id(item, "item"), self._actor(actor), check.optional_text(comment, "comment")
        token, revision = check.token(token), check.revision(revision)
        request = _request(request_id, actor, "approve", item, comment, done, token, revision)
        return self.store.approve(
            item, actor=actor, comment=comment, done=done, token=token, revision=revision, request=request
        )

    def send_back(
        self,
        item: str,
        *,
        comment: str,
        revision: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Item:
        item, actor, comment = check.item_id(item, "item"), self._actor(actor), check.reason(comment, "comment")
        revision = check.revision(revision)
        request = _request(request_id, actor, "send_back", item, comment, revision)
        return self.store.send_back(item, actor=actor, comment=comment, revision=revision, request=request)

    def reject(
        self,
        item: str,
        *,
        reason: str,
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Item:
        """Not to be done: said by its holder (with `session` and `token`), or by a person of an item that waits for
        approval (with the `revision` that was read)."""
        item, actor, reason, token = (
            check.item_id(item, "item"),
            self._actor(actor),
            check.reason(reason),
            check.token(token),
        )
        session, revision = None if session is None else check.session_id(session), check.revision(revision)
        if session is not None and revision is not None:
            raise Invalid("a holder rejects by its token; revision is for who decides about a draft", field="revision")
        request = _request(request_id, session or actor, "reject", item, token, reason, revision)
        return self.store.reject(
            item, reason=reason, session=session, token=token, revision=revision, actor=actor, request=request
        )

    def annotate(
        self,
        item: str,
        *,
        token: int | None = None,
        links: Mapping[str, Any] | None = None,
        checks: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        session: str | None = None,
        agent: str | None = None,
        key: str | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Ended:
        """Add links, checks and costs to a run that has ended: the one under `token`, else the item's latest. With
        `session`, as that session's agent, which annotates its own runs only; with `agent`, only that agent's; with
        `key`, only those of sessions that this key registered."""
        item, token, actor = check.item_id(item, "item"), check.token(token), self._actor(actor)
        session = None if session is None else check.session_id(session)
        agent = None if agent is None else check.agent_name(agent)
        said = {
            "links": check.json_object(dict(links or {}), "links", check.NOTE_BYTES_MAX),
            "checks": check.checks(dict(checks or {})),
            "cost": check.json_object(dict(cost or {}), "cost", check.NOTE_BYTES_MAX),
        }
        if not any(said.values()):
            raise Invalid("there is nothing to add; name a link, a check or a cost", field="links")
        request = _request(request_id, session or actor, "annotate", item, token, said)
        return self._past_dead_owners(
            lambda: self.store.annotate(
                item, token=token, session=session, agent=agent, key=key, actor=actor, request=request, **said
            )
        )

    # Agents and sessions

    def set_agent(
        self,
        name: str,
        *,
        types: Iterable[str] = (),
        role: str | None = None,
        max_claims: int | None = None,
        max_claims_total: int | None = None,
        claims_per_minute: float | None = None,
        claims_burst: int = 1,
        allowed_actions: Iterable[str] = (),
        sensitive_actions: Iterable[str] = (),
    ) -> Agent:
        """Create the agent or replace what was said of it."""
        return self.store.set_agent(
            Agent(
                name=check.agent_name(name),
                types=check.names(types, "types"),
                role=None if role is None else check.name(role, "role"),
                max_claims=check.optional_whole(max_claims, "max_claims", low=1, high=LIMIT_MAX),
                max_claims_total=check.optional_whole(max_claims_total, "max_claims_total", low=1, high=LIMIT_MAX),
                claims_per_minute=None
                if claims_per_minute is None
                else check.number(claims_per_minute, "claims_per_minute", low=0.001, high=LIMIT_MAX),
                claims_burst=check.whole(claims_burst, "claims_burst", low=1, high=LIMIT_MAX),
                allowed_actions=check.names(allowed_actions, "allowed_actions"),
                sensitive_actions=check.names(sensitive_actions, "sensitive_actions"),
            )
        )

    def agents(self) -> tuple[Agent, ...]:
        return self.store.agents()

    def start_session(
        self,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "cli",
        host: str | None = None,
        owner_pid: int | None = None,
        owner: Owner | None = None,
        meta: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Session:
        """Start a session; without an id it gets one. The process `owner_pid` (or `owner`, if somebody else looked it
        up) really owns it: its death ends the claims. `key` is whose it is on a server."""
        agent = check.agent_name(agent)
        if owner_pid is not None:
            owner = owners.of(check.whole(owner_pid, "owner_pid", low=1, high=check.PID_MAX))
        return self.store.start_session(
            Session(
                id=f"{agent[:40]}-{os.urandom(6).hex()}" if id is None else check.session_id(id),
                agent=agent,
                kind=check.name(kind, "kind"),
                host=os.uname().nodename[:255] if host is None else check.text(host, "host", 255),
                owner=None if owner is None else check.owner(owner),
                meta=check.json_object(dict(meta or {}), "meta", check.META_BYTES_MAX),
                key=key,
            )
        )

    def end_session(self, session: str, *, reason: str | None = None, request_id: str | None = None) -> SessionEnd:
        session, reason = check.session_id(session), check.optional_text(reason, "reason")
        request = _request(request_id, session, "end_session", reason)
        return self.store.end_session(session, reason=reason, request=request)

    def session(
        self,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "autonomous",
        meta: Mapping[str, Any] | None = None,
        ttl_seconds: float | None = None,
        recover: bool = True,
    ) -> LiveSession:
        """A session of this process, kept alive in the background: `with board.session(agent="coder") as me:`."""
        from dibs.session import LiveSession

        return LiveSession(self, agent, id=id, kind=kind, meta=meta, ttl_seconds=ttl_seconds, recover=recover)

    def asession(
        self,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "autonomous",
        meta: Mapping[str, Any] | None = None,
        ttl_seconds: float | None = None,
        recover: bool = True,
    ) -> AsyncSession:
        """The same for programs that await: `async with board.asession(agent="coder") as me:`."""
        from dibs.asession import AsyncSession

        return AsyncSession(
            lambda: self.session(agent, id=id, kind=kind, meta=meta, ttl_seconds=ttl_seconds, recover=recover)
        )

    def find_session(self, session: str) -> Session:
        found = self.store.find_session(check.session_id(session))
        if found is None:
            raise SessionNotFound(f"the session {session} is not known", session=session, ended=False)
        return found

    def sessions(self, *, ended: bool = False, limit: int = 1000) -> tuple[SessionView, ...]:
        return self.store.sessions(ended=ended, limit=check.limit(limit))

    # Keys

    def create_key(self, role: str, *, agent: str | None = None, seconds: float | None = None) -> tuple[Key, str]:
        """A key for a caller of a server, and its secret, which nobody can tell again."""
        from dibs import access

        key, secret = access.made(role, None if agent is None else check.agent_name(agent))
        return self.store.put_key(key, seconds=_lasting(role, seconds)), secret

    def keep_key(self, id: str, role: str, agent: str | None, digest: str, seconds: float | None) -> Key:
        """Keep a key whose secret somebody else made, and does not tell."""
        from dibs import access

        agent = None if agent is None else check.agent_name(agent)
        return self.store.put_key(access.told(id, role, agent, digest), seconds=_lasting(role, seconds))

    def keys(self) -> tuple[Key, ...]:
        return self.store.keys()

    def revoke_key(self, key: str, *, actor: str | None = None, request_id: str | None = None) -> Key:
        key, actor = check.name(key, "key"), self._actor(actor)
        return self.store.revoke_key(key, request=_request(request_id, actor, "revoke_key", key))

    # The claim path

    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        on_wait: Callable[[Waiting], None] | None = None,
        request_id: str | None = None,
    ) -> Grant:
        """Claim by id. What a dead owner process holds does not stand in the way.

        With `wait_seconds`, queue for an item that cannot be had now, and claim it when it is offered; `on_wait` is
        told where this session stands. The ticket is given up when the time is over or something interrupts.
        """
        item, session = check.item_id(item, "item"), check.session_id(session)
        agent = None if agent is None else check.agent_name(agent)
        ttl_seconds = check.ttl_seconds(ttl_seconds)
        request = _request(request_id, session, "claim", item, ttl_seconds)

        def claim() -> Grant:
            return self._past_dead_owners(
                lambda: self.store.claim(item, session=session, agent=agent, ttl_seconds=ttl_seconds, request=request)
            )

        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        try:
            return claim()
        except (ItemAlreadyClaimed, ItemNotClaimable) as error:
            if not wait_seconds or error.facts.get("status") in ENDED:
                raise
        from dibs import queue

        def stands(seconds: float) -> Waiting:
            return self.wait(item, session=session, ttl_seconds=queue.TICKET_SECONDS, wait_seconds=seconds)

        if self.store.waits:
            return queue.claim_when_told(self.store, item, session, claim, stands, wait_seconds, on_wait)
        accept_seconds = self.settings.accept_seconds
        return queue.claim_in_turn(
            self.store,
            self._watch(session),
            item,
            session,
            claim,
            wait_seconds,
            accept_seconds,
            on_wait,
            self.reap_dead_owners,
        )

    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request_id: str | None = None,
    ) -> Grant:
        item, session = check.item_id(item, "item"), check.session_id(session)
        token, ttl_seconds = check.token(token), check.ttl_seconds(ttl_seconds)
        request = _request(request_id, session, "recover", item, token, ttl_seconds)
        return self._past_dead_owners(
            lambda: self.store.recover(item, session=session, token=token, ttl_seconds=ttl_seconds, request=request)
        )

    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Iterable[str] = (),
        projects: Iterable[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        done: Mapping[str, int] | None = None,
        request_id: str | None = None,
    ) -> tuple[Grant, ...]:
        """The best items for this session. With `wait_seconds`, blocks until there is one or the time is up.

        `done` maps items that the session has finished to their tokens: they are ended as done in the same step, all
        of them or nothing, before anything is looked for.
        """
        session, agent = check.session_id(session), None if agent is None else check.agent_name(agent)
        types, projects = check.names(types, "types"), check.names(projects, "projects")
        n, ttl_seconds = check.whole(n, "n", low=1, high=NEXT_MAX), check.ttl_seconds(ttl_seconds)
        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        finished = check.finished({} if done is None else done)
        request = _request(request_id, session, "next", types, projects, n, ttl_seconds, finished)

        asked: dict[str, Any] = {
            "session": session,
            "agent": agent,
            "types": types,
            "projects": projects,
            "n": n,
            "ttl_seconds": ttl_seconds,
            "request": request,
        }

        def look() -> tuple[Grant, ...]:
            return self._past_dead_owners(lambda: self.store.next(**asked))

        # Asked again, what has ended already counts as ended.
        grants = self._past_dead_owners(lambda: self.store.next(**asked, done=finished), lambda grants: not grants)
        if grants or wait_seconds <= 0:
            return grants
        end = time.monotonic() + wait_seconds
        if self.store.waits:
            try:
                return _until(end, lambda left: self.store.next_in_time(left, **asked))
            except StoreUnavailable as error:
                if request is None and error.facts.get("outcome") == "unknown":
                    raise  # something may have been given: another look could be given more
                # looked for from here, where one is told what is wrong
        return self._wait_for(look, end)

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Heartbeat:
        """Renew all that a session holds, and with `holding` let go of the rest; `known_event` is the `event` of an
        earlier answer, so that a late heartbeat lets go of nothing that was given since. With `at_most_every_seconds`,
        what was renewed less than that ago is left as it is, however many ask at once."""
        held = None if holding is None else check.holding(holding)
        known = check.optional_whole(known_event, "known_event", low=0, high=check.TOKEN_MAX)
        if known is not None and held is None:
            raise Invalid("known_event goes with holding", field="known_event")
        return self.store.heartbeat(
            session=check.session_id(session),
            holding=held,
            known_event=known,
            at_most_every_seconds=check.interval_seconds(at_most_every_seconds),
        )

    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        item, session, token = check.item_id(item, "item"), check.session_id(session), check.token(token)
        return self.store.renew(
            item,
            session=session,
            token=token,
            ttl_seconds=check.ttl_seconds(ttl_seconds),
            at_most_every_seconds=check.interval_seconds(at_most_every_seconds),
        )

    def progress(
        self,
        item: str,
        note: str,
        *,
        session: str,
        token: int | None = None,
        meta: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Renewal:
        note, extra = check.text(note, "note", check.NOTE_BYTES_MAX), check.json_object(dict(meta or {}), "meta")
        request = _request(request_id, session, "progress", item, token, note, extra)

        def progress(token: int | None) -> Renewal:
            return self.store.progress(item, session=session, token=token, note=note, meta=extra, request=request)

        return self._fenced(progress, item, session, token, recover)

    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        reason = check.optional_text(reason, "reason")
        request = _request(request_id, session, "release", item, token, reason, park)

        def release(token: int | None) -> Ended:
            return self.store.release(item, session=session, token=token, reason=reason, park=park, request=request)

        return self._fenced(release, item, session, token, recover=False)

    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        """The item is done. With `recover`, also if the claim has expired and nobody was given the item since."""
        note, links_, cost_ = check.optional_text(note, "note"), *_links_and_cost(links, cost)
        request = _request(request_id, session, "done", item, token, note, links_, cost_)

        def done(token: int | None) -> Ended:
            return self.store.done(
                item, session=session, token=token, note=note, links=links_, cost=cost_, request=request
            )

        return self._fenced(done, item, session, token, recover)

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request_id: str | None = None) -> Finished:
        """`done` for each item, given with its token (None: not known), in one step. What cannot be done is answered
        as lost; a claim that has expired is not recovered here."""
        holding, session = check.holding(holding), check.session_id(session)
        request = _request(request_id, session, "done_many", holding)
        return self.store.done_many(holding, session=session, request=request)

    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        reason, links_, cost_ = check.optional_text(reason, "reason"), *_links_and_cost(links, cost)
        request = _request(request_id, session, "fail", item, token, reason, links_, cost_)

        def fail(token: int | None) -> Ended:
            return self.store.fail(
                item, session=session, token=token, reason=reason, links=links_, cost=cost_, request=request
            )

        return self._fenced(fail, item, session, token, recover)

    def submit(
        self,
        item: str,
        *,
        session: str,
        draft: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        recover: bool = False,
        request_id: str | None = None,
    ) -> Ended:
        """End the run with a draft for a person to approve."""
        draft, note = check.text(draft, "draft"), check.optional_text(note, "note")
        links_, cost_ = _links_and_cost(links, cost)
        request = _request(request_id, session, "submit", item, token, draft, note, links_, cost_)

        def submit(token: int | None) -> Ended:
            return self.store.submit(
                item, session=session, token=token, draft=draft, note=note, links=links_, cost=cost_, request=request
            )

        return self._fenced(submit, item, session, token, recover)

    def force_release(
        self,
        item: str,
        *,
        reason: str,
        token: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Ended:
        item, actor, reason, token = (
            check.item_id(item, "item"),
            self._actor(actor),
            check.reason(reason),
            check.token(token),
        )
        request = _request(request_id, actor, "force_release", item, reason, token)
        return self.store.force_release(item, actor=actor, reason=reason, token=token, request=request)

    def sweep(self, *, limit: int | None = None) -> Sweep:
        """End what has lapsed: expired claims, and those of owners that this process can prove dead."""
        limit = self.settings.sweep_batch if limit is None else check.limit(limit)
        return self.store.sweep(dead=self._dead_owners(), limit=limit)

    def sync(self, *, expire: bool = False) -> Synced:
        """Bring a vault and its git remote together.

        With `expire`, for a process that does so again and again: claims held elsewhere end whose sessions are silent.
        """
        return self.store.sync(expire=expire)

    # Waiting for one item

    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None, wait_seconds: float = 0) -> Waiting:
        """Take a ticket in the item's queue, or renew the one there is. With `wait_seconds`, answered once it is
        offered the item or stands elsewhere, or when the time is up."""
        item, session = check.item_id(item, "item"), check.session_id(session)
        ttl_seconds = check.ttl_seconds(ttl_seconds)
        wait_seconds = check.number(wait_seconds, "wait_seconds", low=0, high=1e9)
        if not wait_seconds:
            return self._ticket(item, session, ttl_seconds)
        if self.store.waits:
            try:
                return self.store.wait_in_time(wait_seconds, item, session=session, ttl_seconds=ttl_seconds)
            except StoreUnavailable:
                pass  # watched from here, where one is told what is wrong
        from dibs import queue

        def ticket() -> Waiting:
            return self._ticket(item, session, ttl_seconds)

        return queue.stand(self.store, self.watch(), ticket, wait_seconds, self.reap_dead_owners)

    def leave(self, item: str, *, session: str, request_id: str | None = None) -> Waiting:
        item, session = check.item_id(item, "item"), check.session_id(session)
        return self.store.leave(item, session=session, request=_request(request_id, session, "leave", item))

    def ticket(self, item: str, *, session: str) -> Waiting:
        return self.store.ticket(check.item_id(item, "item"), session=check.session_id(session))

    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        item, session = check.item_id(item, "item"), check.session_id(session)
        return self.store.soft_claim(item, session=session, ttl_seconds=check.ttl_seconds(ttl_seconds))

    def soft_release(self, item: str, *, session: str, request_id: str | None = None) -> SoftClaim:
        item, session = check.item_id(item, "item"), check.session_id(session)
        request = _request(request_id, session, "soft_release", item)
        return self.store.soft_release(item, session=session, request=request)

    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        """Everything that keeps the item from this session, or from a new session of this agent, or of any agent; or
        why `claim` and `next` would give it."""
        item, agent = check.item_id(item, "item"), None if agent is None else check.agent_name(agent)
        return self.store.why(item, session=None if session is None else check.session_id(session), agent=agent)

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int | None = None) -> Prune:
        """Forget what ended so long ago, batch by batch, so that nobody waits long for any of them; with a limit, only
        one batch of so many."""
        seconds = check.number(older_than_seconds, "older_than_seconds", low=0, high=1e10)
        if limit is not None:
            return self.store.prune(older_than_seconds=seconds, limit=check.limit(limit))
        items = events = 0
        while True:
            batch = self.store.prune(older_than_seconds=seconds, limit=PRUNE_BATCH)
            items, events = items + batch.items, events + batch.events
            if batch.items < PRUNE_BATCH:
                return batch.replace(items=items, events=events)

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return self.store.export()

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        return self.store.load(records)

    def backup(self, path: str) -> None:
        self.store.backup(path)

    def restore(self, path: str, *, actor: str | None = None) -> int:
        return self.store.restore(path, actor=self._actor(actor))

    # Reading

    def events(
        self,
        *,
        after: int | None = None,
        item: str | None = None,
        newest: bool = False,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Event]:
        item = None if item is None else check.item_id(item, "item")
        after = check.optional_whole(after, "after", low=0, high=check.TOKEN_MAX)
        size = check.bytes_max(bytes_max)
        return self.store.events(after=after, item=item, newest=newest, limit=check.limit(limit), bytes_max=size)

    def log(self, item: str, *, after: int | None = None, bytes_max: int | None = None) -> Page[Event]:
        """The whole history of one item, oldest first."""
        self.get(item)
        return self.events(after=after, item=item, limit=check.LIST_MAX, bytes_max=bytes_max)

    def follow(self, *, after: int | None = None, wait_seconds: float | None = None) -> Iterator[Event]:
        """The feed after a cursor, event by event as they come; ends after `wait_seconds` without one, else never. What
        time does to the board is recorded meanwhile, as far as the caller may, so that it is told, too."""
        watch = self.watch(sweeps=True)
        try:
            while True:
                events = self.events(after=after)
                yield from events
                if events:
                    after = events[-1].id
                    watch.wait(0)  # events that keep coming are no reason to leave others out
                elif wait_seconds is None:
                    watch.wait(OWNER_LOOK_SECONDS)
                elif not watch.wait(wait_seconds):
                    return
        finally:
            watch.close()

    def runs(
        self,
        *,
        item: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Run]:
        """`after` is a run, as `item:token`."""
        return self.store.runs(
            item=None if item is None else check.item_id(item, "item"),
            session=None if session is None else check.session_id(session),
            agent=None if agent is None else check.agent_name(agent),
            after=None if after is None else check.run(after, "after"),
            limit=check.limit(limit),
            bytes_max=check.bytes_max(bytes_max),
        )

    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int = 1000) -> tuple[Activity, ...]:
        return self.store.activity(
            item=None if item is None else check.item_id(item, "item"),
            agent=None if agent is None else check.agent_name(agent),
            limit=check.limit(limit),
        )

    def who(self) -> tuple[Holding, ...]:
        return self.store.who()

    def stats(self, *, agent: str | None = None) -> Stats:
        return self.store.stats(agent=None if agent is None else check.agent_name(agent))

    def check(self) -> tuple[str, ...]:
        return self.store.check()

    def watch(self, *, sweeps: bool = False) -> Watch:
        """A place to wait for change. With `sweeps`, what time does to the board is recorded while the caller waits,
        as far as it may; behind a server that is the server's to do."""
        watch = self._watch(None)
        if not sweeps or self.store.waits:
            return watch
        from dibs.sweeper import Sweeper, SweepingWatch

        return SweepingWatch(watch, Sweeper(self.store, self.sweep, self.reap_dead_owners))

    def _watch(self, session: str | None) -> Watch:
        return self.store.watch(session=session) if self._shared_watch is None else self._shared_watch(session)

    def _actor(self, given: str | None) -> str:
        return self.actor if given is None else check.name(given, "actor")

    def _fenced(self, verb: Callable[[int | None], T], item: str, session: str, token: int | None, recover: bool) -> T:
        """A verb of the holder; with `recover`, an expired claim that nobody took over is claimed again first."""
        check.item_id(item, "item")
        check.session_id(session)
        try:
            return verb(check.token(token))
        except ClaimExpired as error:
            if not (recover and recoverable(error)):
                raise
            lost = error.facts["token"]
        return verb(self.recover(item, session=session, token=lost).claim.token)

    def _wait_for(self, look: Callable[[], tuple[Grant, ...]], end: float) -> tuple[Grant, ...]:
        """Look whenever something changed or fell due, until there is something or the time is up."""
        watch = self.watch()
        reaped = time.monotonic()
        try:
            while True:
                # Looked at again once the watch stands, so that nothing can slip in between.
                grants = look()
                left = end - time.monotonic()
                if grants or left <= 0:
                    return grants
                due = self.store.due_seconds()
                woken = watch.wait(min(left, OWNER_LOOK_SECONDS if due is None else min(due, OWNER_LOOK_SECONDS)))
                # Who was woken is in a hurry, and looks for what woke it first.
                if not woken or time.monotonic() - reaped > OWNER_LOOK_SECONDS:
                    self.reap_dead_owners()
                    reaped = time.monotonic()
        finally:
            watch.close()

    def _ticket(self, item: str, session: str, ttl_seconds: float | None) -> Waiting:
        """The session's ticket, once no dead owner holds the item."""
        return self._past_dead_owners(
            lambda: self.store.wait(item, session=session, ttl_seconds=ttl_seconds),
            lambda standing: standing.claim is not None,
        )

    def _past_dead_owners(self, verb: Callable[[], T], is_held_up: Callable[[T], bool] = lambda _: False) -> T:
        """Do the verb. If a claim may be why it is refused, or why its answer `is_held_up`, end the claims of dead
        owners and ask again."""
        for _ in range(REAPS_MAX):
            try:
                answer = verb()
            except DibsError as refusal:
                if not (_is_caused_by_a_claim(refusal) and self.reap_dead_owners()):
                    raise
            else:
                if not (is_held_up(answer) and self.reap_dead_owners()):
                    return answer
        return verb()

    def reap_dead_owners(self) -> bool:
        """End the claims of owners that this process can prove dead; whether there were any, whoever ended them."""
        dead = self._dead_owners()
        if dead:
            self.store.sweep(dead=dead, limit=self.settings.sweep_batch)
        return bool(dead)

    def _dead_owners(self) -> Sequence[tuple[str, Owner]]:
        return owners.dead(lambda boot_id, ns: self.store.owners(boot_id=boot_id, pid_namespace=ns))


def connect(
    url: str | None = None,
    *,
    folder: str = ".",
    actor: str | None = None,
    create: bool = False,
    seeded: bool = True,
    lean: bool = False,
) -> Board:
    """The board at `url`; without one, that of `DIBS_STORE`, or the one that belongs to `folder`. With `seeded`, the
    agents that the folder's `dibs.toml` names are on it (behind a server, that is the server's to see to). `lean`: for
    a process that lives for one verb."""
    url = url or default_url(folder)
    settings, agents = config.load(folder)
    board = Board(open_store(url, settings, create=create, lean=lean), settings, actor=actor)
    if seeded and not is_remote(url):
        seed(board, agents)
    return board


def make(url: str, *, folder: str = ".") -> bool:
    """Make the board at `url`, unless it is there already; whether it was made."""
    made = not is_there(url, config.load(folder)[0])
    connect(url, folder=folder, create=True).close()
    return made


def migrate(url: str | None = None, *, folder: str = ".") -> tuple[int, int]:
    """Bring the schema of a board up to this version of dibs; which version it had, and has now."""
    return migrate_store(url or default_url(folder), config.load(folder)[0])


def make_hub(path: str) -> bool:
    """Make a bare repository for clones of a vault, unless it is there already; whether it was made."""
    return make_store_hub(path)


def default_url(folder: str) -> str:
    """Where the board is if nobody says: at `DIBS_STORE`, or where the one of `folder` is."""
    named = os.environ.get(config.ENV_STORE)
    if named:
        return named
    from dibs import location

    return location.find(folder)


def seed(board: Board, agents: Mapping[str, Mapping[str, Any]]) -> None:
    """Create the agents a `dibs.toml` names; those the board knows already are left as they are."""
    if agents:
        known = {agent.name for agent in board.agents()}
        for name, fields in agents.items():
            if name not in known:
                try:
                    board.set_agent(name, **fields)
                except TypeError as error:
                    raise Invalid(f"{config.FILE_NAME}: [agents.{name}]: {error}", field=name) from error


def _is_caused_by_a_claim(refusal: DibsError) -> bool:
    """Of input, only what cannot change under a holder is refused because of one, and then the refusal names it."""
    return isinstance(refusal, CAUSED_BY_A_CLAIM) or (isinstance(refusal, Invalid) and "holder" in refusal.facts)


def _lasting(role: str, seconds: float | None) -> float | None:
    from dibs import access

    if seconds is not None:
        seconds = check.number(seconds, "seconds", low=1, high=1e9)
    return access.lasting_seconds(role, seconds)


def _until(end: float, look: Callable[[float], tuple[Grant, ...]]) -> tuple[Grant, ...]:
    """Look, each time for as long as whoever looks likes, until there is something or the time is up."""
    while (left := end - time.monotonic()) > 0:
        grants = look(left)
        if grants:
            return grants
    return ()


def _links_and_cost(
    links: Mapping[str, Any] | None, cost: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    return check.json_object(dict(links or {}), "links"), check.json_object(dict(cost or {}), "cost")


def _tail(actor: str, request_id: str, number: int) -> str:
    """What distinguishes the ids that a request makes up, the same whenever it is asked."""
    import hashlib

    asked = f"{actor} {request_id} {number}"
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _request(request_id: str | None, actor: str, verb: str, *asked: Any) -> Request | None:
    """The request with a fingerprint of everything that was asked; None where the caller gave no id."""
    if request_id is None:
        return None
    import hashlib
    import json

    asked_text = json.dumps([verb, *asked], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(asked_text.encode("utf-8", "surrogatepass")).hexdigest()
    return Request(actor=actor, id=check.name(request_id, "request_id"), fingerprint=fingerprint)
