"""The verbs about items: add and edit them, and decide about them."""

from __future__ import annotations

from dibs import check, run_checks
from dibs.board.base import BoardBase, request
from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dibs.model import Added, Detail, Edited, Ended, Item
    from dibs.model.dashboard import Bulk
    from dibs.store.contract import Page


#: What `edit` takes to change a list in part, and the field that it changes.
PARTS = {
    "add_labels": "labels",
    "remove_labels": "labels",
    "add_needs": "depends_on",
    "remove_needs": "depends_on",
    "add_resources": "resources",
}


class ItemVerbs(BoardBase):
    def add(self, title: str, *, actor: str | None = None, request_id: str | None = None, **fields: Any) -> Added:
        """Add one item; `fields` are those of `NewItem`. Without an id, the board makes one of the title. The answer
        says whether the item `existed`."""
        return self.add_many([{**fields, "title": title}], actor=actor, request_id=request_id)[0]

    def add_many(
        self, items: Iterable[Mapping[str, Any]], *, actor: str | None = None, request_id: str | None = None
    ) -> tuple[Added, ...]:
        """Add all of the items or none; a refusal has the `number` of the invalid one, counted from 1."""
        new = []
        actor = self._actor(actor)
        for number, fields in enumerate(check.batch(items), start=1):
            try:
                new.append(check.new_item(fields))
            except Invalid as error:
                error.facts.setdefault("number", number)
                raise
        if not new:
            return ()
        idempotency_key = (
            None
            if request_id is None
            else request(request_id, actor, "add", items=[one.without_defaults() for one in new])
        )
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
        return self._call(self.store.list, **filters, subject=subject, after=after, limit=limit, bytes_max=bytes_max)

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
        key = None if request_id is None else request(request_id, by, "bulk", verb=verb, **asked)
        return self.store.bulk(verb, **asked, actor=by, request=key)

    def edit(
        self,
        item: str,
        *,
        add_labels: Iterable[str] = (),
        remove_labels: Iterable[str] = (),
        add_needs: Iterable[str] = (),
        remove_needs: Iterable[str] = (),
        add_resources: Iterable[str] = (),
        session: str | None = None,
        token: int | None = None,
        revision: int | None = None,
        relabel: bool = True,
        actor: str | None = None,
        request_id: str | None = None,
        **changes: Any,
    ) -> Edited:
        """Change the given fields; a list replaces the old list, while `add_labels`, `remove_labels`, `add_needs`,
        `remove_needs` (dependencies) and `add_resources` change one. The answer has the old values as `before`. With
        `session` (and `token`), only if that session holds the item: it may add resources that no other session holds.
        With `revision`, only if the item is still at that revision; without `relabel`, type, action, review and
        what another system says cannot change."""
        parts: dict[str, Any] = {
            "add_labels": check.names(add_labels, "add_labels"),
            "remove_labels": check.names(remove_labels, "remove_labels"),
            "add_needs": check.dependencies(add_needs, "add_needs"),
            "remove_needs": check.dependencies(remove_needs, "remove_needs"),
            "add_resources": check.resources(add_resources, "add_resources"),
        }
        parts = {name: value for name, value in parts.items() if value}
        for name in parts:
            if PARTS[name] in changes:
                raise Invalid(f"give either {PARTS[name]}, a whole new list, or {name}", field=name)
        if token is not None and session is None:
            raise Invalid("token requires session", field="token")
        parameters: dict[str, Any] = {
            "changes": check.edits(changes) if changes or not parts else {},
            "revision": revision,
            "actor": actor,
            "relabel": relabel,
            "session": session,
            "token": token,
            **parts,
        }
        return self._call(self.store.edit, item, **parameters, request_id=request_id)

    def cancel(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call(self.store.cancel, item, reason=reason, actor=actor, request_id=request_id)

    def retry(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call(self.store.retry, item, reason=reason, actor=actor, request_id=request_id)

    def reopen(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        """Return an item that is done, cancelled or rejected to the board."""
        return self._call(self.store.reopen, item, reason=reason, actor=actor, request_id=request_id)

    def park(
        self, item: str, *, reason: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Item:
        return self._call(self.store.park, item, reason=reason, actor=actor, request_id=request_id)

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
        decision = {"comment": comment, "done": check.flag(done, "done"), "token": token, "revision": revision}
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
            "links": check.optional_object(links, "links", check.NOTE_BYTES_MAX),
            "checks": {} if checks is None else run_checks.checked(checks),
            "cost": check.optional_object(cost, "cost", check.NOTE_BYTES_MAX),
        }
        if not any(added.values()):
            raise Invalid("there is nothing to add; name a link, a check or a cost", field="links")
        parameters: dict[str, Any] = {"token": token, **added, "session": session, "agent": agent, "actor": actor}
        if key is not None:
            parameters["key"] = check.name(key, "key")  # only a server passes one
        return self._call(self.store.annotate, item, **parameters, request_id=request_id)

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
