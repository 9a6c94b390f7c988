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
from urllib.parse import quote

from dibs import check
from dibs.errors import Forbidden, Invalid, ItemChanged, ItemNotFound, StoreUnavailable
from dibs.github.apply import ACTOR
from dibs.github.claim_status import ClaimStatuses
from dibs.github.decide import OUT, external_of
from dibs.github.payload import SUBJECT_PREFIX
from dibs.github.presence import presence
from dibs.model import IN_PROGRESS
from dibs.rules.table import EXTERNAL
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.github.out_policy import Out
    from dibs.github.presence import Presence
    from dibs.model import Item

    Memory = dict[str, Any]

PAGE = 1000
#: How long a watcher has the right to make the comment of an item.
LEASE_SECONDS = 60
EDITS_MAX = 20
#: How many problems a watcher remembers as reported.
PROBLEMS_MAX = 1000
SHOWN_MAX = 10_000
#: The names that a token's permissions have on GitHub.
PERMISSIONS = {"comment": "Issues", "label": "Issues", "assign": "Issues", "status": "Commit statuses"}
REFUSED = (Forbidden, ItemNotFound, Invalid)
_MARK = re.compile(r"[0-9a-f]{16}")


class Wrote(Value):
    """What was written, such as `comment github:acme/shop#12`, and what GitHub refused, each problem once."""

    written: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Outbound:
    def __init__(self, board: Board, api: Api, repository: str, out: Out, cursor: int | None) -> None:
        """`cursor` is the last event that was dealt with; None for a watcher that begins."""
        self._board, self._api, self._out = board, api, out
        self._repository, self._path = repository, f"/repos/{repository}"
        self._writer = os.urandom(6).hex()
        # A subject that was given up, because the issue was opened again, has an instant behind it.
        self._subject = re.compile(re.escape(f"{SUBJECT_PREFIX}{repository}#") + r"([1-9]\d{0,11})(@.*)?")
        self._statuses = ClaimStatuses(board, api, repository, self._attempt) if out.status else None
        #: The last event that was read, and the items that were not dealt with since `cursor`.
        self._position, self._pending = cursor, dict[str, None]()
        self.cursor = cursor
        #: What GitHub shows of an item as far as this watcher knows, so that a note of progress asks GitHub nothing.
        self._shown: dict[str, Presence] = {}
        self._written: list[str] = []
        #: What GitHub refused during this look, and of that what was not reported before.
        self._refused: list[str] = []
        self._problems: list[str] = []
        self._reported: set[str] = set()

    def look(self, *, heads: bool) -> Wrote:
        """Bring GitHub up to date with the events since the last look. `heads`: read also which commits the branches
        and pull requests are at."""
        self._written, self._refused, self._problems = [], [], []
        touched = self._read()
        if self._statuses is not None:
            # First, because a merge does not wait.
            self._statuses.look(touched, heads=heads)
        for item in list(self._pending):
            if self._show(item):
                del self._pending[item]
        if not self._pending:
            self.cursor = self._position
        return Wrote(written=tuple(self._written), problems=tuple(self._problems))

    def close(self) -> None:
        self._api.close()

    # The feed

    def _read(self) -> frozenset[str] | None:
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
            return True
        match = self._subject.fullmatch(detail.item.subject or "")
        if match is None:
            return True
        number, now = int(match[1]), presence(detail)
        if self._shown.pop(id, None) == now:
            self._shown[id] = now
            return True
        is_over, refused = True, len(self._refused)
        if self._out.comment:
            is_over = self._attempt("comment", lambda: self._comment(detail.item, number, now)) is not False
        if self._out.label is not None or self._out.assign:
            self._attempt("label", lambda: self._label_and_assign(detail.item, number, now))
        if is_over and len(self._refused) == refused:
            self._shown[id] = now
            if len(self._shown) > SHOWN_MAX:
                del self._shown[next(iter(self._shown))]
        return is_over

    def _attempt(self, kind: str, write: Callable[[], bool | None]) -> bool | None:
        """Write; what GitHub refuses is reported once, and the rest goes on."""
        try:
            return write()
        except REFUSED as refusal:
            problem = f"{kind}: {refusal.message}"
            if refusal.facts.get("method", "GET") != "GET":
                problem += f" (the token needs the permission {PERMISSIONS[kind]}: read and write)"
            self._refused.append(problem)
            if problem not in self._reported and len(self._reported) < PROBLEMS_MAX:
                self._reported.add(problem)
                self._problems.append(problem)
            return None

    def _comment(self, item: Item, number: int, now: Presence) -> bool:
        """False if another watcher makes the comment."""
        known = memory(item)
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
        known = self._remember(item.id, lambda known: None if "comment" in known else {**known, "comment": id})
        if made is not None:
            self._note("comment", number)
            if known.get("comment") != made:
                self._api.write("DELETE", f"{self._path}/issues/comments/{made}")
        return made is not None or self._edit_comment(number, now, known)

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

        return self._remember(item.id, change)

    def _edit_comment(self, number: int, now: Presence, known: Memory) -> bool:
        id, mark = known.get("comment"), known.get("mark")
        if not isinstance(id, int) or mark is None or now.text is None:
            return True
        path = f"{self._path}/issues/comments/{id}"
        try:
            there = self._api.one(path)
        except ItemNotFound:
            return True  # whoever deleted it does not want one
        body = _body(now.text, mark)
        # Whoever edits the item can name any comment: only one with its mark is ours.
        if _marker(mark) in str(there.get("body")) != body:
            self._api.write("PATCH", path, {"body": body})
            self._note("comment", number)
        return True

    def _label_and_assign(self, item: Item, number: int, now: Presence) -> None:
        login = None if now.agent is None else self._out.login(now.agent)
        known = memory(item)
        if now.agent is None and not known.get("label") and not known.get("assigned"):
            return
        issue = self._api.one(f"{self._path}/issues/{number}")
        if self._out.label is not None:
            self._attempt("label", lambda: self._label(item, number, issue, is_wanted=now.agent is not None))
        if self._out.assign:
            self._attempt("assign", lambda: self._assign(item, number, issue, login))

    def _label(self, item: Item, number: int, issue: dict[str, Any], *, is_wanted: bool) -> None:
        label = self._out.label or ""
        names = {one.get("name") if isinstance(one, dict) else one for one in issue.get("labels") or ()}
        is_there = label.casefold() in {str(name).casefold() for name in names}
        path = f"{self._path}/issues/{number}/labels"
        if is_wanted and not is_there:
            self._remember(item.id, lambda known: {**known, "label": label})
            self._api.write("POST", path, {"labels": [label]})
            self._note("label", number)
            # Another watcher may have seen the item released meanwhile, and forgotten the label.
            self._remember(item.id, lambda known: {**known, "label": label})
        elif not is_wanted and memory(item).get("label") == label:
            if is_there:
                self._delete(f"{path}/{quote(label, safe='')}")
                self._note("label", number)
            self._remember(item.id, lambda known: _without(known, "label"))

    def _assign(self, item: Item, number: int, issue: dict[str, Any], login: str | None) -> None:
        path = f"{self._path}/issues/{number}/assignees"
        # Whoever edits the item can name anybody: only logins of the policy are ours to take away.
        ours = [one for one in _texts(memory(item).get("assigned")) if one.lower() in self._out.logins]
        others = [one for one in ours if login is None or one.lower() != login.lower()]
        if others:
            self._api.write("DELETE", path, {"assignees": others})
            self._note("assign", number)
            self._remember(item.id, lambda known: _with_assigned(known, remove=others))
        if login is None or login.lower() in _logins(issue):
            return
        self._remember(item.id, lambda known: _with_assigned(known, add=[login]))
        if login.lower() in _logins(self._api.write("POST", path, {"assignees": [login]})):
            self._note("assign", number)
        else:
            self._remember(item.id, lambda known: _with_assigned(known, remove=[login]))
            raise Invalid(f"GitHub does not assign {login} in {self._repository}: they need access to it")

    def _delete(self, path: str) -> None:
        try:
            self._api.write("DELETE", path)
        except ItemNotFound:
            pass  # somebody else was faster

    # What was written

    def _remember(self, item: str, change: Callable[[Memory], Memory | None]) -> Memory:
        """Change what the item remembers, in one step; None leaves it as it is. The memory afterwards."""
        for _ in range(EDITS_MAX):
            found = self._board.get(item).item
            known = memory(found)
            wanted = change(known)
            if wanted is None or wanted == known:
                return known
            external = {**external_of(found), OUT: wanted}
            try:
                payload = {**found.payload, EXTERNAL: external}
                self._board.edit(item, payload=payload, revision=found.revision, actor=ACTOR)
            except ItemChanged:
                continue
            return wanted
        raise Invalid(f"{item} keeps changing; its next event leads to another look")

    def _note(self, kind: str, number: int) -> None:
        self._written.append(f"{kind} {SUBJECT_PREFIX}{self._repository}#{number}")


def memory(item: Item) -> Memory:
    """What was written for the item. Whoever edits the item can write anything there."""
    found = external_of(item).get(OUT)
    known = dict(found) if isinstance(found, dict) else {}
    mark = known.get("mark")
    return known if mark is None or (isinstance(mark, str) and _MARK.fullmatch(mark)) else _without(known, "mark")


def _id(comment: object) -> int:
    id = comment.get("id") if isinstance(comment, dict) else None
    if not isinstance(id, int):
        raise StoreUnavailable("GitHub's answer has no comment", retry_after_seconds=60)
    return id


def _body(text: str, mark: str) -> str:
    return f"{text}\n\n{_marker(mark)}"


def _marker(mark: str) -> str:
    """GitHub does not show a comment of HTML."""
    return f"<!-- dibs:{mark} -->"


def _without(known: Memory, name: str) -> Memory:
    return {key: value for key, value in known.items() if key != name}


def _with_assigned(known: Memory, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Memory:
    logins = list(dict.fromkeys([*(one for one in _texts(known.get("assigned")) if one not in remove), *add]))
    return {**known, "assigned": logins} if logins else _without(known, "assigned")


def _texts(given: object) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def _logins(issue: object) -> set[str]:
    found = issue.get("assignees") if isinstance(issue, dict) else None
    return {str(one.get("login")).lower() for one in found or () if isinstance(one, dict)}
