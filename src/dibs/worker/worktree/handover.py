"""What the next holder of an item is told about the work of the last one: branch, changes and output, bounded."""

from __future__ import annotations

import contextlib

from dibs.errors import DibsError
from dibs.sdk.claim_handle import storable
from dibs.worker.worktree.repository import GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.sdk.claim_handle import ClaimHandle
    from dibs.worker.worktree.records import Record
    from dibs.worker.worktree.repository import Repository

#: The name of this data in the `meta` of a note, and in the file of DIBS_PREVIOUS_FILE.
FIELD = "worktree"


def place(record: Record) -> dict[str, Any]:
    """Where the work is."""
    return {
        "branch": record.branch,
        "base": storable(record.base),
        "base_commit": record.base_commit,
        "path": storable(record.path),
        "host": record.host,
    }


def links(record: Record) -> dict[str, Any]:
    """The links of a run in a worktree."""
    return {"branch": record.branch, "base": storable(record.base), "worktree": storable(record.path)}


def summary(repository: Repository, record: Record, output: str, problem: str | None) -> dict[str, Any]:
    """Where the work is, and how far it has come. What git cannot tell is left out."""
    found = place(record) | ({} if problem is None else {"problem": storable(problem)})
    try:
        found["commit"] = repository.commit(f"refs/heads/{record.branch}")
        found["uncommitted"] = repository.changes(record.path)
        found["commits"] = repository.commits_since(record.branch, record.base_commit)
        found["diffstat"] = storable(repository.diffstat(record.path, record.base_commit))
    except GitFailed as error:
        found["problem"] = storable(str(error))
    return found | {"output": storable(output)}


def tell(claim: ClaimHandle, note: str, found: dict[str, Any]) -> None:
    """Leave a note in the run. A claim that is lost meanwhile has no note, and its handler is told by its end."""
    with contextlib.suppress(DibsError):
        claim.session.board.progress(
            claim.item.id, note, session=claim.session.id, token=claim.token, meta={FIELD: found}
        )


def annotate(claim: ClaimHandle, found: dict[str, Any]) -> None:
    """Add links to the run as it begins: its worker may be killed, and its command may end it or leave many notes."""
    with contextlib.suppress(DibsError):
        claim.session.board.annotate(claim.item.id, token=claim.token, session=claim.session.id, links=found)


def note(found: dict[str, Any]) -> str:
    """The same for people, without the output, which is in the reason of the run."""
    since = f"{found['base']} ({found['base_commit'][:10]})"
    first = f"branch {found['branch']}: {_count(found.get('commits'), 'commit')} since {since}"
    if found.get("uncommitted"):
        first += f", {_count(found['uncommitted'], 'uncommitted file')} in {found['path']}"
    return "\n".join(filter(None, [first, found.get("diffstat"), found.get("problem")]))


def _count(number: int | None, noun: str) -> str:
    return f"{'?' if number is None else number} {noun}{'' if number == 1 else 's'}"
