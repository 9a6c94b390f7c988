"""A file of issues or pull requests, as `gh issue list --json` and `gh pr list --json` write it, or GitHub's API.

`gh` says nothing about whether an author is a member, so what it lists waits for approval; the API does say it.
"""

from __future__ import annotations

import json
import re

from dibs.errors import Invalid
from dibs.github.payload import ISSUES, PULL_REQUEST, Fact, issue_fact, repository_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The fields to ask `gh` for.
FIELDS = "number,title,body,labels,state,author,url,updatedAt"
#: The names of `gh` for what the API names otherwise.
NAMES = {
    "url": "html_url",
    "updatedAt": "updated_at",
    "author": "user",
    "isDraft": "draft",
    "mergedAt": "merged_at",
}
_SPACE = re.compile(r"\s*")
_URL = re.compile(r"https?://[^/]+/([^/]+/[^/]+)/(issues|pull)/\d+")


def read(text: bytes) -> list[Fact]:
    """The facts of a file: a list, several lists after each other, or an object a line."""
    facts = []
    for number, entry in enumerate(_entries(text), start=1):
        fact = _fact(entry)
        if fact is None:
            problem = (
                f"entry {number} is no issue with {FIELDS}; nothing was added. Type: gh issue list --json {FIELDS}"
            )
            raise Invalid(problem, field="file", number=number)
        facts.append(fact)
    return facts


def _entries(text: bytes) -> list[Any]:
    try:
        decoded, decoder = text.decode("utf-8-sig"), json.JSONDecoder()
        found: list[Any] = []
        end = _start(decoded, 0)
        while end < len(decoded):
            value, end = decoder.raw_decode(decoded, end)
            found += value if isinstance(value, list) else [value]
            end = _start(decoded, end)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not JSON: {error}; nothing was added", field="file") from error
    return found


def _start(text: str, after: int) -> int:
    """Where the next value begins."""
    found = _SPACE.match(text, after)
    return after if found is None else found.end()


def _fact(entry: object) -> Fact | None:
    if not isinstance(entry, dict):
        return None
    of_gh = "updatedAt" in entry
    issue: dict[str, Any] = {(NAMES.get(name) if of_gh else None) or name: value for name, value in entry.items()}
    address = _URL.fullmatch(str(issue.get("html_url")))
    repository = repository_name(address[1]) if address else None
    if repository is None or address is None:
        return None
    is_pull = address[2] == "pull"
    if of_gh and is_pull:
        # Its owner is not in the list of `gh`, so the branch is not said to be one of the repository's own.
        issue |= {"head": {"ref": entry.get("headRefName")}, "base": {"ref": entry.get("baseRefName")}}
        issue["state"] = "open" if entry.get("state") == "OPEN" else "closed"
    return issue_fact(repository, issue, event=PULL_REQUEST if is_pull else ISSUES, is_read=True)
