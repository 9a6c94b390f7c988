"""The half of the stand-in for GitHub's API that is written to: comments, labels, assignees and statuses of commits.

It also knows branches and commits, and compares them. Requests and answers are checked against GitHub's description.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.github.examples import Description
from tests.github.fake_api import FakeApi, _label, _user
from tests.github.payloads import OPENED_AT

R = "/repos/{owner}/{repo}"
Answer = tuple[int, dict[str, str], bytes]
#: What a watcher writes, by method and path: the path in the description, and the method of `WritableApi`.
WRITES = (
    ("POST", r"/issues/(\d+)/comments", f"{R}/issues/{{issue_number}}/comments", "add_comment", 201),
    ("PATCH", r"/issues/comments/(\d+)", f"{R}/issues/comments/{{comment_id}}", "edit_comment", 200),
    ("DELETE", r"/issues/comments/(\d+)", f"{R}/issues/comments/{{comment_id}}", "delete_comment", 204),
    ("POST", r"/issues/(\d+)/labels", f"{R}/issues/{{issue_number}}/labels", "add_labels", 200),
    ("DELETE", r"/issues/(\d+)/labels/([^/]+)", f"{R}/issues/{{issue_number}}/labels/{{name}}", "delete_label", 200),
    ("POST", r"/issues/(\d+)/assignees", f"{R}/issues/{{issue_number}}/assignees", "assign", 201),
    ("DELETE", r"/issues/(\d+)/assignees", f"{R}/issues/{{issue_number}}/assignees", "unassign", 200),
    ("POST", r"/statuses/([0-9a-f]{40})", f"{R}/statuses/{{sha}}", "add_status", 201),
)
READS = (
    (r"", R, "repository_"),
    (r"/issues/(\d+)", f"{R}/issues/{{issue_number}}", "issue"),
    (r"/issues/(\d+)/comments", f"{R}/issues/{{issue_number}}/comments", "comments_of"),
    (r"/issues/comments/(\d+)", f"{R}/issues/comments/{{comment_id}}", "comment"),
    (r"/commits/([0-9a-f]{40})/statuses", f"{R}/commits/{{ref}}/statuses", "statuses_of"),
    (r"/commits/([0-9a-f]{40})", f"{R}/commits/{{ref}}", "commit"),
    (r"/git/matching-refs/(heads/.*)", f"{R}/git/matching-refs/{{ref}}", "refs"),
    (r"/compare/(.+)\.\.\.(.+)", f"{R}/compare/{{basehead}}", "compare"),
)


class Missing(Exception):
    """There is no such thing."""


class WritableApi(FakeApi):
    """`at_write` is called before and after the effect of each write, with its kind and `before` or `after`."""

    def __init__(self, description: Description | None = None, repository: str = "acme/shop") -> None:
        super().__init__(description, repository)
        self.comments: dict[int, dict[str, Any]] = {}
        self.assignable = {"octocat", "ann"}
        self.branches: dict[str, str] = {"main": "0" * 40}
        self.commits: dict[str, tuple[tuple[str, ...], str]] = {"0" * 40: ((), "begin")}
        self.statuses: dict[str, list[dict[str, Any]]] = {}
        self.at_write: Callable[[str, str], None] = lambda kind, when: None
        #: Answers instead of a write of this kind: a status and a message.
        self.refused_writes: dict[str, tuple[int, str]] = {}
        self.written = threading.Condition()
        self._ids = 100

    # The state, as tests ask for it

    def bodies(self, number: int = 12) -> list[str]:
        return [one["body"] for one in self.comments_of(str(number))]

    def labels(self, number: int = 12) -> list[str]:
        return [one["name"] for one in self.issues[number]["labels"]]

    def assignees(self, number: int = 12) -> list[str]:
        return [one["login"] for one in self.issues[number].get("assignees") or ()]

    def state(self, sha: str) -> str | None:
        """The newest status of the commit."""
        return next((str(one["state"]) for one in self.statuses.get(sha, ())), None)

    def writes(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.asked if one.method != "GET"]

    def push(self, branch: str, sha: str, message: str, parent: str | None = None) -> str:
        """A commit on a branch. `sha` is one letter."""
        before = parent or self.branches.get(branch) or self.branches["main"]
        self.commits[sha * 40] = ((before,), message)
        self.branches[branch] = sha * 40
        return sha * 40

    # Answers

    def _found(self, path: str, query: dict[str, str], headers: dict[str, str]) -> Answer:
        for pattern, template, name in READS:
            match = re.fullmatch(f"/repos/{self.repository}{pattern}", unquote(path))
            if match is not None:
                try:
                    return self._page(path, template, query, headers, getattr(self, name)(*match.groups()))
                except (Missing, KeyError):
                    return 404, {}, b'{"message": "Not Found"}'
        return super()._found(path, query, headers)

    def _page(self, path: str, template: str, query: dict[str, str], headers: dict[str, str], found: Any) -> Answer:
        size, page = min(int(query.get("per_page", 30)), self.page_size), int(query.get("page", 1))
        rows = found["commits"] if template.endswith("{basehead}") else found if isinstance(found, list) else []
        part = rows[(page - 1) * size : page * size]
        answer = part if isinstance(found, list) else {**found, "commits": part} if rows else found
        self._check(template, query, answer)
        more = {"Content-Type": "application/json"}
        if page * size < len(rows) and "per_page" in query:
            more["Link"] = f'<{self.url}{path}?per_page={size}&page={page + 1}>; rel="next"'
        body = json.dumps(answer).encode()
        more["ETag"] = f'"{hash(body)}"'
        return (304, more, b"") if headers.get("If-None-Match") == more["ETag"] else (200, more, body)

    def changed(self, method: str, path: str, sent: bytes) -> Answer:
        for verb, pattern, template, name, status in WRITES:
            match = re.fullmatch(f"/repos/{self.repository}{pattern}", unquote(path))
            if match is not None and verb == method:
                return self._write(method, template, name, status, match, json.loads(sent) if sent else None)
        return super().changed(method, path, sent)

    def _write(self, method: str, template: str, name: str, status: int, match: re.Match[str], sent: Any) -> Answer:
        if name in self.refused_writes:
            refused, message = self.refused_writes[name]
            return refused, {}, json.dumps({"message": message}).encode()
        self.at_write(name, "before")
        try:
            with self.written:
                answer = getattr(self, name)(*match.groups(), **(sent or {}))
                self.written.notify_all()
        except (Missing, KeyError):
            return 404, {}, b'{"message": "Not Found"}'
        if self._description is not None:
            self.mistakes += self._description.request_errors(template, method.lower(), sent)
            self.mistakes += self._description.errors(template, answer, method.lower(), status)
        self.at_write(name, "after")
        return status, {"Content-Type": "application/json"}, b"" if answer is None else json.dumps(answer).encode()

    # Comments

    def comments_of(self, number: str) -> list[dict[str, Any]]:
        self.issue(number)
        return [one for one in self.comments.values() if one["issue_url"].endswith(f"/{number}")]

    def comment(self, id: str) -> dict[str, Any]:
        return self.comments[int(id)]

    def add_comment(self, number: str, body: str, by: str = "dibs-bot") -> dict[str, Any]:
        self._ids += 1
        url = f"https://api.github.com/repos/{self.repository}/issues"
        made = {"id": self._ids, "node_id": "C", "body": body, "user": _user(by), "html_url": f"{url}/c", "url": url}
        times = {"created_at": OPENED_AT, "updated_at": OPENED_AT}
        self.comments[self._ids] = {**made, **times, "issue_url": f"{url}/{number}", "author_association": "MEMBER"}
        return self.comments[self._ids]

    def edit_comment(self, id: str, body: str) -> dict[str, Any]:
        self.comments[int(id)]["body"] = body
        return self.comments[int(id)]

    def delete_comment(self, id: str) -> None:
        del self.comments[int(id)]

    # Labels and assignees

    def issue(self, number: str) -> dict[str, Any]:
        if int(number) not in self.issues:
            raise Missing
        return self.issues[int(number)]

    def add_labels(self, number: str, labels: list[str]) -> list[dict[str, Any]]:
        found = self.issue(number)["labels"]
        found += [_label(one) for one in labels if one not in self.labels(int(number))]
        return list(found)

    def delete_label(self, number: str, name: str) -> list[dict[str, Any]]:
        if name not in self.labels(int(number)):
            raise Missing
        self.issue(number)["labels"] = [one for one in self.issue(number)["labels"] if one["name"] != name]
        return list(self.issue(number)["labels"])

    def assign(self, number: str, assignees: list[str]) -> dict[str, Any]:
        """Who has no access is passed over in silence."""
        there = self.assignees(int(number))
        made = [*there, *(one for one in assignees if one in self.assignable and one not in there)]
        self.issue(number)["assignees"] = [_user(one) for one in made]
        return self.issue(number)

    def unassign(self, number: str, assignees: list[str]) -> dict[str, Any]:
        kept = [one for one in self.assignees(int(number)) if one not in assignees]
        self.issue(number)["assignees"] = [_user(one) for one in kept]
        return self.issue(number)

    # Commits

    def refs(self, prefix: str) -> list[dict[str, Any]]:
        found = {f"refs/heads/{name}": sha for name, sha in self.branches.items()}
        return [
            {"ref": ref, "node_id": "F", "url": f"{self.url}/{ref}", "object": _object(self.url, sha)}
            for ref, sha in sorted(found.items())
            if ref.startswith(f"refs/{prefix}")
        ]

    def compare(self, base: str, head: str) -> dict[str, Any]:
        known = self._ancestors(self.branches.get(base, base))
        missing = [sha for sha in self._ancestors(head) if sha not in known]
        url = f"https://github.com/{self.repository}/compare"
        names = ("url", "html_url", "permalink_url", "diff_url", "patch_url")
        begin = self._commit("0" * 40)
        counts = {"status": "ahead", "ahead_by": len(missing), "behind_by": 0, "total_commits": len(missing)}
        commits = [self._commit(sha) for sha in reversed(missing)]
        return {
            **dict.fromkeys(names, url),
            **counts,
            "base_commit": begin,
            "merge_base_commit": begin,
            "commits": commits,
        }

    def _ancestors(self, sha: str) -> list[str]:
        found, left = [], [sha]
        while left:
            one = left.pop()
            if one not in found:
                found.append(one)
                left += self.commits[one][0]
        return found

    def commit(self, sha: str) -> dict[str, Any]:
        if sha not in self.commits:
            raise Missing
        return {**self._commit(sha), "stats": {"total": 0, "additions": 0, "deletions": 0}, "files": []}

    def _commit(self, sha: str) -> dict[str, Any]:
        before, message = self.commits[sha]
        url = f"https://api.github.com/repos/{self.repository}/commits/{sha}"
        who = {"name": "ann", "email": "ann@example.org", "date": OPENED_AT}
        tree = {"sha": sha, "url": url}
        inner = {"message": message, "author": who, "committer": who, "tree": tree, "url": url, "comment_count": 0}
        links = dict.fromkeys(("url", "html_url", "comments_url"), url)
        parents = [{"sha": one, "url": url, "html_url": url} for one in before]
        return {
            **links,
            "sha": sha,
            "node_id": "C",
            "commit": inner,
            "author": None,
            "committer": None,
            "parents": parents,
        }

    def statuses_of(self, sha: str) -> list[dict[str, Any]]:
        return self.statuses.get(sha, [])

    def add_status(self, sha: str, state: str, description: str, context: str, by: str = "dibs-bot") -> dict[str, Any]:
        """Newest first, as GitHub lists them."""
        if sha not in self.commits:
            raise Missing
        self._ids += 1
        url = f"https://api.github.com/repos/{self.repository}/statuses/{sha}"
        made = {"id": self._ids, "node_id": "S", "url": url, "avatar_url": None, "target_url": None}
        times = {"created_at": OPENED_AT, "updated_at": OPENED_AT}
        told = {"state": state, "description": description, "context": context, "creator": _user(by)}
        self.statuses.setdefault(sha, []).insert(0, {**made, **times, **told})
        return self.statuses[sha][0]


def _object(url: str, sha: str) -> dict[str, Any]:
    return {"type": "commit", "sha": sha, "url": f"{url}/{sha}"}
