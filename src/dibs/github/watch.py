"""`dibs github watch`: reads what has changed in a repository, and brings the board up to date.

A round reads three lists, newest changes only: issues, pull requests and workflow runs. Where it stopped is kept in the
board, as the meta of a session `github:OWNER/NAME`, so that another watcher, or this one after a restart, continues.
The place moves on only after everything before it is on the board. Several watchers at once do no harm: each of their
facts is decided on the item as it is. If the policy says so, a watcher also writes to GitHub who is on what; the last
event of the board that it has dealt with is kept in the same session.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Forbidden, Invalid, ItemNotFound, SessionNotFound
from dibs.github import checks, follow, payload
from dibs.github.apply import AGENT, Outcome, converge
from dibs.github.decide import INSTANT_LENGTH, remembered
from dibs.github.out import Outbound, Wrote
from dibs.github.payload import PULL_REQUEST, Fact
from dibs.model import ENDED, PENDING_APPROVAL, STATUSES
from dibs.rules.sessions import CURSOR_PREFIX
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.github.policy import Policy
    from dibs.model import Item

#: How many pages of runs a watcher reads that has never looked.
FIRST_PAGES = 1
#: How many pages of issues one look reads; the next one continues.
PAGES_MAX = 1000
#: The lists, as the cursor names them.
ISSUES, PULLS, RUNS = "issues", "pulls", "runs"


class Round(Value):
    """What one look at the repository led to. `unreadable` are lists that the token may not read."""

    read: int
    outcomes: tuple[Outcome, ...]
    unreadable: tuple[str, ...] = ()
    wrote: Wrote = Wrote()


class Watcher:
    def __init__(self, board: Board, api: Api, repository: str, policy: Policy) -> None:
        self._board, self._api, self._policy = board, api, policy
        self._repository, self._path = repository, f"/repos/{repository}"
        self._session = payload.session_id(CURSOR_PREFIX, repository)
        self._cursor, events = self._kept_cursor()
        is_out = policy.out.is_about(repository)
        self._out = Outbound(board, api.another(), repository, policy.out, events) if is_out else None
        self._unreadable: list[str] = []
        #: What could not be followed during this look, and what was reported before.
        self._problems: list[str] = []
        self._reported: set[str] = set()
        self._is_started = False

    def look(self) -> Round:
        """One round."""
        self._unreadable, self._problems = [], []
        outcomes: list[Outcome] = []
        before = (dict(self._cursor), self._events)
        for name, read in ((ISSUES, self._issues), (PULLS, self._pulls), (RUNS, self._runs)):
            try:
                for fact, newest in read():
                    outcomes += self._follow(fact)
                    self._cursor[name] = max(self._cursor.get(name, ""), newest)
            except BaseException:
                # Not dealt with: asked for conditionally, the list would be taken for unchanged.
                self._api.forget(self._path)
                raise
        outcomes += self._followed_checks()
        wrote = Wrote()
        try:
            if self._out is not None:
                wrote = self._out.look(heads=True)
        finally:
            if (self._cursor, self._events) != before:
                self._keep_cursor()
        found, problems = tuple(outcomes), [one for one in self._problems if one not in self._reported]
        self._reported = set(self._problems)
        wrote = wrote.replace(problems=(*problems, *wrote.problems))
        return Round(read=len(found), outcomes=found, unreadable=tuple(self._unreadable), wrote=wrote)

    @property
    def writes(self) -> bool:
        """Whether changes of the board are written to GitHub."""
        return self._out is not None

    def show(self) -> Wrote:
        """Write to GitHub what has changed on the board."""
        return Wrote() if self._out is None else self._out.look(heads=False)

    @property
    def _events(self) -> int | None:
        return None if self._out is None else self._out.cursor

    def close(self) -> None:
        """The ended session keeps the cursor."""
        self._api.close()
        if self._out is not None:
            self._out.close()
        try:
            if self._is_started:
                self._board.end_session(self._session, reason="the watcher ended")
        except SessionNotFound:
            pass  # another watcher of the repository has ended it

    # The lists, each fact with the cursor that stands behind it

    def _issues(self) -> Iterator[tuple[Fact, str]]:
        for query in self._queries(ISSUES, payload.ISSUES):
            for page in self._issue_pages(query):
                for one in page:
                    fact = None if "pull_request" in one else payload.issue_fact(self._repository, one, is_read=True)
                    if fact is not None:
                        yield fact, _updated_at(one)

    def _issue_pages(self, query: dict[str, str]) -> Iterator[list[dict[str, Any]]]:
        """The pages, oldest change first. An issue that changes meanwhile moves to the end, and those after it move up,
        past the end of a page that was read. So the next page is what has changed since this one, by its instant and
        not by its number, unless a whole page is of one second."""
        for _ in range(PAGES_MAX):
            is_continued = False
            for page in self._pages(ISSUES, f"{self._path}/issues", sort="updated", direction="asc", **query):
                newest, has_more = max(map(_updated_at, page), default=""), self._api.has_more
                yield page
                if has_more and newest > query.get("since", ""):
                    query, is_continued = {**query, "since": newest}, True
                    break
            if not is_continued:
                return

    def _pulls(self) -> Iterator[tuple[Fact, str]]:
        """GitHub cannot list pull requests since an instant: the newest first, up to there."""
        for query in self._queries(PULLS, PULL_REQUEST):
            since, found = query.pop("since", ""), []
            for page in self._pages(PULLS, f"{self._path}/pulls", sort="updated", direction="desc", **query):
                new = [one for one in page if _updated_at(one) >= since]
                found += new
                if len(new) < len(page):
                    break
            for one in reversed(found):
                fact = payload.issue_fact(self._repository, one, event=PULL_REQUEST, is_read=True)
                if fact is not None:
                    yield fact, _updated_at(one)

    def _queries(self, name: str, event: str) -> list[dict[str, str]]:
        """What has changed since the last look. Before the first one, all that is open, and what may have been closed
        while nobody watched."""
        if name in self._cursor:
            return [{"state": "all", "since": self._cursor[name]}]
        oldest = self._oldest_known(event)
        return [{"state": "open"}, *([{"state": "all", "since": oldest}] if oldest else [])]

    def _runs(self) -> Iterator[tuple[Fact, str]]:
        """Of each workflow on each branch the newest run that has ended."""
        since = self._cursor.get(RUNS, "")
        newest: dict[str, Fact] = {}
        reached = since
        pages = self._pages(RUNS, f"{self._path}/actions/runs", status="completed")
        for number, page in enumerate(pages, start=1):
            for one in page:
                fact = payload.run_fact(self._repository, one)
                if fact is not None and (fact.subject not in newest or newest[fact.subject].version < fact.version):
                    newest[fact.subject] = fact
                reached = max(reached, payload.instant(one.get("created_at")) or "")
            created = [payload.instant(one.get("created_at")) or "" for one in page]
            if (not since and number >= FIRST_PAGES) or (created and min(created) < since):
                break
        facts = list(newest.values())
        for number, fact in enumerate(facts, start=1):
            yield fact, reached if number == len(facts) else since

    def _pages(self, name: str, path: str, **query: str) -> Iterator[list[dict[str, Any]]]:
        """The pages; none if the token may not read them, as that of a repository without Actions."""
        try:
            yield from self._api.pages(path, conditional=True, **query)
        except (Forbidden, ItemNotFound):
            if name == ISSUES:
                raise
            if name not in self._unreadable:
                self._unreadable.append(name)

    # Pull requests of items, and their checks

    def _follow(self, fact: Fact) -> list[Outcome]:
        linked, outcome = follow.pull(self._board, fact, self._policy)
        if outcome is None and fact.event == PULL_REQUEST and fact.is_work and follow.is_trusted(fact):
            linked, outcome = follow.pull(self._board, fact, self._policy, self._message(fact.sha))
        found = converge(self._board, self._with_approval(linked), self._policy)
        return [found] if outcome is None else [found, outcome]

    def _message(self, sha: str) -> str:
        try:
            commit = payload.as_object(payload.as_object(self._api.one(f"{self._path}/commits/{sha}")).get("commit"))
        except (Forbidden, ItemNotFound):
            return ""
        return payload.text(commit.get("message"))

    def _followed_checks(self) -> list[Outcome]:
        """The checks of the open pull requests of items that wait; and a decision about each item, since its run may
        have ended after its checks."""
        outcomes: list[Outcome] = []
        try:
            # Those of other repositories are for their watchers, which may have another policy.
            for item in follow.waiting(self._board, self._repository):
                try:
                    outcomes += self._followed(item)
                except Invalid as refusal:
                    # What GitHub or the board refuses about one item does not stop the others.
                    self._api.forget(self._path)
                    self._problems.append(f"{item.id}: {refusal.message}")
        except BaseException:
            self._api.forget(self._path)
            raise
        return [one for one in outcomes if one.did]

    def _followed(self, item: Item) -> list[Outcome]:
        told: list[Outcome | None] = []
        for sha in follow.open_heads(item, self._repository):
            # Decided on all of them: the first one may be green, and the last one not.
            told += [follow.check(self._board, one, self._policy, decides=False) for one in self._checks(sha)]
        found = [one for one in told if one is not None]
        return [*found, follow.settle(self._board, item.id, self._policy)]

    def _checks(self, sha: str) -> Iterator[checks.Check]:
        commit = f"{self._path}/commits/{sha}"
        lists: tuple[tuple[str, dict[str, str], Callable[[object], checks.Check | None]], ...] = (
            (f"{self._path}/actions/runs", {"head_sha": sha}, lambda one: checks.of_workflow(self._repository, one)),
            (f"{commit}/check-runs", {}, lambda one: checks.of_app(self._repository, one)),
            (f"{commit}/statuses", {}, lambda one: checks.of_status(self._repository, sha, one)),
        )
        for path, query, read in lists:
            for page in self._pages(RUNS, path, **query):
                yield from (found for one in page if (found := read(one)) is not None)

    def _with_approval(self, fact: Fact) -> Fact:
        """Whether a member put the label there that approves, and nothing has changed since. The events of an issue do
        not tell of edits, so any later change leaves the decision to a person."""
        label = self._policy.approve_label
        if label is None or not any(payload.is_same_label(one, label) for one in fact.labels):
            return fact
        if not self._awaits_approval(fact):
            return fact
        events = [one for page in self._api.pages(f"{self._path}/issues/{fact.number}/events") for one in page]
        self._api.forget(f"{self._path}/issues/{fact.number}/events")
        put = [
            one
            for one in events
            if one.get("event") == "labeled" and payload.is_same_label(_name(one.get("label")), label)
        ]
        actor = put[-1].get("actor") if put else None
        if not isinstance(actor, dict) or actor.get("type") != "User" or actor.get("login") == fact.author:
            return fact
        is_last = (payload.instant(put[-1].get("created_at")) or "") >= fact.version[:INSTANT_LENGTH]
        return fact.replace(approved_by=payload.line(actor.get("login"), check.NAME_LENGTH_MAX)) if is_last else fact

    def _awaits_approval(self, fact: Fact) -> bool:
        """An item that is not there yet will."""
        found = self._board.list(subject=fact.subject, limit=1)
        return fact.is_outsiders and (not found or found[0].status == PENDING_APPROVAL)

    # The cursor

    def _kept_cursor(self) -> tuple[dict[str, str], int | None]:
        """The place in each list, and the last event of the board that was dealt with."""
        try:
            meta = self._board.find_session(self._session).meta
        except SessionNotFound:
            return {}, None
        kept, events = meta.get("cursor"), meta.get("events")
        found = {name: at for name, at in kept.items() if payload.instant(at)} if isinstance(kept, dict) else {}
        return found, events if isinstance(events, int) and 0 <= events <= check.TOKEN_MAX else None

    def _keep_cursor(self) -> None:
        meta: dict[str, Any] = {"cursor": self._cursor, "repository": self._repository}
        if self._events is not None:
            meta["events"] = self._events
        try:
            self._board.start_session(AGENT, id=self._session, kind="autonomous", meta=meta)
            self._is_started = True
        except Forbidden:
            pass  # a watcher with another key keeps its place; this one begins where that one is

    def _oldest_known(self, event: str) -> str:
        """The oldest version of an open item of this repository."""
        waiting = self._board.list(statuses=[one for one in STATUSES if one not in ENDED], limit=check.LIST_MAX)
        known = [remembered(item) for item in waiting]
        versions = [
            one["version"][:INSTANT_LENGTH]
            for one in known
            if one.get("repository") == self._repository and one.get("event") == event and one.get("version")
        ]
        return min(filter(payload.instant, versions), default="")


def _updated_at(one: dict[str, Any]) -> str:
    return payload.instant(one.get("updated_at")) or ""


def _name(label: object) -> object:
    return label.get("name") if isinstance(label, dict) else None
