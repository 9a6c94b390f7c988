"""Checks of commits, as GitHub tells of them: runs of workflows, checks of other apps, and commit statuses.

A check is a fact, too: the state of one name on one commit, with a version. GitHub shows each job of a workflow as a
check of its own; here the run of the workflow stands for its jobs, so that a matrix of hundreds of jobs is one check.
"""

from __future__ import annotations

import re

from dibs.check import NAME_LENGTH_MAX
from dibs.github.payload import (
    PULL_REQUEST,
    as_number,
    as_object,
    branch_name,
    instant,
    line,
    repository_name,
    safe_url,
    workflow_name,
)
from dibs.github.policy import RUN_MARK
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CHECK_RUN, STATUS, WORKFLOW_RUN = "check_run", "status", "workflow_run"
#: Deliveries about checks. A check suite says nothing that its checks do not say.
EVENTS = (CHECK_RUN, STATUS, WORKFLOW_RUN)
PENDING = "pending"
GREEN = frozenset({"success", "neutral", "skipped"})
RED = frozenset({"failure", "error", "timed_out", "startup_failure"})
#: The app whose checks are the jobs of workflows.
ACTIONS = "github-actions"
SHA_LENGTH = 40
#: The longest name of an app that is told.
SOURCE_LENGTH_MAX = 40
_WORKFLOW = re.compile(rf"\S+\.ya?ml({RUN_MARK}.*)?", re.IGNORECASE)


class Check(Value):
    """The state of a check on a commit: `pending`, or its conclusion. `kind` is the event that tells of it, `source`
    who reports it. `branches` and `pulls` are those that the commit is the head of, as far as GitHub names them:
    branches of the repository itself only. `fork` is the owner of the fork that a workflow was run for.

    The versions of one run of a check are ordered by what they say of its end. GitHub keeps no instant of a run that an
    app sets back to going on, so only a read of the API tells that it is: see `with_read` in pull_memory.py.
    """

    repository: str
    sha: str
    name: str
    state: str
    version: str
    kind: str = ""
    source: str = ""
    url: str = ""
    artifacts: str = ""
    branches: tuple[str, ...] = ()
    pulls: tuple[int, ...] = ()
    fork: str = ""


def from_webhook(event: str, payload: object) -> Check | None:
    """The check of a delivery; None for one that is about no check."""
    data = as_object(payload)
    repository = repository_name(as_object(data.get("repository")).get("full_name"))
    if repository is None or event not in EVENTS:
        return None
    if event == STATUS:
        return of_status(repository, data.get("sha"), data)
    return (of_app if event == CHECK_RUN else of_workflow)(repository, data.get(event))


def of_workflow(repository: str, found: object) -> Check | None:
    """A push and a pull request may start one workflow twice on one commit: each of both runs has to be green."""
    run = as_object(found)
    number, attempt = as_number(run.get("run_number")), as_number(run.get("run_attempt", 1))
    file, trigger = workflow_name(run), line(run.get("event"), NAME_LENGTH_MAX)
    fork, is_fork, _ = branch_name(repository, "x", run.get("head_repository")).rpartition(":")
    if not (number and attempt and file):
        return None
    return _check(
        repository,
        run,
        name=file if trigger in ("", PULL_REQUEST) else f"{file}{RUN_MARK}{trigger}"[:NAME_LENGTH_MAX],
        version=f"{number:012d}.{attempt:06d}",
        kind=WORKFLOW_RUN,
        branches=() if is_fork else (run.get("head_branch"),),
        fork=fork,
        artifacts=safe_url(run.get("artifacts_url")),
    )


def of_app(repository: str, found: object) -> Check | None:
    run = as_object(found)
    suite, app = as_object(run.get("check_suite")), as_object(run.get("app"))
    number = as_number(run.get("id"))
    if is_job(run) or not number:
        return None
    # The branch of a suite of a fork has no repository; its pull requests are not listed.
    is_own = bool(run.get("pull_requests"))
    return _check(
        repository,
        run,
        name=_no_workflow(line(run.get("name"), NAME_LENGTH_MAX)),
        version=f"{instant(run.get('started_at')) or ''}~{number:012d}",
        ended_at=instant(run.get("completed_at")) or "",
        kind=CHECK_RUN,
        source=line(app.get("slug"), SOURCE_LENGTH_MAX) or CHECK_RUN,
        branches=(suite.get("head_branch"),) if is_own else (),
    )


def is_job(found: object) -> bool:
    """Whether it is a job of a workflow, whose run stands for it."""
    return as_object(as_object(found).get("app")).get("slug") == ACTIONS


def of_status(repository: str, sha: object, found: object) -> Check | None:
    """`branches` of a status are branches of the repository that have the commit at their head."""
    data = as_object(found)
    branches = [as_object(one) for one in data.get("branches") or () if isinstance(data.get("branches"), list)]
    heads = [one.get("name") for one in branches if as_object(one.get("commit")).get("sha") == sha]
    at, number = instant(data.get("updated_at")) or "", as_number(data.get("id"))
    state = str(data.get("state"))
    run = {"head_sha": sha, "status": PENDING if state == PENDING else "completed", "conclusion": state}
    return _check(
        repository,
        {**run, "html_url": data.get("target_url")},
        name=_no_workflow(line(data.get("context"), NAME_LENGTH_MAX)),
        version=f"{at}~{number:012d}",
        kind=STATUS,
        source=STATUS,
        branches=tuple(heads),
    )


def _no_workflow(name: str) -> str:
    """Whoever may set a status chooses its name. Only a run of a workflow goes by that of a workflow's file."""
    return f"{name[: NAME_LENGTH_MAX - 9]} (status)" if _WORKFLOW.fullmatch(name) else name


def _check(
    repository: str, run: Mapping[str, Any], *, name: str, version: str, ended_at: str = "", **more: Any
) -> Check | None:
    sha = line(run.get("head_sha"), NAME_LENGTH_MAX).lower()
    is_over = run.get("status") == "completed"
    state = (line(run.get("conclusion"), NAME_LENGTH_MAX) if is_over else "") or PENDING
    if len(sha) != SHA_LENGTH or not name or not state:
        return None
    listed = run.get("pull_requests")
    pulls = [as_object(one) for one in listed] if isinstance(listed, list) else []
    return Check(
        repository=repository,
        sha=sha,
        name=name,
        state=state,
        # Of one attempt, what is over is newer than what is going on, and an app may end a run again.
        version=f"{version}.{is_over:d}" + (f"~{ended_at}" if is_over and ended_at else ""),
        url=safe_url(run.get("html_url")),
        branches=tuple(line(one, NAME_LENGTH_MAX) for one in more.pop("branches") if one),
        pulls=tuple(number for one in pulls if (number := as_number(one.get("number")))),
        **more,
    )
