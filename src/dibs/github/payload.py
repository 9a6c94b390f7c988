"""What GitHub says, as facts: each is the whole state of one subject at one version.

The JSON of a webhook, of GitHub's API and of `gh` name the same things differently, and any of them may lack a part or
have another type than expected. A subject that cannot be identified is no fact; any other missing part has a neutral
value. All text is from strangers: it is cut to the sizes that a board keeps, and to one line where that is demanded.
"""

from __future__ import annotations

import hashlib
import json
import re

from dibs.check import NAME_LENGTH_MAX, SUBJECT_LENGTH_MAX, TITLE_LENGTH_MAX
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ISSUES, PULL_REQUEST, WORKFLOW_RUN = "issues", "pull_request", "workflow_run"
EVENTS = (ISSUES, PULL_REQUEST, WORKFLOW_RUN)
#: The states of a subject. For the first two the work is to be done, for the others it is over.
OPEN, FAILED, CLOSED, MERGED, SUCCEEDED = STATES = ("open", "failed", "closed", "merged", "succeeded")
WORK_STATES = (OPEN, FAILED)
#: How a run of a workflow ends, as far as that says something about the code.
CONCLUSIONS = {"failure": FAILED, "timed_out": FAILED, "startup_failure": FAILED, "success": SUCCEEDED}
#: Actions after which the repository has the issue no more, whatever its state says.
GONE = frozenset({"deleted", "transferred"})
MEMBERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
SUBJECT_PREFIX = "github:"
WORKFLOWS_FOLDER = ".github/workflows/"
BODY_BYTES_MAX = 200_000
CUT = "\n\n(cut; see the original)"
NUMBER_MAX = 10**12
#: GitHub allows 100. An item keeps fewer, but any of them may decide.
LABELS_MAX = 200
#: A read of the API after a change is better than any webhook about a change within the same second.
READ_RANK = "9"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._:/@#+-]+")


class Fact(Value):
    """The state of one subject. Of two versions of a subject the greater text is the newer one.

    `branch` is the head of a pull request, or the branch of a run; one of a fork has its owner in front, `owner:main`.
    `approved_by` is the member who has approved this very text by a label. `linked`: it is the pull request of an item.
    """

    event: str
    repository: str
    subject: str
    version: str
    state: str
    title: str
    body: str = ""
    url: str = ""
    number: int = 0
    labels: tuple[str, ...] = ()
    author: str = ""
    association: str = "NONE"
    draft: bool = False
    branch: str = ""
    base: str = ""
    workflow: str = ""
    sha: str = ""
    approved_by: str | None = None
    linked: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it was read from the API."""
        return self.version.endswith(f"~{READ_RANK}")

    @property
    def is_work(self) -> bool:
        return self.state in WORK_STATES

    @property
    def is_outsiders(self) -> bool:
        return self.association not in MEMBERS


def from_webhook(event: str, payload: object, approve_label: str | None = None) -> Fact | None:
    """The fact of a delivery; None for one that is about nothing dibs follows."""
    data = as_object(payload)
    repository = repository_name(as_object(data.get("repository")).get("full_name"))
    if repository is None or event not in EVENTS:
        return None
    if event == WORKFLOW_RUN:
        return run_fact(repository, data.get("workflow_run"))
    found = as_object(data.get("issue" if event == ISSUES else PULL_REQUEST))
    if str(data.get("action")) in GONE:
        found = {**found, "state": CLOSED}
    fact = issue_fact(repository, found, event=event)
    return fact if fact is None else _with_approval(fact, data, approve_label)


def issue_fact(repository: str, found: Mapping[str, Any], *, event: str = ISSUES, is_read: bool = False) -> Fact | None:
    """An issue or a pull request. `is_read`: it was read from the API."""
    number, title = as_number(found.get("number")), line(found.get("title"), TITLE_LENGTH_MAX)
    updated_at = instant(found.get("updated_at"))
    if not number or updated_at is None:
        return None
    state = CLOSED if str(found.get("state")).lower() == CLOSED else OPEN
    if event == PULL_REQUEST and (found.get("merged") is True or found.get("merged_at")):
        state = MERGED
    head, base = as_object(found.get("head")), as_object(found.get("base"))
    labels = [
        name for one in as_list(found.get("labels")) if (name := line(as_object(one).get("name"), NAME_LENGTH_MAX))
    ]
    fact = Fact(
        event=event,
        repository=repository,
        subject=f"{SUBJECT_PREFIX}{repository}#{number}",
        version=updated_at,
        state=state,
        title=title or f"#{number}",
        body=text(found.get("body")),
        url=safe_url(found.get("html_url")),
        number=number,
        labels=tuple(sorted(set(labels)))[:LABELS_MAX],
        author=line(as_object(found.get("user")).get("login"), NAME_LENGTH_MAX),
        association=line(found.get("author_association"), NAME_LENGTH_MAX) or "NONE",
        draft=found.get("draft") is True,
        branch=branch_name(repository, head.get("ref"), head.get("repo")),
        base=line(base.get("ref"), NAME_LENGTH_MAX),
        sha=line(head.get("sha"), NAME_LENGTH_MAX),
    )
    return fact.replace(version=f"{updated_at}~{READ_RANK if is_read else _rank(fact)}")


def run_fact(repository: str, found: object) -> Fact | None:
    """A run of a workflow that has ended and says something. The subject is the workflow on its branch."""
    run = as_object(found)
    number, attempt = as_number(run.get("run_number")), as_number(run.get("run_attempt", 1))
    state = CONCLUSIONS.get(str(run.get("conclusion"))) if run.get("status") == "completed" else None
    branch = branch_name(repository, run.get("head_branch"), run.get("head_repository"))
    workflow = workflow_name(run)
    if state is None or not (number and attempt and branch and workflow):
        return None
    return Fact(
        event=WORKFLOW_RUN,
        repository=repository,
        subject=_cut(f"{SUBJECT_PREFIX}{repository}/workflows/{workflow}@{branch}", SUBJECT_LENGTH_MAX, "~"),
        version=f"{number:012d}.{attempt:06d}",
        state=state,
        title=line(f"{workflow} fails on {branch}", TITLE_LENGTH_MAX),
        url=safe_url(run.get("html_url")),
        number=number,
        author=line(as_object(run.get("actor")).get("login"), NAME_LENGTH_MAX),
        # Whoever can push a branch to the repository is a member.
        association="NONE" if ":" in branch else "COLLABORATOR",
        branch=branch,
        workflow=workflow,
        sha=line(run.get("head_sha"), NAME_LENGTH_MAX),
    )


def repository_name(given: object) -> str | None:
    """`owner/name` in lower case: GitHub does not tell cases apart."""
    return given.lower() if isinstance(given, str) and _REPOSITORY.fullmatch(given) else None


def label_name(given: str) -> str:
    """A label of GitHub as a label of an item: `good first issue` becomes `good-first-issue`. May be empty."""
    return _NOT_IN_NAMES.sub("-", given).strip("._:/@#+-")[:NAME_LENGTH_MAX]


def is_same_label(given: object, label: str) -> bool:
    """GitHub does not tell cases apart."""
    return isinstance(given, str) and given.casefold() == label.casefold()


def instant(given: object) -> str | None:
    """An instant of GitHub, which is compared as text."""
    return given if isinstance(given, str) and _INSTANT.fullmatch(given) else None


def line(given: object, length_max: int) -> str:
    """One line without control characters."""
    if not isinstance(given, str):
        return ""
    cut = given[: 4 * length_max]
    return " ".join("".join(one if one.isprintable() else " " for one in cut).split())[:length_max].strip()


def text(given: object) -> str:
    if not isinstance(given, str):
        return ""
    clean = given.replace("\r\n", "\n").replace("\0", "").encode(errors="replace")
    return clean.decode() if len(clean) <= BODY_BYTES_MAX else clean[:BODY_BYTES_MAX].decode(errors="ignore") + CUT


def session_id(prefix: str, repository: str) -> str:
    """The id of a session of a repository."""
    return _cut(f"{prefix}{repository}", NAME_LENGTH_MAX, "@")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _with_approval(fact: Fact, data: Mapping[str, Any], label: str | None) -> Fact:
    """Only members can label, but a template labels what a stranger opens, in the stranger's name, and programs label
    without reading. So the author's own label and a program's approve nothing."""
    sender = as_object(data.get("sender"))
    by = line(sender.get("login"), NAME_LENGTH_MAX)
    is_label = label is not None and is_same_label(as_object(data.get("label")).get("name"), label)
    if data.get("action") != "labeled" or not is_label or not by or by == fact.author or sender.get("type") != "User":
        return fact
    return fact.replace(approved_by=by)


def _rank(fact: Fact) -> str:
    """An order among changes within one second, in which GitHub's instants are equal. It is arbitrary, but the same
    for every order of arrival."""
    content = digest(fact.title, fact.body, fact.labels, fact.draft, fact.branch, fact.base, fact.sha)
    return f"{fact.state != OPEN:d}{len(fact.labels):03d}{content}"


def workflow_name(run: Mapping[str, Any]) -> str:
    path = line(run.get("path"), NAME_LENGTH_MAX).partition("@")[0]
    return path.removeprefix(WORKFLOWS_FOLDER) or line(run.get("name"), NAME_LENGTH_MAX)


def branch_name(repository: str, ref: object, of: object) -> str:
    name = line(ref, NAME_LENGTH_MAX)
    # A fork that was deleted has no name.
    full_name = repository_name(as_object(of).get("full_name")) or "unknown/"
    return name if not name or full_name == repository else f"{full_name.partition('/')[0]}:{name}"


def _cut(key: str, length_max: int, mark: str) -> str:
    """The key; of one that is too long the beginning and a digest, so that two of them stay different."""
    return key if len(key) <= length_max else f"{key[: length_max - 13]}{mark}{digest(key)}"


def safe_url(given: object) -> str:
    found = line(given, SUBJECT_LENGTH_MAX)
    return found if found.startswith(("https://", "http://")) else ""


def as_number(given: object) -> int:
    """A number from 1 on; 0 for anything else."""
    is_number = isinstance(given, int) and not isinstance(given, bool) and 0 < given < NUMBER_MAX
    return given if is_number and isinstance(given, int) else 0


def as_object(given: object) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def as_list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []
