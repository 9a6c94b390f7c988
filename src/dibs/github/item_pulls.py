"""What a watcher reads about the pull requests of items, and decides: their state, their checks, and whether their head
has what the run left.

A result is decided about on what was read after it was submitted: it may be of a head that was pushed just before.
"""

from __future__ import annotations

from functools import partial

from dibs.errors import Invalid, ItemNotFound
from dibs.github import belonging, follow, payload, pull_memory
from dibs.github.apply import Outcome
from dibs.github.head_checks import HeadChecks
from dibs.github.payload import PULL_REQUEST, Fact
from dibs.github.verdict import SHORT, Sight, to_compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.github.policy import Policy
    from dibs.github.troubles import Troubles
    from dibs.model import Item

#: Pages of events after which one look decides no more; the next one continues.
SETTLED_PAGES_MAX = 100
#: How many comparisons of two commits are remembered.
COMPARED_MAX = 1000


class ItemPulls:
    def __init__(
        self,
        board: Board,
        api: Api,
        repository: str,
        policy: Policy,
        troubles: Troubles,
        follow: Callable[[Fact], list[Outcome]],
    ) -> None:
        """`follow` brings the board up to date with a pull request."""
        self._board, self._api, self._policy, self._troubles = board, api, policy, troubles
        self._repository, self._path = repository, f"/repos/{repository}"
        self._follow = follow
        self._checks = HeadChecks(api, repository, policy, troubles.report)
        #: Items whose pull requests have changed since they were decided about.
        self._linked = dict[str, None]()
        #: Whether a head has a commit, by both.
        self._compared: dict[tuple[str, str], bool] = {}
        #: The results for whose pull request GitHub was asked, by their items.
        self._searched: dict[str, int] = {}
        #: The last event of the board after which items were decided about.
        self._settled: int | None = None

    def noted(self, outcome: Outcome) -> Outcome:
        """Its item is decided about after all lists were read."""
        self._linked |= {outcome.item: None} if outcome.item else {}
        return outcome

    def settle_changed(self) -> None:
        """Decide about items that were let go of since the last look, by what was known before."""
        follow.settle_resting(self._board, self._linked, self._policy, self._repository, self._seen)
        self._linked.clear()
        for _ in range(SETTLED_PAGES_MAX):
            before = self._settled
            try:
                self._settled = follow.settle_changed(self._board, self._policy, before, repository=self._repository)
            except Invalid as pruned:
                if "event_floor" not in pruned.facts:
                    raise
                self._settled = None
            if before is None or self._settled == before:
                return

    def followed(self, submitted: Mapping[str, int]) -> list[Outcome]:
        """The checks of the open pull requests of items that wait, and a decision about each item in `submitted`. Those
        of other repositories are for their watchers, which may have another policy."""
        outcomes: list[Outcome] = []
        for id in self._unknown(submitted):
            outcomes += self._troubles.attempt(id, partial(self._found, id), label=f"{id}: ") or []
        for item in follow.waiting(self._board, self._repository):
            is_judged = submitted.get(item.id) == item.token
            found = self._troubles.attempt(
                item.id, partial(self._followed, item, is_judged=is_judged), label=f"{item.id}: "
            )
            outcomes += found or []
        return [one for one in outcomes if one.did]

    def _unknown(self, submitted: Mapping[str, int]) -> list[str]:
        """The items whose results wait for a pull request that nobody has told of: it may have ended before this
        watcher looked for the first time. Once for each result; what changes from here on is on the lists."""
        new = [id for id, token in submitted.items() if self._searched.get(id) != token]
        self._searched = {id: token for id, token in self._searched.items() if id in submitted}
        return [id for id in new if belonging.lacks_pull(self._board, id, self._repository, self._policy)]

    def _found(self, item: str) -> list[Outcome]:
        owner = self._repository.partition("/")[0]
        branch = f"{belonging.BRANCH_PREFIX}{item}"
        query = {"state": "all", "head": f"{owner}:{branch}"}
        outcomes: list[Outcome] = []
        for page in self._api.pages(f"{self._path}/pulls", conditional=False, query=query):
            for one in page:
                fact = payload.issue_fact(self._repository, one, event=PULL_REQUEST, is_read=True)
                if fact is not None and fact.branch == branch:
                    outcomes += self._follow(fact)
        self._searched[item] = self._board.get(item).item.token
        return outcomes

    def _seen(self, item: Item, heads: Collection[str] = ()) -> Sight:
        """What is known of the item's pull requests at this moment, and whether their head has what the run left: a
        person may have pushed to it since, or merged it before."""
        pair = to_compare(item, self._board.get(item.id).runs)
        if pair is not None and pair not in self._compared:
            head, commit = pair
            try:
                found = self._api.one(f"{self._path}/compare/{head}...{commit}").get("status")
            except ItemNotFound:
                found = None  # the commit was not pushed
            self._compared[pair] = found in ("identical", "behind")
            if len(self._compared) > COMPARED_MAX:
                del self._compared[next(iter(self._compared))]
        contained = frozenset({pair}) if pair is not None and self._compared[pair] else frozenset()
        return Sight(heads=frozenset(heads), contained=contained)

    def _with_pulls(self, item: Item) -> Item:
        """The item as GitHub has its pull requests: their deliveries may have come in another order."""
        unread = pull_memory.unread_pulls(item, self._repository)
        for name in unread:
            found = self._api.one(f"{self._path}/pulls/{name.rpartition('#')[2]}")
            fact = payload.issue_fact(self._repository, found, event=PULL_REQUEST, is_read=True)
            if fact is not None:
                follow.reread(self._board, item.id, fact)
        return self._board.get(item.id).item if unread else item

    def _followed(self, item: Item, *, is_judged: bool) -> list[Outcome]:
        told: list[Outcome] = []
        heads: set[str] = set()
        try:
            item = self._with_pulls(item)
            for sha in follow.open_heads(item, self._repository):
                before = pull_memory.checks_of(item).get(sha, {})
                found, is_whole = self._checks.read(item, sha)
                is_known, did = follow.read(self._board, item.id, sha, found, before, self._policy)
                if not is_known:
                    self._api.forget(self._path)
                elif is_whole and is_judged:
                    heads.add(sha)
                told.append(Outcome(subject=f"{self._repository}@{sha[:SHORT]}", item=item.id, did=did))
            sight = self._seen(item, heads) if is_judged else Sight(pulls=False)
            return [*told, follow.settle(self._board, item.id, self._policy, sight=sight)]
        except BaseException:
            self._api.forget(self._path)
            raise
