"""The verbs that manage a board: those about items, agents, sessions, keys and webhooks."""

from __future__ import annotations

import os

from dibs import check
from dibs.board.base import request
from dibs.board.items import ItemVerbs
from dibs.model import Agent, Session
from dibs.rules.refusals import session_not_found
from dibs.system import owner as owners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dibs.model import Key, Owner, SessionEnd, SessionView
    from dibs.model.webhooks import DeadLetter, Delivery, NewWebhook, Webhook

#: How long a key that was replaced stays valid: so that those who have it can be given the new one.
GRACE_SECONDS = 86400.0


class ManageVerbs(ItemVerbs):
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
        from dibs.board import agent_settings

        given: dict[str, Any] = {"types": types, "role": role, "max_claims": max_claims}
        given |= {"max_claims_total": max_claims_total, "claims_per_minute": claims_per_minute}
        given |= {"claims_burst": claims_burst}
        given |= {"allowed_actions": allowed_actions, "sensitive_actions": sensitive_actions}
        return self.store.set_agent(agent_settings.checked(name, given))

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
        found = Session(
            id=f"{agent[:40]}-{os.urandom(6).hex()}" if id is None else check.name(id, "id"),
            agent=agent,
            kind=check.name(kind, "kind"),
            host=os.uname().nodename[:255] if host is None else check.text(host, "host", 255),
            owner=None if owner is None else check.owner(owner),
            meta=check.optional_object(meta, "meta", check.META_BYTES_MAX),
            key=None if key is None else check.name(key, "key"),
            parent=None if parent is None else check.name(parent, "parent"),
        )
        if key is not None:
            self._require_room(found, key)
        return self.store.start_session(found)

    def _require_room(self, session: Session, key: str) -> None:
        """Refuse a session of a key that has too many live ones."""
        from dibs.board.session_room import SessionRoom
        from dibs.text import json_text

        if self._room is None:
            self._room = SessionRoom()
        size = len(json_text.dumps(session.meta).encode())
        self._room.require(self.store, key, session.id, size, self.settings.sessions_per_key)

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

    def create_key(
        self, role: str, *, agent: str | None = None, seconds: float | None = None, name: str | None = None
    ) -> tuple[Key, str]:
        """Create a key for a caller of a server; return it and its secret, which the board does not store."""
        from dibs import api_keys

        key, secret = api_keys.new(role, None if agent is None else check.agent_name(agent), name)
        return self.store.put_key(key, seconds=_key_seconds(role, seconds)), secret

    def keep_key(
        self,
        id: str,
        role: str,
        agent: str | None,
        digest: str,
        seconds: float | None,
        name: str | None = None,
    ) -> Key:
        """Store a key whose secret the caller created and does not send."""
        from dibs import api_keys

        agent = None if agent is None else check.agent_name(agent)
        key = api_keys.registered(id, role, agent, digest, name)
        return self.store.put_key(key, seconds=_key_seconds(role, seconds))

    def rotate_key(
        self,
        key: str,
        *,
        seconds: float | None = None,
        grace_seconds: float = GRACE_SECONDS,
        id: str | None = None,
        digest: str | None = None,
    ) -> tuple[Key, str | None]:
        """Create a key that acts for the sessions of another one, and let that one expire; return the new key and its
        secret. Without a secret if the caller created it and gives `id` and `digest`."""
        from dibs import api_keys

        before, secret = api_keys.require_lasting(self.store.keys(), check.name(key, "key")), None
        if id is not None and digest is not None:
            made = api_keys.registered(id, before.role, before.agent, digest)
        else:
            made, secret = api_keys.new(before.role, before.agent)
        grace_seconds = check.number(grace_seconds, "grace_seconds", low=0, high=1e9)
        seconds = _key_seconds(before.role, seconds)
        return self.store.rotate_key(key, made, seconds=seconds, grace_seconds=grace_seconds), secret

    def keys(self) -> tuple[Key, ...]:
        return self.store.keys()

    def revoke_key(self, key: str, *, actor: str | None = None, request_id: str | None = None) -> Key:
        key, actor = check.name(key, "key"), self._actor(actor)
        idempotency_key = None if request_id is None else request(request_id, actor, "revoke_key", key=key)
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
