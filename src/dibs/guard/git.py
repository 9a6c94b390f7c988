"""The questions that the guard asks git, by running it in the current folder.

Inside a hook, git's variables name the repository, the index of the commit, and the objects of a push that is not
accepted yet; git inherits them from here.
"""

from __future__ import annotations

import os
import time

from dibs.errors import Invalid
from dibs.guard import trailers
from dibs.system.git import Git, GitNotStarted
from dibs.system.git import GitFailed as CommandFailed
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dibs.guard.trailers import Trailer

#: How many commits that name claims are judged at once.
COMMITS_MAX = 100_000
#: Git cuts a message here: the diff of `-v` follows.
SCISSORS = "------------------------ >8 ------------------------"
#: Begins no line of a message.
_NO_COMMENT = "\x01"
#: An author's date that is so old is not that of a new commit.
AMENDED_SECONDS = 2.0


class GitFailed(Invalid):
    """Git refused a command; the message is its own."""


class GitUnavailable(GitFailed):
    """Git did not run, or not to its end."""


class NotARange(GitFailed):
    """What was given does not name commits."""


class TooMany(GitFailed):
    """More commits are to be judged than are read into memory."""


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


def run(*words: str, input: str = "", as_user: bool = False) -> str:
    git = Git(in_hook=True, as_user=as_user)
    try:
        answer = git.run(*words, feed=[input.encode("utf-8", "surrogateescape")])
    except GitNotStarted as error:
        raise GitUnavailable(error.strerror, field="git") from error
    except CommandFailed as failed:
        raise (GitUnavailable if failed.code is None else GitFailed)(str(failed), field="git") from failed
    return answer.decode("utf-8", "surrogateescape")


def line(*words: str) -> str:
    return run(*words).rstrip("\n")


def configure(*words: str) -> str:
    """Read or change settings: those that the user has, also where other commands have safer ones."""
    return run("config", *words, as_user=True).rstrip("\n")


def setting(name: str, *options: str) -> str | None:
    try:
        return configure(*options, "--get", name)
    except GitFailed:
        return None


def resolve(range: str) -> Revisions:
    """The revisions of a range such as `main..topic`."""
    problem = f"{range!r} is not a range of commits; write it as A..B"
    if not range or range.startswith("-"):
        raise NotARange(problem, field="range")
    try:
        found = run("rev-parse", "--revs-only", range, "--").split()
    except GitUnavailable:
        raise
    except GitFailed as error:
        raise NotARange(error.message, field="range") from error
    if not found:
        raise NotARange(problem, field="range")
    return Revisions(
        included=tuple(one for one in found if one[0] != "^"),
        excluded=tuple(one[1:] for one in found if one[0] == "^"),
    )


def existing_commits(names: Sequence[str]) -> tuple[str, ...]:
    """The commits that this repository has, of the refs and objects that a push names: zeros stand for a ref that does
    not exist, and a tag may name a file."""
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    answers = run("cat-file", "--batch-check", "--buffer", input=asked).splitlines()
    return tuple(name for name, answer in zip(names, answers, strict=True) if answer.split()[1:2] == ["commit"])


def commits(revisions: Revisions) -> list[Commit]:
    """The commits whose messages name claims. The messages are read as the hooks wrote them: an encoding such as
    UTF-16, in the configuration or in a commit, would hide the trailers."""
    named = ("-i", "-F", f"--grep={trailers.NAME}", f"--max-count={COMMITS_MAX + 1}")
    records = _rev_list(revisions, *named, "--header", "--encoding=none").split("\0")[:-1]
    if len(records) > COMMITS_MAX:
        raise TooMany(f"over {COMMITS_MAX:,} commits name claims; push, or verify, a part of them first", field="git")
    return [commit for commit in map(_commit, records) if commit.trailers]


def _commit(record: str) -> Commit:
    """A commit as `rev-list --header` prints it: its id, its header, an empty line, and the message, indented."""
    head, _, body = record.partition("\n\n")
    first, _, _ = "\n".join(line.strip() for line in body.split("\n")).strip().partition("\n\n")
    return Commit(sha=head.partition("\n")[0], subject=first.replace("\n", " "), trailers=trailers.of(body))


def parents(revisions: Revisions) -> Iterator[list[str]]:
    """Each commit with its parents, after all commits that descend from it."""
    return map(str.split, _rev_list(revisions, "--topo-order", "--parents").splitlines())


def cut_off(ranges: Iterable[Revisions]) -> str | None:
    """A commit in one of the ranges whose parents a shallow clone left out, if there is one."""
    # Git names another file while it receives a push from a shallow clone.
    path = os.environ.get("GIT_SHALLOW_FILE") or line("rev-parse", "--git-path", "shallow")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        ends = set(file.read().split())
    return next((sha for one in ranges for sha in _rev_list(one).split() if sha in ends), None)


def staged_files() -> list[str]:
    """The files that the commit changes, relative to the top of the work tree. In a merge, those that differ from both
    sides: the others were committed before."""
    diff = ("diff", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative")
    files = run(*diff).split("\0")[:-1]
    if not files or not os.path.exists(line("rev-parse", "--git-path", "MERGE_HEAD")):
        return files
    merged = set(run(*diff, "MERGE_HEAD").split("\0"))
    return [file for file in files if file in merged]


def add_trailers(path: str, lines: Sequence[str], *, comments: bool) -> None:
    """Add lines to the trailers of the message in a file; git finds their place above its own comments."""
    settings = ["trailer.separators=:", "trailer.where=end", "trailer.ifmissing=add", "trailer.ifexists=add"]
    settings += [] if comments else [f"core.commentChar={_NO_COMMENT}"]
    options = [word for one in settings for word in ("-c", one)]
    given = [word for one in lines for word in ("--trailer", one)]
    run(*options, "interpret-trailers", "--in-place", "--no-divider", *given, path)


def above_scissors(message: str) -> str:
    at = message.find(SCISSORS)
    return message if at < 0 else message[: message.rfind("\n", 0, at) + 1]


def strips_comments(*, was_edited: bool) -> bool:
    """Whether git removes comments from the message. Without an editor it does not, unless it is told to: in
    `-m "#42 fix"`, that is the subject. Git tells hooks that no editor is used by naming the editor `:`."""
    mode = setting("commit.cleanup") or "default"
    return mode == "strip" or (mode == "default" and (was_edited or os.environ.get("GIT_EDITOR") != ":"))


def is_unwritten(message: str, *, comments: bool, template: bool) -> bool:
    """Whether git would abort the commit because of its message: there is nothing in it, or only the template, but
    sign-offs. `comments` are left out, if git leaves them out; `template` is looked at where one can have been used."""
    options = ("--strip-comments",) if comments else ()
    rest = run("stripspace", *options, input=message)
    if template and (path := setting("commit.template", "--type=path")) is not None and os.path.isfile(path):
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            rest = rest.removeprefix(run("stripspace", *options, input=file.read()))
    return all(not row.strip() or row.startswith("Signed-off-by: ") for row in rest.split("\n"))


def is_pick() -> bool:
    """Whether git makes the commit again that somebody made before, in a rebase or a cherry-pick."""
    if os.path.exists(line("rev-parse", "--git-path", "rebase-apply/rebasing")):
        return True
    return is_commit("CHERRY_PICK_HEAD")


def amended_message() -> str:
    """The message of the commit that is amended; empty if none is, as far as hooks can know.

    Git does not tell them. Only the author's date is that of the commit before: it is older than this command.
    """
    date, _, _ = os.environ.get("GIT_AUTHOR_DATE", "").removeprefix("@").partition(" ")
    if not date.isdigit() or int(date) > time.time() - AMENDED_SECONDS or not is_commit("HEAD"):
        return ""
    author = "\n".join(os.environ.get(f"GIT_AUTHOR_{name}", "") for name in ("NAME", "EMAIL"))
    found = run("log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%an%n%ae%n%at%n%B", "HEAD")
    return found.removeprefix(f"{author}\n{date}\n") if found.startswith(f"{author}\n{date}\n") else ""


def squashed_messages() -> str:
    """The messages that `git merge --squash` collected for the next commit; empty if there are none."""
    path = line("rev-parse", "--git-path", "SQUASH_MSG")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def is_commit(name: str) -> bool:
    try:
        return bool(line("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"))
    except GitFailed:
        return False


def symbolic_ref(name: str) -> str | None:
    """The ref that a symbolic ref such as HEAD names; it may not exist."""
    try:
        return line("symbolic-ref", "--quiet", name)
    except GitUnavailable:
        raise
    except GitFailed:
        return None


def remotes(remote: str, url: str) -> tuple[str, ...]:
    """The names of the remote that is pushed to. A push to a URL names none: those with this URL count."""
    rows = [row.partition("\t") for row in run("remote", "-v").split("\n")[:-1]]
    urls = {_plain_url(one) for one in (remote, url)}
    same = {name for name, _, row in rows if name == remote}
    return tuple(sorted(same or {name for name, _, row in rows if _plain_url(row.rpartition(" (")[0]) in urls}))


def _plain_url(url: str) -> str:
    """A URL without what does not change its meaning; a path of this machine as git resolves it."""
    plain = url.removeprefix("file://").rstrip("/").removesuffix(".git").rstrip("/")
    return plain if "://" in plain else os.path.realpath(plain)


def _rev_list(revisions: Revisions, *options: str) -> str:
    given = [*revisions.included, *(f"^{one}" for one in revisions.excluded)]
    return run("rev-list", *options, "--stdin", *revisions.options, input="".join(f"{one}\n" for one in given))
