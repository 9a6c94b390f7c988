"""Payloads as GitHub writes them, as small as dibs needs them."""

from __future__ import annotations

from typing import Any

REPOSITORY = {"full_name": "Acme/Shop"}
OPENED_AT = "2026-11-16T09:00:00Z"


def at(second: int) -> str:
    return f"2026-11-16T09:{second // 60:02d}:{second % 60:02d}Z"


def issue(number: int = 12, *, action: str = "opened", label: str | None = None, by: str = "ann", **fields: Any) -> Any:
    """A delivery about an issue of a member. `label` is the one that was put there, `by` who did it."""
    found: dict[str, Any] = {
        "number": number,
        "title": "Login fails",
        "body": "It does.",
        "state": "open",
        "labels": [],
        "user": {"login": "ann", "type": "User"},
        "author_association": "MEMBER",
        "html_url": f"https://github.com/acme/shop/issues/{number}",
        "updated_at": OPENED_AT,
    }
    found |= fields
    found["labels"] = [{"name": name} for name in found["labels"]]
    told = {"action": action, "issue": found, "repository": REPOSITORY, "sender": {"login": by, "type": "User"}}
    return told if label is None else {**told, "label": {"name": label}}


def pull(number: int = 20, *, action: str = "opened", **fields: Any) -> Any:
    found = issue(number, title="Mend the login", **fields)["issue"]
    own = {"repo": {"full_name": "acme/shop"}}
    found = {
        "draft": False,
        "merged": False,
        "head": {"ref": "dibs/login", "sha": "a" * 40, **own},
        "base": {"ref": "main", **own},
        **found,
        "html_url": f"https://github.com/acme/shop/pull/{number}",
    }
    return {"action": action, "pull_request": found, "repository": REPOSITORY, "sender": {"login": "ann"}}


def run(number: int, conclusion: str, *, branch: str = "main", repository: str = "acme/shop", **fields: Any) -> Any:
    found = {
        "name": "CI",
        "path": ".github/workflows/ci.yml",
        "status": "completed",
        "conclusion": conclusion,
        "head_branch": branch,
        "head_repository": {"full_name": repository},
        "head_sha": "b" * 40,
        "run_number": number,
        "run_attempt": 1,
        "created_at": at(number),
        "updated_at": at(number),
        "html_url": f"https://github.com/acme/shop/actions/runs/{number}",
        **fields,
    }
    return {"action": "completed", "workflow_run": found, "repository": REPOSITORY}


#: Titles that try to leave their place: a terminal, a page, a shell, a template, a path.
HOSTILE_TITLES = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "$(touch /tmp/owned) `id` ; rm -rf ~ #",
    "{{7*7}} ${jndi:ldap://x} %s %n {title}",
    "../../../../etc/passwd\x00.md",
    "one line\nor two\r\nor \u2028three\u202egnp.exe",
    "\ud800 a lone surrogate",
    "\u200b",
    "x" * 10_000,
)


def statuses(context: str, state: str, sha: str, branch: str, second: int = 0) -> Any:
    """A delivery about the status of a commit."""
    return {
        "id": 7,
        "sha": sha,
        "context": context,
        "state": state,
        "target_url": f"https://ci.example/{context.replace(' ', '-')}",
        "updated_at": at(second),
        "branches": [{"name": branch, "commit": {"sha": sha}}, {"name": "main", "commit": {"sha": "c" * 40}}],
        "repository": REPOSITORY,
    }
