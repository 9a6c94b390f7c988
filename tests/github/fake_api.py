"""A stand-in for GitHub's API with a state: issues, pull requests, runs and the events of issues of one repository.

Every answer is checked against GitHub's own description, where that could be fetched. It knows filters, order, pages,
ETags, and can be told to refuse. It records what it was asked, and with which key.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.github.examples import Description
from tests.github.payloads import OPENED_AT

LISTS = {
    r"/repos/([^/]+/[^/]+)/issues": ("/repos/{owner}/{repo}/issues", "issues"),
    r"/repos/([^/]+/[^/]+)/pulls": ("/repos/{owner}/{repo}/pulls", "pulls"),
    r"/repos/([^/]+/[^/]+)/actions/runs": ("/repos/{owner}/{repo}/actions/runs", "runs"),
    r"/repos/([^/]+/[^/]+)/commits/([0-9a-f]{40})/check-runs": (
        "/repos/{owner}/{repo}/commits/{ref}/check-runs",
        "check_runs",
    ),
    r"/repos/([^/]+/[^/]+)/commits/([0-9a-f]{40})/statuses": (
        "/repos/{owner}/{repo}/commits/{ref}/statuses",
        "statuses",
    ),
    r"/repos/([^/]+/[^/]+)/issues/(\d+)/events": ("/repos/{owner}/{repo}/issues/{issue_number}/events", "events"),
}


class Asked(NamedTuple):
    path: str
    query: dict[str, str]
    token: str | None
    status: int
    method: str = "GET"


class Refusal(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes = b'{"message": "no"}'


class FakeApi:
    """`mistakes` are answers that GitHub's description does not allow."""

    def __init__(self, description: Description | None = None, repository: str = "acme/shop") -> None:
        self.repository, self._description = repository, description
        self.issues: dict[int, dict[str, Any]] = {}
        self.pulls: dict[int, dict[str, Any]] = {}
        self.runs: dict[int, dict[str, Any]] = {}
        self.events: dict[int, list[dict[str, Any]]] = {}
        #: By commit: its checks of apps by their id, its statuses, and its message.
        self.check_runs: dict[str, dict[int, dict[str, Any]]] = {}
        self.statuses: dict[str, list[dict[str, Any]]] = {}
        self.messages: dict[str, str] = {}
        self.asked: list[Asked] = []
        self.mistakes: list[str] = []
        #: Answered instead, first in, first out; and for a whole path.
        self.refusals: list[Refusal] = []
        self.refused: dict[str, Refusal] = {}
        self.page_size = 100
        #: The former name of the repository: what is asked by it is redirected.
        self.moved_from: str | None = None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, body = fake.answer(self.path, dict(self.headers), self.command, sent)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # The state

    def put_issue(self, number: int, **fields: Any) -> None:
        self.issues[number] = {**_issue(self.repository, number), **self.issues.get(number, {}), **_shaped(fields)}

    def put_pull(self, number: int, **fields: Any) -> None:
        self.pulls[number] = {**_pull(self.repository, number), **self.pulls.get(number, {}), **_shaped(fields)}
        # GitHub lists pull requests among issues, too.
        link = {"url": None, "html_url": None, "diff_url": None, "patch_url": None}
        common = {name: self.pulls[number][name] for name in ("title", "state", "updated_at", "labels", "user")}
        self.put_issue(number, **common, pull_request=link)

    def put_run(self, number: int, conclusion: str, **fields: Any) -> None:
        made = {**_run(self.repository, number), "conclusion": conclusion, **fields}
        self.runs[number] = made

    def put_check_run(self, sha: str, id: int, name: str, conclusion: str | None, **fields: Any) -> dict[str, Any]:
        """A check of an app, going on without a conclusion; of an id that is there, the same one in place."""
        known = self.check_runs.setdefault(sha, {})
        status = "completed" if conclusion else "in_progress"
        told = {"status": status, "conclusion": conclusion, "completed_at": OPENED_AT if conclusion else None, **fields}
        known[id] = {**_check_run(self.repository, sha, id, name), **known.get(id, {}), **told}
        return known[id]

    def put_status(self, sha: str, context: str, state: str, at: str) -> None:
        url = f"https://api.github.com/repos/{self.repository}/statuses/{sha}"
        known = self.statuses.setdefault(sha, [])
        status = {"id": len(known) + 1, "node_id": "S", "url": url, "avatar_url": None, "creator": _user("ci")}
        told = {"context": context, "state": state, "description": None, "target_url": f"https://ci.example/{context}"}
        known.insert(0, {**status, **told, "created_at": at, "updated_at": at})

    def put_label_event(self, number: int, label: str, by: str, at: str, type: str = "User") -> None:
        event = {"id": len(self.events) + 1, "event": "labeled", "created_at": at, "actor": _user(by, type)}
        links = {"node_id": "E", "url": f"{self.url}/e", "commit_id": None, "commit_url": None}
        rest = {"performed_via_github_app": None, "label": {"name": label, "color": "ff0000"}}
        self.events.setdefault(number, []).append({**event, **links, **rest})

    # Answers

    def answer(
        self, target: str, headers: dict[str, str], method: str = "GET", sent: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        status, more, body = self._refusal(parts.path) or (
            self._found(parts.path, query, headers) if method == "GET" else self.changed(method, parts.path, sent)
        )
        token = headers.get("Authorization")
        self.asked.append(Asked(parts.path, query, token, status, method))
        return status, more, body

    def changed(self, method: str, path: str, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer to a request that changes something."""
        return 404, {}, b'{"message": "Not Found"}'

    def _refusal(self, path: str) -> tuple[int, dict[str, str], bytes] | None:
        if self.moved_from is not None and re.match(rf"/repos/{self.moved_from}(/|$)", path):
            there = path.replace(self.moved_from, self.repository, 1)
            return 301, {"Location": f"{self.url}{there}"}, b"{}"
        refusal = self.refused.get(path) or (self.refusals.pop(0) if self.refusals else None)
        return None if refusal is None else (refusal.status, refusal.headers, refusal.body)

    def _found(self, path: str, query: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        for pattern, (template, name) in LISTS.items():
            match = re.fullmatch(pattern, path)
            if match and match[1] == self.repository:
                return self._list(path, template, name, query, headers, match)
        if path == f"/repos/{self.repository}":
            return 200, {}, json.dumps(self.repository_()).encode()
        number = path.removeprefix(f"/repos/{self.repository}/pulls/")
        if number.isdigit() and int(number) in self.pulls:
            return 200, {}, json.dumps(self.pulls[int(number)]).encode()
        sha = path.removeprefix(f"/repos/{self.repository}/commits/")
        if sha in self.messages:
            return 200, {}, json.dumps({"sha": sha, "commit": {"message": self.messages[sha]}}).encode()
        return 404, {}, b'{"message": "Not Found"}'

    def repository_(self) -> dict[str, Any]:
        return {**_repository(self.repository), "network_count": 0, "subscribers_count": 0, "has_discussions": False}

    def _list(
        self, path: str, template: str, name: str, query: dict[str, str], headers: dict[str, str], match: re.Match[str]
    ) -> tuple[int, dict[str, str], bytes]:
        found = self._chosen(name, query) if match.lastindex == 1 else self._of(name, match[2])
        size = min(int(query.get("per_page", 30)), self.page_size)
        page = int(query.get("page", 1))
        part = found[(page - 1) * size : page * size]
        answer: Any = part
        if name in ("runs", "check_runs"):
            answer = {"total_count": len(found), "workflow_runs" if name == "runs" else name: part}
        self._check(template, query, answer)
        body = json.dumps(answer).encode()
        more = {"Content-Type": "application/json", "ETag": f'W/"{hashlib.sha256(body).hexdigest()}"'}
        if page * size < len(found):
            more["Link"] = f'<{self.url}{path}?{urlencode({**query, "page": page + 1})}>; rel="next"'
        is_known = headers.get("If-None-Match") == more["ETag"]
        return (304, more, b"") if is_known else (200, more, body)

    def _of(self, name: str, which: str) -> list[dict[str, Any]]:
        if name == "events":
            return self.events.get(int(which), [])
        if name == "check_runs":
            return [one for _, one in sorted(self.check_runs.get(which, {}).items())]
        return self.statuses.get(which, [])

    def _chosen(self, name: str, query: dict[str, str]) -> list[dict[str, Any]]:
        if name == "runs":
            runs = sorted(self.runs.values(), key=lambda one: str(one["created_at"]), reverse=True)
            runs = [one for one in runs if query.get("head_sha") in (None, one["head_sha"])]
            return [one for one in runs if query.get("status") in (None, one["status"])]
        known: Any = (self.issues if name == "issues" else self.pulls).values()
        state, since = query.get("state", "open"), query.get("since", "")
        if "head" in query:
            owner, _, branch = query["head"].partition(":")
            known = [one for one in known if one["head"]["ref"] == branch and _owner(one) == owner]
        found = [one for one in known if state in ("all", one["state"]) and one["updated_at"] >= since]
        order = "updated_at" if query.get("sort") == "updated" else "created_at"
        return sorted(found, key=lambda one: str(one[order]), reverse=query.get("direction", "desc") == "desc")

    def _check(self, template: str, query: dict[str, str], answer: Any) -> None:
        if self._description is not None:
            self.mistakes += self._description.errors(template, answer)
            unknown = query.keys() - self._description.parameters(template)
            self.mistakes += [f"{template} has no parameter {name}" for name in unknown]


def _owner(pull: dict[str, Any]) -> str:
    repo = pull["head"]["repo"]
    return "" if repo is None else str(repo["full_name"]).partition("/")[0]


def _shaped(fields: dict[str, Any]) -> dict[str, Any]:
    """A label as an object, an author by name, a branch as an object."""
    made = dict(fields)
    if "labels" in made:
        made["labels"] = [one if isinstance(one, dict) else _label(one) for one in made["labels"]]
    if isinstance(made.get("user"), str):
        made["user"] = _user(made["user"])
    return made


def _label(name: str) -> dict[str, Any]:
    more = {"id": 1, "node_id": "L", "url": "https://api.github.com/l", "description": ""}
    return {**more, "name": name, "color": "ff0000", "default": False}


def _user(login: str, type: str = "User") -> dict[str, Any]:
    url = f"https://api.github.com/users/{login}"
    names = ["url", "html_url", "followers_url", "subscriptions_url", "organizations_url", "repos_url"]
    names += ["received_events_url", "avatar_url", "following_url", "gists_url", "starred_url", "events_url"]
    who = {"login": login, "id": 1, "node_id": "U", "gravatar_id": "", "type": type, "site_admin": False}
    return {**who, **dict.fromkeys(names, url)}


def _issue(repository: str, number: int) -> dict[str, Any]:
    url = f"https://api.github.com/repos/{repository}/issues/{number}"
    names = ("url", "repository_url", "labels_url", "comments_url", "events_url")
    return {
        **dict.fromkeys(names, url),
        "id": number,
        "node_id": "I",
        "number": number,
        "html_url": f"https://github.com/{repository}/issues/{number}",
        "title": "Login fails",
        "body": "It does.",
        "state": "open",
        "labels": [],
        "user": _user("ann"),
        "author_association": "MEMBER",
        "assignee": None,
        "milestone": None,
        "locked": False,
        "comments": 0,
        "closed_at": None,
        "created_at": OPENED_AT,
        "updated_at": OPENED_AT,
    }


def _pull(repository: str, number: int) -> dict[str, Any]:
    url = f"https://api.github.com/repos/{repository}/pulls/{number}"
    names = ("url", "diff_url", "patch_url", "issue_url", "commits_url", "review_comments_url", "review_comment_url")
    links = ("comments", "commits", "statuses", "html", "issue", "review_comments", "review_comment", "self")
    issue = {name: value for name, value in _issue(repository, number).items() if name != "comments"}

    def side(ref: str) -> dict[str, Any]:
        return {"label": ref, "ref": ref, "sha": "a" * 40, "repo": _repository(repository), "user": _user("ann")}

    return {
        **issue,
        **dict.fromkeys((*names, "comments_url", "statuses_url"), url),
        "html_url": f"https://github.com/{repository}/pull/{number}",
        "_links": {name: {"href": url} for name in links},
        "head": side("dibs/login"),
        "base": side("main"),
        "draft": False,
        "merged_at": None,
        "merge_commit_sha": None,
        "auto_merge": None,
    }


def _run(repository: str, number: int) -> dict[str, Any]:
    url = f"https://api.github.com/repos/{repository}/actions/runs/{number}"
    names = ("url", "jobs_url", "logs_url", "check_suite_url", "cancel_url", "rerun_url", "artifacts_url")
    at = f"2026-11-16T09:{number // 60:02d}:{number % 60:02d}Z"
    return {
        **dict.fromkeys((*names, "workflow_url"), url),
        "id": number,
        "node_id": "R",
        "name": "CI",
        "path": ".github/workflows/ci.yml",
        "head_branch": "main",
        "head_sha": "b" * 40,
        "head_commit": None,
        "head_repository": _repository(repository),
        "repository": _repository(repository),
        "run_number": number,
        "run_attempt": 1,
        "display_title": "a commit",
        "event": "push",
        "status": "completed",
        "workflow_id": 1,
        "html_url": f"https://github.com/{repository}/actions/runs/{number}",
        "pull_requests": [],
        "created_at": at,
        "updated_at": at,
    }


def _check_run(repository: str, sha: str, id: int, name: str, app: str = "codecov") -> dict[str, Any]:
    url = f"https://api.github.com/repos/{repository}/check-runs/{id}"
    output = {"title": None, "summary": None, "text": None, "annotations_count": 0, "annotations_url": url}
    return {
        "id": id,
        "name": name,
        "head_sha": sha,
        "node_id": "K",
        "external_id": "",
        "url": url,
        "html_url": f"https://github.com/{repository}/runs/{id}",
        "details_url": f"https://ci.example/{id}",
        "started_at": OPENED_AT,
        "completed_at": None,
        "output": output,
        "check_suite": {"id": 1},
        "app": _app(app),
        "pull_requests": [],
    }


def _app(slug: str) -> dict[str, Any]:
    url = f"https://github.com/apps/{slug}"
    names = {"name": slug, "slug": slug, "description": "", "external_url": url, "html_url": url}
    times = {"created_at": OPENED_AT, "updated_at": OPENED_AT}
    return {**names, **times, "id": 1, "node_id": "A", "owner": _user("ci"), "permissions": {}, "events": []}


#: The links of a repository: `archive_url` and so on.
LINKS = (
    *("archive", "assignees", "blobs", "branches", "clone", "collaborators", "comments"),
    *("commits", "compare", "contents", "contributors", "deployments", "downloads", "events"),
    *("forks", "git_commits", "git_refs", "git_tags", "git", "hooks", "html"),
    *("issue_comment", "issue_events", "issues", "keys", "labels", "languages", "merges"),
    *("milestones", "mirror", "notifications", "pulls", "releases", "ssh", "stargazers"),
    *("statuses", "subscribers", "subscription", "svn", "tags", "teams", "trees"),
)
COUNTS = ("forks", "forks_count", "open_issues", "open_issues_count", "size", "stargazers_count", "watchers")
FLAGS = (
    "fork",
    "private",
    "has_downloads",
    "has_issues",
    "has_projects",
    "has_wiki",
    "has_pages",
    "archived",
    "disabled",
)


def _repository(full_name: str) -> dict[str, Any]:
    owner, _, name = full_name.partition("/")
    url = f"https://api.github.com/repos/{full_name}"
    texts = {"full_name": full_name, "name": name, "url": url, "node_id": "R", "default_branch": "main"}
    times = dict.fromkeys(("created_at", "updated_at", "pushed_at"), OPENED_AT)
    nothing = dict.fromkeys(("description", "homepage", "language", "license"))
    counts = dict.fromkeys((*COUNTS, "watchers_count"), 0)
    links = {f"{link}_url": url for link in LINKS}
    return {
        **texts,
        **times,
        **nothing,
        **counts,
        **links,
        **dict.fromkeys(FLAGS, False),
        "id": 1,
        "owner": _user(owner),
    }
