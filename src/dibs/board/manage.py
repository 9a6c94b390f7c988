"""The verbs that manage a board: items and decisions about them, agents, sessions, keys, webhooks."""

from __future__ import annotations

import os

from dibs import check
from dibs.board.base import BoardBase, id_tail, request
from dibs.errors import Invalid
from dibs.model import Agent, Session
from dibs.rules.refusals import session_not_found
from dibs.system import owner as owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dibs.model import Added, Detail, Edited, Ended, Item, Key, Owner, SessionEnd, SessionView
    from dibs.model.dashboard import Bulk
    from dibs.model.webhooks import DeadLetter, Delivery, NewWebhook, Webhook
    from dibs.store.contract import Page

LIMIT_MAX = 10**6


class ManageVerbs(BoardBase):
    # Items

    def add(self, title: str, *, actor: str | None = None, request_id: str | None = None, **fields: Any) -> Added:
        """Add one item; `fields` are those of `NewItem`. The answer says whether it `existed`."""
        return self.add_many([{**fields, "title": title}], actor=actor, request_id=request_id)[0]

    def add_many(
        self, items: Iterable[Mapping[str, Any]], *, actor: str | None = None, request_id: str | None = None
    ) -> tuple[Added, ...]:
        """Add all of the items or none; a refusal has the `number` of the invalid one, counted from 1."""
        new = []
        given, actor = check.batch(items), self._actor(actor)
        for number, fields in enumerate(given, start=1):
            # A repeated request generates the same ids, so that it adds no item twice.
            tail = None if request_id is None else id_tail(actor, request_id, number)
            try:
                new.append(check.new_item(fields, tail))
            except Invalid as error:
                error.facts.setdefault("number", number)
                raise
        if not new:
            return ()
        idempotency_key = None if request_id is None else request(request_id, actor, "add", given)
        return self.store.add(new, actor=actor, request=idempotency_key)

    def get(self, item: str) -> Detail:
        return self._call(self.store.get, item)

    def list(
        self,
        *,
        statuses: Iterable[str] = (),
        projects: Iterable[str] = (),
        types: Iterable[str] = (),
        labels: Iterable[str] = (),
        subject: str | None = None,
        after: str | None = None,
        limit: int = 1000,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        after = None if after is None else check.item_id(after, "after")
        filters: dict[str, Any] = {"statuses": statuses, "projects": projects, "types": types, "labels": labels}
        if subject is not None:
            filters["subject"] = subject  # not sent otherwise: a server of an older version does not know it
        return self._call(self.store.list, **filters, after=after, limit=limit, bytes_max=bytes_max)

    def bulk(
        self,
        verb: str,
        *,
        args: Mapping[str, Any] | None = None,
        items: Iterable[Mapping[str, Any]] = (),
        filter: Mapping[str, Any] | None = None,
        expect: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Bulk:
        """Call a verb of people on many items: those of `items`, each with its `id` and perhaps the `revision` or the
        `token` that the caller read, or those that match `filter`, if they are `expect` many."""
        from dibs.board import filters

        asked = filters.checked_bulk(verb, args=args, items=items, filter=filter, expect=expect)
        by = self._actor(actor)
        key = None if request_id is None else request(request_id, by, "bulk", verb, *asked.values())
        if verb in ("park", "retry"):
            self.reap_dead_owners()  # their claims would be in the way
        return self.store.bulk(verb, **asked, actor=by, request=key)

    def edit(
        self,
        item: str,
        *,
        add_resources: Iterable[str] = (),
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        relabel: bool = True,
        actor: str | None = None,
        request_id: str | None = None,
        **changes: Any,
    ) -> Edited:
        """Change the given fields; a list replaces the old list, and `add_resources` adds to one. The answer has the
        old values as `before`. With `session` (and `token`), only if that session holds the item: it may add resources
        that no other session holds. With `revision`, only if the item is still at that revision; without `relabel`,
        type, action, review and what another system says cannot change."""
        added = check.resources(add_resources)
        if added and "resources" in changes:
            raise Invalid("give either resources, a whole new list, or add_resources", field="add_resources")
        if token is not None and session is None:
            raise Invalid("token requires session", field="token")
        parameters: dict[str, Any] = {
            "changes": check.edits(changes) if changes or not added else {},
            "revision": revision,
            "actor": actor,
            "relabel": relabel,
        }
        # Not passed if they are not given: a server of an older version, and kept answers, do not know them.
        given = {"add_resources": added or None, "session": session, "token": token}
        parameters |= {name: value for name, value in given.items() if value is not None}
        return self._call_past_dead_owners(self.store.edit, item, **parameters, request_id=request_id)

    def cancel(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call(self.store.cancel, item, reason=reason, actor=actor, request_id=request_id)

    def retry(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call_past_dead_owners(self.store.retry, item, reason=reason, actor=actor, request_id=request_id)

    def park(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call_past_dead_owners(self.store.park, item, reason=reason, actor=actor, request_id=request_id)

    def unpark(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call(self.store.unpark, item, reason=reason, actor=actor, request_id=request_id)

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
        """Approve an item that waits for approval; with `done`, end it as done with its draft. With `revision` (of the
        item) and `token` (of the run with the draft), only what the caller has read is approved."""
        decision = {"comment": comment, "done": done, "token": token, "revision": revision}
        return self._call(self.store.approve, item, **decision, actor=actor, request_id=request_id)

    def send_back(
        self,
        item: str,
        *,
        comment: str,
        revision: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Item:
        parameters = {"comment": check.reason(comment, "comment"), "revision": revision, "actor": actor}
        return self._call(self.store.send_back, item, **parameters, request_id=request_id)

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
        """End the item as rejected: by its holder (with `session` and `token`), or by a person while it waits for
        approval (with the `revision` that was read)."""
        if session is not None and revision is not None:
            raise Invalid("a holder rejects with its token; revision is for a decision about a draft", field="revision")
        parameters = {"token": token, "reason": check.reason(reason), "revision": revision}
        return self._call(self.store.reject, item, **parameters, session=session, actor=actor, request_id=request_id)

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
        """Add links, checks and costs to a run that has ended: the run under `token`, or the item's latest. With
        `session` or `agent`, only a run of that agent; with `key`, only a run of a session that this key registered."""
        added = {
            "links": check.json_object(dict(links or {}), "links", check.NOTE_BYTES_MAX),
            "checks": check.checks(dict(checks or {})),
            "cost": check.json_object(dict(cost or {}), "cost", check.NOTE_BYTES_MAX),
        }
        if not any(added.values()):
            raise Invalid("there is nothing to add; name a link, a check or a cost", field="links")
        parameters: dict[str, Any] = {"token": token, **added, "session": session, "agent": agent, "actor": actor}
        if key is not None:
            parameters["key"] = key  # only a server passes one
        return self._call_past_dead_owners(self.store.annotate, item, **parameters, request_id=request_id)

    def force_release(
        self,
        item: str,
        *,
        reason: str,
        token: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Ended:
        parameters = {"reason": check.reason(reason), "token": token, "actor": actor}
        return self._call(self.store.force_release, item, **parameters, request_id=request_id)

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
        """Create the agent or replace its settings."""
        rate = claims_per_minute
        return self.store.set_agent(
            Agent(
                name=check.agent_name(name),
                types=check.names(types, "types"),
                role=None if role is None else check.name(role, "role"),
                max_claims=check.optional_whole(max_claims, "max_claims", low=1, high=LIMIT_MAX),
                max_claims_total=check.optional_whole(max_claims_total, "max_claims_total", low=1, high=LIMIT_MAX),
                claims_per_minute=None
                if rate is None
                else check.number(rate, "claims_per_minute", low=0.001, high=LIMIT_MAX),
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
        parent: str | None = None,
        key: str | None = None,
    ) -> Session:
        """Start a session; without an id it gets one. The death of its owner process (`owner_pid`, or `owner` if the
        caller has looked it up) ends its claims, and so does the end of its `parent`, a session that it is a child of.
        `key` is the key that registers it on a server."""
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
                parent=None if parent is None else check.name(parent, "parent"),
            )
        )

    def end_session(self, session: str, *, reason: str | None = None, request_id: str | None = None) -> SessionEnd:
        session = check.session_id(session)
        return self._call(self.store.end_session, session=session, reason=reason, request_id=request_id)

    def find_session(self, session: str) -> Session:
        found = self.store.find_session(check.session_id(session))
        if found is None:
            raise session_not_found(session, ended=False)
        return found

    def sessions(self, *, ended: bool = False, limit: int = 1000) -> tuple[SessionView, ...]:
        return self._call(self.store.sessions, ended=ended, limit=limit)

    # Keys

    def create_key(self, role: str, *, agent: str | None = None, seconds: float | None = None) -> tuple[Key, str]:
        """Create a key for a caller of a server; return it and its secret, which the board does not store."""
        from dibs import api_keys

        key, secret = api_keys.new(role, None if agent is None else check.agent_name(agent))
        return self.store.put_key(key, seconds=_key_seconds(role, seconds)), secret

    def keep_key(self, id: str, role: str, agent: str | None, digest: str, seconds: float | None) -> Key:
        """Store a key whose secret the caller created and does not send."""
        from dibs import api_keys

        agent = None if agent is None else check.agent_name(agent)
        return self.store.put_key(api_keys.registered(id, role, agent, digest), seconds=_key_seconds(role, seconds))

    def keys(self) -> tuple[Key, ...]:
        return self.store.keys()

    def revoke_key(self, key: str, *, actor: str | None = None, request_id: str | None = None) -> Key:
        key, actor = check.name(key, "key"), self._actor(actor)
        idempotency_key = None if request_id is None else request(request_id, actor, "revoke_key", key)
        return self.store.revoke_key(key, request=idempotency_key)

    # Webhooks

    def add_webhook(
        self,
        url: str,
        *,
        kinds: Iterable[str],
        projects: Iterable[str] = (),
        format: str = "json",
        allow_private: bool = False,
        give_up_seconds: float | None = None,
        id: str | None = None,
        secret: str | None = None,
        actor: str | None = None,
    ) -> NewWebhook:
        """Send the events of these kinds to a URL from now on. `id` and `secret` are for a caller that may have to
        repeat the call; without them they are made here."""
        from dibs.board import webhooks

        wanted = webhooks.checked(url, kinds, projects, format, allow_private, give_up_seconds, id)
        return webhooks.add(self.store, wanted.replace(created_by=self._actor(actor)), secret)

    def webhooks(self) -> tuple[Webhook, ...]:
        return self.store.webhooks()

    def change_webhook(self, webhook: str, *, enabled: bool | None = None, secret: str | None = None) -> Webhook:
        """Enable or disable a webhook, or let a new `secret` sign; the one before signs for another day."""
        from dibs.board import webhooks

        changes = webhooks.checked_changes(enabled, secret)
        return self.store.change_webhook(check.name(webhook, "webhook"), **changes)

    def remove_webhook(self, webhook: str) -> Webhook:
        return self.store.remove_webhook(check.name(webhook, "webhook"))

    def dead_letters(self, webhook: str) -> tuple[DeadLetter, ...]:
        return self.store.dead_letters(check.name(webhook, "webhook"))

    def send_webhook(self, webhook: str, *, event: int | None = None) -> Delivery:
        """Send a message by hand and wait for the answer: a test, or with `event` that dead letter again."""
        webhook = check.name(webhook, "webhook")
        event = check.optional_whole(event, "event", low=1, high=check.TOKEN_MAX)
        sent = self.store.send_webhook(webhook, event=event)
        if sent is None:
            from dibs.webhooks import by_hand

            sent = by_hand.send(self, webhook, event)
        return sent


def _key_seconds(role: str, seconds: float | None) -> float | None:
    from dibs import api_keys

    if seconds is not None:
        seconds = check.number(seconds, "seconds", low=1, high=1e9)
    return api_keys.validity_seconds(role, seconds)
