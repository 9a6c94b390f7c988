"""Writes to GitHub who is on an issue: a comment, a label, an assignee, and the status of commits.

Each event of the board leads to one look at its item. What GitHub should show now is compared with what it shows, and
only the difference is written. What was written is remembered in the payload of the item, as `external.out`, by an edit
that names the revision: so a label or an assignee that somebody else put there is never taken away, and of several
watchers one makes the comment.

A comment is made in three steps. The item gets a random mark and the name of the watcher; the comment that has the mark
is looked for, and made if there is none; the item gets its id. A watcher that is killed in between left the mark:
another one takes over after `LEASE_SECONDS`, and finds the comment, if it was made. A watcher that made one all the
same, because it was stopped for longer, sees the other's id on the item and deletes its own.
"""

from __future__ import annotations

import os
import re
import time
from functools import partial
from urllib.parse import quote

from dibs import check
from dibs.errors import Invalid, ItemNotFound
from dibs.github.api import Failed
from dibs.github.claim_status import ClaimStatuses
from dibs.github.out_memory import (
    memory,
    numbers,
    remember,
    texts,
    with_assigned,
    with_extra,
    without,
)
from dibs.github.payload import SUBJECT_PREFIX, as_object
from dibs.github.place import AGAIN_MAX
from dibs.github.presence import presence
from dibs.github.troubles import REFUSED, Troubles
from dibs.github.wiped import restored
from dibs.model import IN_PROGRESS
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.board import Board
    from dibs.errors import DibsError
    from dibs.github.api import Api
    from dibs.github.out_memory import Memory
    from dibs.github.out_policy import Out
    from dibs.github.presence import Presence
    from dibs.model import Item

    T = TypeVar("T")

PAGE = 1000
#: How long a watcher has the right to make the comment of an item.
LEASE_SECONDS = 60
SHOWN_MAX = 10_000
#: The names that a token's permissions have on GitHub.
KINDS = ("comment", "label", "assign")
PERMISSIONS = {"comment": "Issues", "label": "Issues", "assign": "Issues", "status": "Commit statuses"}
#: GitHub refuses to whoever may write, too, if the conversation of an issue is locked.
LOCKED = "locked"


class Wrote(Value):
    """What was written, such as `comment github:acme/shop#12`, and what GitHub refused, each problem once."""

    written: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Outbound:
    def __init__(
        self,
        board: Board,
        api: Api,
        repository: str,
        out: Out,
        cursor: int | None,
        again: Iterable[str] = (),
        *,
        probe: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cursor` is the last event that was dealt with; None for a watcher that begins. `again` are items that GitHub
        did not answer about before that. For `probe` see troubles.py."""
        self._board, self._api, self._out = board, api, out
        self._repository, self._path = repository, f"/repos/{repository}"
        self._writer = os.urandom(6).hex()
        # A subject that was given up, because the issue was opened again, has an instant behind it.
        self._subject = re.compile(re.escape(f"{SUBJECT_PREFIX}{repository}#") + r"([1-9]\d{0,11})(@.*)?")
        self._troubles = Troubles(api, probe, clock)
        self._statuses = ClaimStatuses(board, api, repository, self._attempt_status) if out.status else None
        #: The last event that was read, and the items that were not dealt with since `cursor`.
        self._position, self._pending = cursor, dict.fromkeys(again)
        #: Items that GitHub refuses or does not answer about, which are tried again.
        self._late: dict[str, None] = {}
        self.cursor = cursor
        #: What GitHub shows of an item as far as this watcher knows, by kind, so that a note of progress asks GitHub
        #: nothing.
        self._shown: dict[str, dict[str, Presence]] = {}
        self._written: list[str] = []

    def look(self, *, heads: bool) -> Wrote:
        """Bring GitHub up to date with the events since the last look. `heads`: read also which commits the branches
        and pull requests are at."""
        self._written = []
        touched = self._read_events()
        if self._statuses is not None:
            # First, because a merge does not wait.
            self._statuses.look(touched, heads=heads)
        due = [item for item in self._late if any(not self._troubles.is_left_alone(key) for key in self._failing(item))]
        # Last what GitHub's rate limit was reached at: it may be limited alone.
        for item in sorted(dict.fromkeys([*self._pending, *due]), key=self._is_suspect):
            if self._show(item):
                self._pending.pop(item, None)
        if not self._pending:
            self.cursor = self._position
        return Wrote(written=tuple(self._written), problems=self._troubles.problems())

    @property
    def again(self) -> tuple[str, ...]:
        """Items that another watcher has to look at before the cursor."""
        return tuple(self._late)[:AGAIN_MAX]

    def close(self) -> None:
        self._api.close()

    # The feed

    def _read_events(self) -> frozenset[str] | None:
        """The items with new events, or None for all of them."""
        if self._position is None:
            self._begin()
            return None
        touched: dict[str, None] = {}
        while True:
            try:
                events = self._board.events(after=self._position, limit=PAGE)
            except Invalid as pruned:
                if "event_floor" not in pruned.facts:
                    raise
                self._begin()
                return None
            touched |= dict.fromkeys(event.item for event in events)
            self._position = events[-1].id if events else self._position
            if not events.more and len(events) < PAGE:
                break
        self._pending |= touched
        return frozenset(touched)

    def _begin(self) -> None:
        """Without a cursor: what is held, and what was written before."""
        newest = self._board.events(newest=True, limit=1)
        self._position = newest[-1].id if newest else 0
        items = self._board.list(limit=check.LIST_MAX)
        wanted = [one for one in items if one.status == IN_PROGRESS or memory(one)]
        self._pending = dict.fromkeys(one.id for one in wanted if self._subject.fullmatch(one.subject or ""))

    # One item

    def _show(self, id: str) -> bool:
        """Write what GitHub should show of the item; False if another watcher is about to."""
        try:
            detail = self._board.get(id)
        except ItemNotFound:
            self._late.pop(id, None)
            return True
        match = self._subject.fullmatch(detail.item.subject or "")
        if match is None:
            return True
        number, now, item = int(match[1]), presence(detail), restored(self._board, detail.item)
        shown = self._shown.pop(id, {})
        is_over, failed = True, []
        for kind, write in self._kinds(item, number, now):
            if shown.get(kind) == now or self._troubles.is_left_alone(f"{kind} {id}"):
                continue
            found = self._attempt(kind, f"{kind} {id}", write)
            shown.pop(kind, None)
            if found is not None:
                is_over = is_over and found
                shown |= {kind: now} if found else {}
            elif self._troubles.has(f"{kind} {id}"):
                failed.append(f"{kind} {id}")
        self._troubles.spread(failed)
        if self._failing(id):
            self._late[id] = None
        else:
            self._late.pop(id, None)
        self._shown[id] = shown
        if len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]
        return is_over

    def _kinds(self, item: Item, number: int, now: Presence) -> Iterator[tuple[str, Callable[[], bool]]]:
        issue: dict[str, Any] = {}

        def read() -> dict[str, Any]:
            """The issue, once for all kinds."""
            if not issue:
                issue.update(self._api.one(f"{self._path}/issues/{number}"))
            return issue

        if self._out.comment:
            yield "comment", partial(self._comment, item, number, now)
        if self._out.label is not None:
            yield "label", partial(self._label, item, number, read, is_wanted=now.agent is not None)
        if self._out.assign:
            login = None if now.agent is None else self._out.login(now.agent)
            yield "assign", partial(self._assign, item, number, read, login)

    def _failing(self, id: str) -> list[str]:
        return [key for kind in KINDS if self._troubles.has(key := f"{kind} {id}")]

    def _is_suspect(self, id: str) -> bool:
        return any(self._troubles.is_suspect(f"{kind} {id}") for kind in KINDS)

    def _attempt(self, kind: str, subject: str, do: Callable[[], T]) -> T | None:
        """What GitHub refuses or does not answer is reported once, and the rest goes on."""

        def hint(error: DibsError) -> str:
            is_write = error.facts.get("method", "GET") != "GET" and LOCKED not in error.message
            return f" (the token needs the permission {PERMISSIONS[kind]}: read and write)" if is_write else ""

        return self._troubles.attempt(subject, do, label=f"{kind}: ", hint=hint)

    def _attempt_status(self, subject: str, do: Callable[[], T]) -> T | None:
        return self._attempt("status", f"status {subject}", do)

    def _comment(self, item: Item, number: int, now: Presence) -> bool:
        """False if another watcher makes the comment."""
        known = self._without_extra(item)
        if "comment" in known:
            return self._edit_comment(number, now, known)
        if now.text is None:
            return True
        known = self._take_over(item)
        if known.get("writer") != self._writer or "comment" in known:
            return "comment" in known
        body, mark = _body(now.text, known["mark"]), _marker(known["mark"])
        comments = f"{self._path}/issues/{number}/comments"
        found = [
            one["id"]
            for page in self._api.pages(comments, conditional=False)
            for one in page
            if isinstance(one.get("id"), int) and mark in str(one.get("body"))
        ]
        # Whoever copies the mark from our comment comes later.
        made = None if found else _id(self._api.write("POST", comments, {"body": body}, repeatable=False))
        id = made or min(found)

        def change(known: Memory) -> Memory:
            if "comment" not in known:
                return {**known, "comment": id}
            return with_extra(known, add=[id]) if made is not None and known["comment"] != made else known

        known = remember(self._board, item.id, change)
        if made is not None:
            self._note("comment", number)
            self._without_extra(self._board.get(item.id).item)
        return made is not None or self._edit_comment(number, now, known)

    def _without_extra(self, item: Item) -> Memory:
        """Delete the comments of which there is another one: another watcher was faster."""
        known = memory(item)
        for id in numbers(known.get("extra")):
            path, mark = f"{self._path}/issues/comments/{id}", known.get("mark")
            # Whoever edits the item can name any comment: only one with its mark is ours.
            is_other = id != known.get("comment")
            if is_other and isinstance(mark, str) and _marker(mark) in str((self._read(path) or {}).get("body")):
                self._delete(path)
            known = remember(self._board, item.id, partial(with_extra, remove=[id]))
        return known

    def _take_over(self, item: Item) -> Memory:
        """The right to make the comment, if no other watcher has it."""
        known = memory(item)
        other = known.get("writer")
        if other not in (None, self._writer):
            # Both instants are of the board's clock. Another edit of the item makes the lease longer, and does no harm.
            if self._board.view().at - item.updated_at < 1000 * LEASE_SECONDS:
                return known
        elif other == self._writer:
            return known

        def change(now: Memory) -> Memory | None:
            if now.get("writer") != other or "comment" in now:
                return None
            return {**now, "writer": self._writer, "mark": now.get("mark") or os.urandom(8).hex()}

        return remember(self._board, item.id, change)

    def _edit_comment(self, number: int, now: Presence, known: Memory) -> bool:
        id, mark = known.get("comment"), known.get("mark")
        if not isinstance(id, int) or mark is None or now.text is None:
            return True
        path = f"{self._path}/issues/comments/{id}"
        there = self._read(path)
        if there is None:
            return True  # whoever deleted it does not want one
        body = _body(now.text, mark)
        # Whoever edits the item can name any comment: only one with its mark is ours.
        if _marker(mark) in str(there.get("body")) != body:
            self._api.write("PATCH", path, {"body": body})
            self._note("comment", number)
        return True

    def _label(self, item: Item, number: int, read: Callable[[], dict[str, Any]], *, is_wanted: bool) -> bool:
        label = self._out.label or ""
        if not is_wanted and memory(item).get("label") != label:
            return True
        is_there = label.casefold() in _names(read())
        path = f"{self._path}/issues/{number}/labels"
        if is_wanted and not is_there:
            remember(self._board, item.id, lambda known: {**known, "label": label})
            try:
                self._api.write("POST", path, {"labels": [label]})
            except REFUSED:
                # Whoever puts it there now is somebody else.
                remember(self._board, item.id, lambda known: without(known, "label"))
                raise
            self._note("label", number)
            # Another watcher may have seen the item released meanwhile, and forgotten the label.
            remember(self._board, item.id, lambda known: {**known, "label": label})
        elif not is_wanted:
            if is_there:
                self._delete(f"{path}/{quote(label, safe='')}")
                self._note("label", number)
            remember(self._board, item.id, lambda known: without(known, "label"))
        return True

    def _assign(self, item: Item, number: int, read: Callable[[], dict[str, Any]], login: str | None) -> bool:
        path = f"{self._path}/issues/{number}/assignees"
        # Whoever edits the item can name anybody: only logins of the policy are ours to take away.
        ours = [one for one in texts(memory(item).get("assigned")) if one.lower() in self._out.logins]
        others = [one for one in ours if login is None or one.lower() != login.lower()]
        if others:
            self._api.write("DELETE", path, {"assignees": others})
            self._note("assign", number)
            remember(self._board, item.id, partial(with_assigned, remove=others))
        if login is None or login.lower() in _logins(read()):
            return True
        remember(self._board, item.id, partial(with_assigned, add=[login]))
        try:
            if login.lower() not in _logins(self._api.write("POST", path, {"assignees": [login]})):
                raise Invalid(f"GitHub does not assign {login} in {self._repository}: they need access to it")
        except REFUSED:
            remember(self._board, item.id, partial(with_assigned, remove=[login]))
            raise
        self._note("assign", number)
        return True

    def _read(self, path: str) -> dict[str, Any] | None:
        """What is there, or None."""
        try:
            return self._api.one(path)
        except ItemNotFound:
            return None

    def _delete(self, path: str) -> None:
        try:
            self._api.write("DELETE", path)
        except ItemNotFound:
            pass  # somebody else was faster

    def _note(self, kind: str, number: int) -> None:
        self._written.append(f"{kind} {SUBJECT_PREFIX}{self._repository}#{number}")


def _id(comment: object) -> int:
    id = comment.get("id") if isinstance(comment, dict) else None
    if not isinstance(id, int):
        raise Failed("GitHub's answer has no comment", retry_after_seconds=60)
    return id


def _body(text: str, mark: str) -> str:
    return f"{text}\n\n{_marker(mark)}"


def _marker(mark: str) -> str:
    """GitHub does not show a comment of HTML."""
    return f"<!-- dibs:{mark} -->"


def _names(issue: dict[str, Any]) -> set[str]:
    found = issue.get("labels")
    labels = found if isinstance(found, list) else []
    return {str(one.get("name") if isinstance(one, dict) else one).casefold() for one in labels}


def _logins(issue: object) -> set[str]:
    found = as_object(issue).get("assignees")
    return {str(as_object(one).get("login")).lower() for one in (found if isinstance(found, list) else ())}
