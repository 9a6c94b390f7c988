"""Reads what GitHub says of the checks of one commit: runs of workflows, checks of other apps, and statuses.

Each is a list of its own, which costs nothing of the rate limit as long as it has not changed. A list is taken as a
whole: what is not on it any more is forgotten.
"""

from __future__ import annotations

from functools import partial

from dibs.errors import Forbidden, ItemNotFound
from dibs.github import belonging, checks, pull_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.github.api import Api
    from dibs.github.policy import Policy
    from dibs.model import Item

#: How many commits without checks are remembered, so that they cost nothing.
BARE_MAX = 1000


class HeadChecks:
    def __init__(self, api: Api, repository: str, policy: Policy, report: Callable[[str], None]) -> None:
        self._api, self._repository, self._policy, self._report = api, repository, policy, report
        self._path = f"/repos/{repository}"
        #: Commits of which GitHub has told that they have no checks.
        self._bare: set[str] = set()

    def read(self, item: Item, sha: str) -> tuple[pull_memory.Found, bool]:
        """The checks of a commit by their kind, of those kinds that may have changed; and whether nothing is missing
        that could decide."""
        known = pull_memory.checks_of(item).get(sha, {})
        is_conditional = pull_memory.is_read(known) if known else sha in self._bare
        forks = belonging.forks(item, self._repository, sha)
        found: pull_memory.Found = {}
        is_whole = True
        for kind, (path, query, of) in self._lists(sha).items():
            try:
                pages = list(self._api.pages(path, conditional=is_conditional, is_whole=True, query=query))
            except (Forbidden, ItemNotFound) as refusal:
                # Where the policy names the checks that count, each of them has to be there.
                if not self._policy.checks:
                    is_whole = False
                    self._report(f"{item.id} waits: {refusal.message}; name the checks that count in dibs.toml")
                continue
            if not pages:
                continue
            told = [(entry, of(entry)) for page in pages for entry in page]
            is_whole = is_whole and all(one is not None or checks.is_job(entry) for entry, one in told)
            found[kind] = [
                one for _, one in told if one is not None and one.sha == sha and belonging.is_run_for(one, forks)
            ]
        if any(found.values()):
            self._bare.discard(sha)
        elif len(found) == len(checks.EVENTS) and len(self._bare) < BARE_MAX:
            self._bare.add(sha)
        return found, is_whole

    def _lists(self, sha: str) -> dict[str, tuple[str, dict[str, str], Callable[[object], checks.Check | None]]]:
        commit = f"{self._path}/commits/{sha}"
        runs = f"{self._path}/actions/runs"
        return {
            checks.WORKFLOW_RUN: (runs, {"head_sha": sha}, partial(checks.of_workflow, self._repository)),
            checks.CHECK_RUN: (f"{commit}/check-runs", {}, partial(checks.of_app, self._repository)),
            checks.STATUS: (f"{commit}/statuses", {}, partial(checks.of_status, self._repository, sha)),
        }
