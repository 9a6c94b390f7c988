"""`dibs github watch`: reads what has changed in a repository, and brings the board up to date.

A round reads three lists, newest changes only: issues, pull requests and workflow runs. Where it stopped is kept in the
board, see place.py. The place moves on only after everything before it is on the board. Several watchers at once do no
harm: each of their facts is decided on the item as it is. If the policy says so, a watcher also writes to GitHub who is
on what.

What GitHub does not answer about one issue, pull request or item is reported, and asked again later, see troubles.py.
The place in a list stays before what is to be asked again, so that a restart forgets nothing.
"""

from __future__ import annotations

import time
from functools import partial

from dibs import check
from dibs.errors import Forbidden, Invalid, ItemNotFound
from dibs.github import approval, belonging, follow, payload
from dibs.github.api import Failed, Moved
from dibs.github.apply import Outcome, converge
from dibs.github.decide import INSTANT_LENGTH, remembered
from dibs.github.item_pulls import ItemPulls
from dibs.github.out import Outbound, Wrote
from dibs.github.payload import PULL_REQUEST, Fact
from dibs.github.place import WRITE_SECONDS, Place
from dibs.github.troubles import Troubles
from dibs.model import ENDED, PENDING_APPROVAL, STATUSES
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.github.policy import Policy

#: How many pages of runs a watcher reads that has never looked.
FIRST_PAGES = 1
#: How many pages of issues one look reads; the next one continues.
PAGES_MAX = 1000
#: The lists, as the cursor names them.
ISSUES, PULLS, RUNS = "issues", "pulls", "runs"


NEWEST_FIRST, OLDEST_FIRST = ({"sort": "updated", "direction": one} for one in ("desc", "asc"))
#: Before everything on GitHub.
BEGIN = "1970-01-01T00:00:00Z"


class Round(Value):
    """What one look at the repository led to. `unreadable` are lists that the token may not read, `budget` is what
    GitHub allows the token's user."""

    read: int
    outcomes: tuple[Outcome, ...]
    unreadable: tuple[str, ...] = ()
    wrote: Wrote = Wrote()
    budget: dict[str, Any] | None = None


class Watcher:
    def __init__(
        self,
        board: Board,
        api: Api,
        repository: str,
        policy: Policy,
        *,
        every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`every` are the seconds between two looks, None for a watcher that looks once."""
        self._board, self._api, self._policy = board, api, policy
        self._repository, self._path = repository, f"/repos/{repository}"
        self._every, self._clock = every, clock
        self._place = Place(board, repository)
        self._cursor = self._place.cursor
        self._kept: tuple[Any, ...] | None = None
        self._kept_at = 0.0
        self._out = None
        if policy.out.is_about(repository):
            events, again = self._place.events, self._place.again
            options: dict[str, Any] = {"probe": self._require_name, "clock": clock}
            self._out = Outbound(board, api.another(), repository, policy.out, events, again, **options)
        self._troubles = Troubles(api, self._require_name, clock)
        #: Facts that GitHub has not answered enough about, by their subject, with their list.
        self._again: dict[str, tuple[Fact, str, str]] = {}
        self._pulls_of_items = ItemPulls(board, api, repository, policy, self._troubles, self._followed_fact)
        self._unreadable: list[str] = []
        self._is_known = False

    def look(self) -> Round:
        """One round."""
        try:
            return self._look()
        except Moved as moved:
            self._require_name()
            raise moved

    def _look(self) -> Round:
        if not self._is_known:
            self._require_name()
        self._unreadable = []
        outcomes: list[Outcome] = []
        # What is submitted from here on may be of a head that is not read any more.
        submitted = self._submitted()
        failures = [self._read_list(name, read, outcomes) for name, read in self._lists()]
        failure = next((one for one in failures if one is not None), None)
        outcomes += self._followed_again()
        is_fresh = PULLS not in self._unreadable and failure is None
        if is_fresh:
            self._pulls_of_items.settle_changed()
        outcomes += self._pulls_of_items.followed(submitted if is_fresh else {})
        wrote = Wrote()
        try:
            if self._out is not None:
                wrote = self._out.look(heads=True)
        finally:
            self._keep_place()
        if failure is not None:
            raise failure
        wrote = wrote.replace(problems=(*self._troubles.problems(), *wrote.problems))
        return Round(
            read=len(outcomes),
            outcomes=tuple(outcomes),
            unreadable=tuple(self._unreadable),
            wrote=wrote,
            budget=self._api.budget.plain(),
        )

    @property
    def writes(self) -> bool:
        """Whether changes of the board are written to GitHub."""
        return self._out is not None

    def show(self) -> Wrote:
        """Write to GitHub what has changed on the board."""
        try:
            return Wrote() if self._out is None else self._out.look(heads=False)
        except Moved as moved:
            self._require_name()
            raise moved

    def close(self) -> None:
        self._api.close()
        if self._out is not None:
            self._out.close()
        self._place.close()

    def _require_name(self) -> None:
        """Refuse a repository that has another name by now. GitHub goes on to answer by the former one, but its answers
        have the new one, by which branches and pull requests are told from those of forks."""
        name = self._api.moved(self._path).get("full_name")
        if payload.repository_name(name) is None:
            raise Failed(f"GitHub's answer about {self._repository} has no name", retry_after_seconds=60)
        if str(name).lower() != self._repository:
            raise Invalid(
                f"{self._repository} is {name} now; type: dibs github watch {name}", field="repository", name=name
            )
        self._is_known = True

    # The lists, each fact with the cursor that stands behind it

    def _lists(self) -> tuple[tuple[str, Callable[[], Iterator[tuple[Fact, str]]]], ...]:
        return (ISSUES, self._issues), (PULLS, self._pulls), (RUNS, self._runs)

    def _read_list(
        self, name: str, read: Callable[[], Iterator[tuple[Fact, str]]], outcomes: list[Outcome]
    ) -> Failed | None:
        """The failure of this list, which stops no other."""
        try:
            start = self._start(name)
            for fact, newest in read():
                outcomes += self._follow(fact, name, newest)
                self._cursor[name] = max(self._cursor.get(name, ""), newest)
            if start:
                self._cursor[name] = max(self._cursor.get(name, ""), start)
        except Failed as failure:
            self._api.forget(self._path)
            return failure
        except BaseException:
            # Not dealt with: asked for conditionally, the list would be taken for unchanged.
            self._api.forget(self._path)
            raise
        return None

    def _start(self, name: str) -> str:
        """Where a watcher begins that has never looked: what is opened and closed from here on, between two looks, is
        on no list of what is open."""
        if name in self._cursor or name == RUNS:
            return ""
        query = {**NEWEST_FIRST, "state": "all", "per_page": "1"}
        page = next(self._pages(name, f"{self._path}/{name}", query), [])
        return "" if name in self._unreadable else max(map(_updated_at, page), default=BEGIN)

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
            for page in self._pages(ISSUES, f"{self._path}/issues", {**OLDEST_FIRST, **query}):
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
            for page in self._pages(PULLS, f"{self._path}/pulls", {**NEWEST_FIRST, **query}):
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
        pages = self._pages(RUNS, f"{self._path}/actions/runs", {"status": "completed"})
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

    def _pages(
        self, name: str, path: str, query: dict[str, str], *, conditional: bool = True
    ) -> Iterator[list[dict[str, Any]]]:
        """The pages; none if the token may not read them, as that of a repository without Actions."""
        try:
            yield from self._api.pages(path, conditional=conditional, query=query)
        except (Forbidden, ItemNotFound):
            if name == ISSUES:
                raise
            if name not in self._unreadable:
                self._unreadable.append(name)

    # Facts

    def _follow(self, fact: Fact, name: str, newest: str) -> list[Outcome]:
        """A fact that GitHub has not answered enough about is kept for later. An issue has its item all the same."""
        found = self._troubles.attempt(fact.subject, partial(self._followed_fact, fact), label=f"{fact.subject}: ")
        self._again.pop(fact.subject, None)
        if found is not None:
            return found
        if not self._troubles.is_lasting(fact.subject):
            self._again[fact.subject] = (fact, name, newest)
            if fact.event == PULL_REQUEST:
                return []  # it may be the pull request of an item, and no work of its own
        linked, outcome = follow.pull(self._board, fact, self._policy, decides=False)
        found = [converge(self._board, linked, self._policy)]
        return found if outcome is None else [*found, self._pulls_of_items.noted(outcome)]

    def _followed_again(self) -> list[Outcome]:
        due = [one for subject, one in self._again.items() if not self._troubles.is_left_alone(subject)]
        return [outcome for one in due for outcome in self._follow(*one)]

    def _followed_fact(self, fact: Fact) -> list[Outcome]:
        linked, outcome = follow.pull(self._board, fact, self._policy, decides=False)
        if outcome is None and fact.event == PULL_REQUEST and fact.is_work and belonging.is_trusted(fact):
            linked, outcome = follow.pull(self._board, fact, self._policy, self._message(fact.sha), decides=False)
        found = converge(self._board, approval.approved(self._board, self._api, linked, self._policy), self._policy)
        return [found] if outcome is None else [found, self._pulls_of_items.noted(outcome)]

    def _message(self, sha: str) -> str:
        try:
            commit = payload.as_object(self._api.one(f"{self._path}/commits/{sha}").get("commit"))
        except (Forbidden, ItemNotFound):
            return ""
        return payload.text(commit.get("message"))

    def _submitted(self) -> dict[str, int]:
        """The items whose results wait, each with the token of its run."""
        found = self._board.list(statuses=[PENDING_APPROVAL], limit=check.LIST_MAX)
        return {item.id: item.token for item in found}

    # The cursor

    def _keep_place(self) -> None:
        """Written if it has changed, and now and then to show that somebody watches."""
        held = {
            name: min(at for _, one, at in self._again.values() if one == name) for _, name, _ in self._again.values()
        }
        cursor = {name: min(at, held.get(name, at)) for name, at in self._cursor.items()}
        events, again = (None, ()) if self._out is None else (self._out.cursor, self._out.again)
        now = (cursor, events, again)
        is_due = self._every is not None and self._clock() - self._kept_at >= WRITE_SECONDS
        if now == self._kept and not is_due:
            return
        meta = {"cursor": cursor, "events": events, "again": list(again) or None, "every": self._every}
        self._place.keep({**meta, "budget": self._api.budget.plain()})
        self._kept, self._kept_at = now, self._clock()

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
