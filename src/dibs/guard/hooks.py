"""What the hooks of git do. Git passes them arguments, and pushed refs as lines on stdin."""

from __future__ import annotations

from dibs.guard import authorship, git, trailers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.board import Board
    from dibs.guard.git import Revisions
    from dibs.guard.trailers import Trailer
    from dibs.guard.verify import Refused

#: What `prepare-commit-msg` is told about a message that somebody gave, so that the trailer can be added before an
#: editor opens. Any other message is still to be written: if it stays empty, git aborts the commit, and a trailer would
#: hide that. `commit-msg` adds the trailer then.
GIVEN = frozenset({"message", "merge", "squash", "commit"})
#: An option of `git push`, for a person who decides that lost commits may pass: `-o dibs-pass=REASON`.
PUSH_OPTION = "dibs-pass="
#: The check that a pass adds to the lost run. Its state is one short line.
CHECK = "guard {commit}"
STATE_LENGTH_MAX = 128
_MESSAGE_BYTES_MAX = 64 << 20


def add_trailers(path: str, runs: Callable[[Sequence[str]], tuple[Trailer, ...]]) -> None:
    """Add the trailers of the runs that the files of the commit belong to."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        message = file.read(_MESSAGE_BYTES_MAX)
    if git.is_empty(message):
        return
    lines = trailers.missing(message, runs(git.staged_files()))
    if lines:
        git.add_trailers(path, lines)


def reserved_files(board: Callable[[], Board], session: str | None) -> list[authorship.Reserved]:
    files = git.staged_files()
    return authorship.reserved_files(board(), session, files) if files else []


def pushed(lines: str, remote: str) -> Revisions | None:
    """The commits that a push brings to a remote, as `pre-push` is told: local ref, commit, remote ref, commit."""
    refs = [line.split() for line in lines.splitlines()]
    included = git.existing_commits([new for _, new, _, _ in refs])
    known = git.existing_commits([old for _, _, _, old in refs])
    return git.Revisions(included=included, excluded=known, options=git.tracked_remotes(remote)) if included else None


def received(lines: str) -> Revisions | None:
    """The commits that a push brings to this repository, as `pre-receive` is told: old commit, new commit, ref."""
    included = git.existing_commits([line.split()[1] for line in lines.splitlines()])
    return git.Revisions(included=included, options=("--not", "--all")) if included else None


def reason_in_push_options(environment: Mapping[str, str]) -> str:
    """Why a person lets lost commits pass, as `pre-receive` is told; empty if no such option was given."""
    count = environment.get("GIT_PUSH_OPTION_COUNT", "0")
    given = [environment.get(f"GIT_PUSH_OPTION_{at}", "") for at in range(int(count) if count.isdigit() else 0)]
    return next((one.removeprefix(PUSH_OPTION) for one in given if one.startswith(PUSH_OPTION)), "")


def record_pass(board: Board, refused: Sequence[Refused], reason: str) -> None:
    """Record on each lost run who let its commit pass, and why. The event names the actor."""
    state = "".join(letter for letter in f"passed: {reason}" if letter.isprintable())[:STATE_LENGTH_MAX]
    for one in refused:
        board.annotate(one.item, token=one.token, checks={CHECK.format(commit=one.commit[:12]): {"state": state}})
