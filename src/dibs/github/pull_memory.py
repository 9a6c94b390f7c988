"""What an item remembers of its pull requests and of the checks of their commits, in its payload under `external`.

Whoever adds the item can write anything there: what has another shape than what is written here counts as unknown.
"""

from __future__ import annotations

import re

from dibs.check import NAME_LENGTH_MAX
from dibs.github import checks
from dibs.github.decide import CHECKS, PULLS, remembered
from dibs.github.policy import BY_MARK
from dibs.model import IN_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.github.checks import Check
    from dibs.github.policy import Policy
    from dibs.model import Item

    #: A pull request, as an item remembers it.
    Pull = dict[str, Any]
    #: Pull requests by name, or checks by commit and name.
    Known = dict[str, dict[str, Any]]
    #: What a read has found of a commit, by the kind of the checks. A kind that has not changed is not there.
    Found = dict[str, list[Check]]

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


def with_pull(item: Item, number: str, entry: Pull, *, is_read: bool) -> Known | None:
    """None if it says nothing new. `after` is the run that had ended when its head was first told of.

    What is read replaces what was told: of a pull request that was closed and opened again, the second delivery says
    nothing new, and the first one may come after it."""
    pulls, commits = pulls_of(item), checks_of(item)
    before = pulls.get(number)
    entry["after"] = item.token if item.status != IN_PROGRESS else 0
    if before is not None and before["head"] == entry["head"]:
        entry["after"] = before["after"]
    if is_read:
        entry["read"] = True
    if before is not None:
        if before["version"] > entry["version"] and not is_read:
            return None
        ignored = {"version": "", "read": True}
        if {**before, **ignored} == {**entry, **ignored} and (before.get("read") is True or not is_read):
            return None  # a comment or a label: not worth an event
    pulls = {**pulls, number: entry}
    kept = sorted(pulls, key=lambda name: pulls[name]["version"])[-PULLS_MAX:]
    return _trimmed({name: pulls[name] for name in pulls if name in kept}, commits)


def with_check(item: Item, told: Check, policy: Policy) -> Known | None:
    """With what a delivery says of one check; None if that is nothing new."""
    pulls, commits = pulls_of(item), checks_of(item)
    found = dict(commits.get(told.sha, {}))
    name = _name(found, told)
    before = found.get(name)
    if before is not None and before["version"] >= told.version:
        return None
    found[name] = _entry(told)
    return _trimmed(pulls, {**commits, told.sha: _fitted(found, policy)})


def with_read(item: Item, sha: str, read: Found, policy: Policy) -> Known | None:
    """With all that GitHub says of the checks of a commit; None if that is nothing new.

    What is read replaces what was told: an app may set a check back to going on, and nothing in it says when. The
    greatest version stays, so that a delivery from before the read changes nothing."""
    pulls, commits = pulls_of(item), checks_of(item)
    before = commits.get(sha, {})
    found = {name: one for name, one in before.items() if one.get("kind") in checks.EVENTS and one["kind"] not in read}
    for told in sorted((one for kind in read.values() for one in kind), key=lambda one: (one.kind, one.version)):
        name = _name(found, told)
        version = max(told.version, before.get(name, {}).get("version", ""))
        found[name] = {**_entry(told), "version": version, "read": True}
    found = _fitted(found, policy)
    return None if found == before else _trimmed(pulls, {**commits, sha: found})


def unread_pulls(item: Item, repository: str) -> list[str]:
    """The pull requests of this repository that deliveries have told of since they were read."""
    known = pulls_of(item).items()
    return [name for name, one in known if name.startswith(f"{repository}#") and one.get("read") is not True]


def is_read(found: Known) -> bool:
    """Whether no delivery has told of these checks since they were read. Otherwise what has not changed on GitHub since
    then is to be read all the same."""
    return all(one.get("read") is True for one in found.values())


def _entry(told: Check) -> dict[str, Any]:
    texts = ("state", "version", "artifacts", "kind", "source")
    given = {name: getattr(told, name) for name in texts}
    return {"url": told.url, **{name: value for name, value in given.items() if value}}


def _name(found: Known, told: Check) -> str:
    """The name of the check. Of two that have one name, both have to be green: a status does not replace the check of
    an app, nor does one app that of another."""
    there = found.get(told.name)
    if there is None or there.get("source", "") == told.source:
        return told.name
    mark = f"{BY_MARK}{told.source}"
    return told.name[: NAME_LENGTH_MAX - len(mark)] + mark


def _fitted(found: Known, policy: Policy) -> Known:
    """No more than there is room for. What decides stays: what is red, what is not green, and what a pattern names."""
    if len(found) <= CHECKS_MAX:
        return found
    named = {next((name for name in found if policy.is_named(one, name)), "") for one in policy.checks}

    def rank(name: str) -> int:
        state = found[name]["state"]
        return 0 if state in checks.RED else 1 if name == MORE else 2 if name in named else 3 + (state in checks.GREEN)

    order = sorted((name for name in found if policy.counts(name) or name == MORE), key=rank)
    left = order[CHECKS_MAX:]
    kept = {name: found[name] for name in found if name in order[:CHECKS_MAX]}
    if any(found[name]["state"] not in checks.GREEN for name in left):
        kept[MORE] = {"state": checks.PENDING, "url": "", "version": ""}
    return kept


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
