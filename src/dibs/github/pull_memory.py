"""What an item remembers of its pull requests and of the checks of their commits, in its payload under `external`.

Whoever adds the item can write anything there: what has another shape than what is written here counts as unknown.
"""

from __future__ import annotations

import re

from dibs.github import checks
from dibs.github.decide import CHECKS, PULLS, remembered
from dibs.model import IN_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.github.checks import Check
    from dibs.model import Item

    #: A pull request, as an item remembers it.
    Pull = dict[str, Any]
    #: Pull requests by name, or checks by commit and name.
    Known = dict[str, dict[str, Any]]

#: How much an item remembers: the newest pull requests, and commits with checks that are no pull request's head.
PULLS_MAX = 5
OTHER_COMMITS_MAX = 3
CHECKS_MAX = 100
#: Stands for the checks that there was no room for.
MORE = "more checks"
_PULL_TEXTS = ("url", "branch", "base", "head", "state", "version")
_CHECK_TEXTS = ("state", "url", "version")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PULL_NAME = re.compile(r"[^#]+#[1-9][0-9]{0,11}")


def pulls_of(item: Item) -> Known:
    found = _objects(remembered(item).get(PULLS))
    return {name: one for name, one in found.items() if _PULL_NAME.fullmatch(name) and _is_pull(one)}


def checks_of(item: Item) -> Known:
    """By commit, and by name."""
    commits = _objects(remembered(item).get(CHECKS))
    return {
        sha: {name: one for name, one in _objects(found).items() if _has_texts(one, _CHECK_TEXTS)}
        for sha, found in commits.items()
    }


def with_pull(item: Item, number: str, entry: Pull) -> Known | None:
    """None if it says nothing new. `after` is the run that had ended when its head was first told of."""
    pulls, commits = pulls_of(item), checks_of(item)
    before = pulls.get(number)
    entry["after"] = item.token if item.status != IN_PROGRESS else 0
    if before is not None and before["head"] == entry["head"]:
        entry["after"] = before["after"]
    if before is not None:
        if before["version"] > entry["version"]:
            return None
        if {**before, "version": ""} == {**entry, "version": ""}:
            return None  # a comment or a label: not worth an event
    pulls = {**pulls, number: entry}
    kept = sorted(pulls, key=lambda name: pulls[name]["version"])[-PULLS_MAX:]
    return _trimmed({name: pulls[name] for name in pulls if name in kept}, commits)


def with_check(item: Item, told: Check) -> Known | None:
    pulls, commits = pulls_of(item), checks_of(item)
    found = dict(commits.get(told.sha, {}))
    entry = {"state": told.state, "url": told.url, "version": told.version, "artifacts": told.artifacts}
    entry = {name: value for name, value in entry.items() if value}
    before = found.get(told.name)
    if before is not None and before["version"] >= told.version:
        return None
    found[told.name] = {"url": "", **entry}
    if len(found) > CHECKS_MAX:
        # What is green can be left out: it is what is not yet green that decides.
        room = [name for name, one in found.items() if one["state"] in checks.GREEN and name != told.name]
        for name in room[: len(found) - CHECKS_MAX]:
            del found[name]
        if len(found) > CHECKS_MAX and before is None:
            del found[told.name]
            found[MORE] = {"state": checks.PENDING, "url": "", "version": ""}
    return _trimmed(pulls, {**commits, told.sha: found})


def _trimmed(pulls: Known, commits: Known) -> Known:
    """Without the checks of commits that are nobody's head, but for the newest: their pull request may come yet."""
    heads = {one["head"] for one in pulls.values()}
    others = [sha for sha in commits if sha not in heads][-OTHER_COMMITS_MAX:]
    return {PULLS: pulls, CHECKS: {sha: found for sha, found in commits.items() if sha in heads or sha in others}}


def _is_pull(one: dict[str, Any]) -> bool:
    tokens = one.get("tokens")
    numbers = [one.get("after"), *(tokens if isinstance(tokens, list) else [None])]
    has_parts = _has_texts(one, _PULL_TEXTS) and all(isinstance(number, int) for number in numbers)
    return has_parts and _SHA.fullmatch(one["head"]) is not None


def _has_texts(one: dict[str, Any], names: tuple[str, ...]) -> bool:
    return all(isinstance(one.get(name), str) for name in names)


def _objects(given: object) -> Known:
    return {name: one for name, one in given.items() if isinstance(one, dict)} if isinstance(given, dict) else {}
