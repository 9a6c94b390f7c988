"""The questions that the guard asks git, by running it in the current folder.

Inside a hook, git's variables name the repository, the index of the commit, and the objects of a push that is not
accepted yet; git inherits them from here.
"""

from __future__ import annotations

import os
import subprocess

from dibs.errors import Invalid
from dibs.guard import trailers
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dibs.guard.trailers import Trailer

#: How long one command may take; the longest reads the history of a large repository.
SECONDS_MAX = 60.0
_FORMAT = "%x00%H%x00%s%x00%B%x00"
_FIELDS = 4
#: Git cuts a message here.
_SCISSORS = "------------------------ >8 ------------------------"


class GitFailed(Invalid):
    """Git refused a command; the message is its own."""


class Revisions(Value):
    """The commits that can be reached from `included` and not from `excluded`. `options` of rev-list exclude more."""

    included: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class Commit(Value):
    """A commit whose message names claims."""

    sha: str
    subject: str
    trailers: tuple[Trailer, ...]


def run(*words: str, input: str = "") -> str:
    try:
        done = subprocess.run(
            ["git", *words],
            input=input.encode("utf-8", "surrogateescape"),
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed, or not in the PATH", field="git") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {words[0]} took over {SECONDS_MAX:g} s", field="git") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit {done.returncode}"]
        raise GitFailed(f"git {words[0]}: {lines[0].removeprefix('fatal: ')}", field="git")
    return done.stdout.decode("utf-8", "surrogateescape")


def line(*words: str) -> str:
    return run(*words).rstrip("\n")


def setting(name: str, *options: str) -> str | None:
    try:
        return line("config", *options, "--get", name)
    except GitFailed:
        return None


def resolve(range: str) -> Revisions:
    """The revisions of a range such as `main..topic`."""
    if not range or range.startswith("-"):
        raise GitFailed(f"{range!r} is not a range of commits; write it as A..B", field="range")
    found = run("rev-parse", "--revs-only", range, "--").split()
    if not found:
        raise GitFailed(f"{range!r} is not a range of commits; write it as A..B", field="range")
    return Revisions(
        included=tuple(one for one in found if one[0] != "^"),
        excluded=tuple(one[1:] for one in found if one[0] == "^"),
    )


def existing_commits(shas: Sequence[str]) -> tuple[str, ...]:
    """The commits that this repository has, of objects that a push names: zeros stand for a ref that does not exist,
    and a tag may name a file."""
    asked = "".join(f"{sha}^{{commit}}\n" for sha in shas)
    answers = run("cat-file", "--batch-check", "--buffer", input=asked).splitlines()
    return tuple(sha for sha, answer in zip(shas, answers, strict=True) if answer.split()[1:2] == ["commit"])


def commits(revisions: Revisions) -> list[Commit]:
    """The commits whose messages name claims."""
    options = ("-F", f"--grep={trailers.NAME}:", f"--format={_FORMAT}")
    parts = _rev_list(revisions, *options).split("\0")
    rows = zip(*[iter(parts[: len(parts) // _FIELDS * _FIELDS])] * _FIELDS, strict=True)
    found = [Commit(sha=sha, subject=subject, trailers=trailers.of(body)) for _, sha, subject, body in rows]
    return [commit for commit in found if commit.trailers]


def ancestors(shas: Iterable[str], revisions: Revisions) -> set[str]:
    """The given commits and their ancestors, as far as these are among the revisions."""
    return set(_rev_list(revisions.replace(included=tuple(shas))).split())


def staged_files() -> list[str]:
    """The files that the commit changes, relative to the top of the work tree. In a merge, those that differ from both
    sides: the others were committed before."""
    diff = ("diff", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative")
    files = run(*diff).split("\0")[:-1]
    if not files or not os.path.exists(line("rev-parse", "--git-path", "MERGE_HEAD")):
        return files
    merged = set(run(*diff, "MERGE_HEAD").split("\0"))
    return [file for file in files if file in merged]


def add_trailers(path: str, lines: Sequence[str]) -> None:
    """Add lines to the trailers of the message in a file; git finds their place above its own comments."""
    settings = ("trailer.separators=:", "trailer.where=end", "trailer.ifmissing=add", "trailer.ifexists=add")
    options = [word for one in settings for word in ("-c", one)]
    given = [word for one in lines for word in ("--trailer", one)]
    run(*options, "interpret-trailers", "--in-place", "--no-divider", *given, path)


def is_empty(message: str) -> bool:
    """Whether git would abort the commit because of its message: nothing but comments, above the diff of `-v`."""
    return not run("stripspace", "--strip-comments", input=message.partition(_SCISSORS)[0]).strip()


def tracked_remotes(remote: str) -> tuple[str, ...]:
    """The options of rev-list that exclude what the remote is known to have; for a remote that is only a URL, what any
    remote is known to have."""
    known: Collection[str] = run("remote").split("\n")
    return ("--not", f"--remotes={remote}" if remote in known else "--remotes")


def _rev_list(revisions: Revisions, *options: str) -> str:
    given = [*revisions.included, *(f"^{one}" for one in revisions.excluded)]
    return run("rev-list", *options, "--stdin", *revisions.options, input="".join(f"{one}\n" for one in given))
