"""What the hooks of git do. Git passes them arguments, and pushed refs as lines on stdin."""

from __future__ import annotations

from dibs.guard import authorship, git, refs, trailers
from dibs.guard.refs import Update

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dibs.board import Board
    from dibs.guard.git import Revisions
    from dibs.guard.trailers import Trailer
    from dibs.guard.verify import Refused

#: What `prepare-commit-msg` is told about a message that somebody gave, so that the trailer can be added before an
#: editor opens. Any other message is still to be written: if it stays empty, git aborts the commit, and a trailer would
#: hide that. `commit-msg` adds the trailer then.
GIVEN = frozenset({"message", "merge", "squash", "commit"})
#: A message that the editor has left, and one of a patch that is applied.
FINAL, PATCH = "final", "patch"
#: An option of `git push`, for a person who decides that lost commits may pass: `-o dibs-pass=REASON`.
PUSH_OPTION = "dibs-pass="
#: The check that a pass adds to the lost run. Its state is one short line.
CHECK = "guard {commit}"
STATE_LENGTH_MAX = 128
_MESSAGE_BYTES_MAX = 64 << 20


def add_trailers(path: str, runs: Callable[[Sequence[str]], tuple[Trailer, ...]], source: str) -> None:
    """Add the trailers of the runs that the files of the commit belong to. `source` says where the message comes from:
    as `prepare-commit-msg` is told, or `FINAL`, or `PATCH`."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read(_MESSAGE_BYTES_MAX)
    message = git.above_scissors(text)
    comments = source != PATCH and git.strips_comments(was_edited=source == FINAL)
    if git.is_unwritten(message, comments=comments, template=source == FINAL):
        return
    there = trailers.of(message)
    kept: tuple[Trailer, ...] = ()
    if not there and git.is_pick():
        return
    if not there and source == "message":
        there = kept = trailers.of(git.squashed_messages() or git.amended_message())
    lines = [trailers.line(one) for one in (*kept, *trailers.missing(there, runs(git.staged_files())))]
    if not lines:
        return
    if not text.endswith("\n"):
        with open(path, "a") as file:
            file.write("\n")  # without it, git joins the trailer to the subject
    git.add_trailers(path, lines, comments=comments)


def reserved_files(
    board: Callable[[], AbstractContextManager[Board]], session: str | None
) -> list[authorship.Reserved]:
    files = git.staged_files()
    if not files:
        return []
    with board() as opened:
        return authorship.reserved_files(opened, session, files)


def pushed(lines: str, remote: str, url: str) -> tuple[Revisions, ...]:
    """What a push brings to each ref of a remote, as `pre-push` is told: source, commit, remote ref, commit. A source
    such as `HEAD^{/two words}` is passed as it was typed."""
    found = [line.rsplit(" ", 3) for line in lines.split("\n")]
    # A line break in a source makes lines without refs.
    updates = [Update(ref=one[2], old=one[3], new=one[1]) for one in found if len(one) == 4]
    return refs.pushed(updates, remote, url)


def received(lines: str) -> tuple[Revisions, ...]:
    """What a push brings to each ref of this repository, as `pre-receive` is told: old commit, new commit, ref."""
    found = [line.split(" ", 2) for line in lines.split("\n")[:-1]]
    return refs.received([Update(ref=one[2], old=one[0], new=one[1]) for one in found])


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
