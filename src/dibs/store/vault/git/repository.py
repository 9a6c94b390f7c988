"""What dibs asks of a clone's repository: where it stands, what trees hold, a commit, a fetch, a push.

Beside the person's branches there are refs of our own, `refs/dibs/...`: `base` is the remote's commit that the work
tree was last brought up to, `got` the newest of those that the person's branch has had, `hub` the one that was last
fetched, and each `pending` one that was sent off and of which it is not known whether it arrived.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

from dibs.errors import StoreUnusable
from dibs.files import durable
from dibs.store.vault.git.command import REMOTE_SECONDS, Git, GitFailed, fields
from dibs.store.vault.git.path_policy import why_unfit
from dibs.store.vault.git.repair import is_damage
from dibs.store.vault.safe_fs import FILE_BYTES_MAX
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.store.vault.git.merge import Tree

#: Of all that is in a tree, so many are kept at hand.
LISTINGS_MAX = 6
RELATED_MAX = 1000
#: More commits of unknown fate than this are not remembered: the remote has been away for long.
PENDING_MAX = 100
#: What is larger is no text of a vault.
BLOB_BYTES_MAX = FILE_BYTES_MAX
#: Git's own measure: with more objects than this in files of their own, they are packed.
LOOSE_MAX = 6700
PLAIN = "100644"
#: The names of our own refs, beside the pending ones.
OWN = ("base", "got", "hub")


#: What a remote says when somebody else's push came in between.
_OVERTAKEN = ("cannot lock ref", "failed to lock", "failed to update ref", "incorrect old value", "already exists")


class Rejected(Exception):
    """The remote has moved on, and does not have this commit."""


class Refused(Exception):
    """The remote does not want this commit, and would not want another one: a hook of its, a protected branch."""


class Unreachable(Exception):
    """The remote did not answer. What it was sent may have arrived all the same."""


class Refs(Value):
    """Commits, each none if there is none. `head` is the person's branch."""

    head: str | None = None
    base: str | None = None
    got: str | None = None
    hub: str | None = None
    pending: tuple[str, ...] = ()
    #: The names of the pending ones, the oldest first.
    names: tuple[str, ...] = ()


class Listing(Value):
    """What a commit holds: files that may lie in a vault, and the others as (mode, object, why not)."""

    files: Tree
    modes: dict[str, str]
    unfit: dict[str, tuple[str, str, str]]


EMPTY = Listing(files={}, modes={}, unfit={})


class Repository:
    def __init__(self, git: Git, git_dir: str, branch: str, remote: str, ref: str, algorithm: str) -> None:
        self.git, self.git_dir, self.branch, self.algorithm = git, git_dir, branch, algorithm
        self.common_dir = _common_dir(git_dir)
        self._remote, self._ref = remote, ref
        place = hashlib.sha256(f"{branch}\0{remote}\0{ref}".encode()).hexdigest()[:12]
        self._own = f"refs/dibs/{place}"
        self._skipped = os.path.join(git_dir, f"dibs-skipped-{place}.json")
        self._trailing = os.path.join(git_dir, f"dibs-trailing-{place}")
        self._checked = os.path.join(git_dir, "dibs-checked")
        self._turns = os.path.join(git_dir, f"dibs-turns-{place}")
        self._listings: dict[str, Listing] = {}
        self._related: dict[tuple[str, str], bool] = {}
        self._ident: str | None = None
        self._clone: str | None = None

    def refs(self) -> Refs:
        """Where everything stands; it is checked that the person is on the branch still."""
        answer = self.git.text(
            "for-each-ref", "--format=%(HEAD)%(objectname) %(refname)", f"refs/heads/{self.branch}", f"{self._own}/"
        )
        found: dict[str, str] = {}
        for line in answer.splitlines():
            commit, _, name = line.strip().removeprefix("*").partition(" ")
            found[name] = commit
            if name == f"refs/heads/{self.branch}" and not line.startswith("*"):
                raise Elsewhere(self.branch)
        if f"refs/heads/{self.branch}" not in found:
            self._require_unborn()
        self._require_readable({f"refs/heads/{self.branch}", *(f"{self._own}/{one}" for one in OWN)} - found.keys())
        names = tuple(sorted(name for name in found if name.startswith(f"{self._own}/pending/")))
        return Refs(
            head=found.get(f"refs/heads/{self.branch}"),
            base=found.get(f"{self._own}/base"),
            got=found.get(f"{self._own}/got"),
            hub=found.get(f"{self._own}/hub"),
            pending=tuple(found[name] for name in names),
            names=names,
        )

    def _require_unborn(self) -> None:
        if _checked_out(self.git, self.git_dir) != self.branch:
            raise Elsewhere(self.branch)

    def _require_readable(self, missing: Iterable[str]) -> None:
        """Git passes over a ref that names nothing, as if there were none."""
        for name in missing:
            if os.path.isfile(os.path.join(self.common_dir, name)):
                raise GitFailed("for-each-ref", None, f"broken ref {name}")

    def forget(self) -> None:
        """What was read before is not to be relied on."""
        self._listings.clear()
        self._related.clear()

    # Reading

    def listing(self, commit: str | None) -> Listing:
        if commit is None:
            return EMPTY
        if commit not in self._listings:
            self._at_hand(commit, _listed(self.git.run("ls-tree", "-r", "-z", "--full-tree", commit)))
        return self._listings[commit]

    def _at_hand(self, commit: str, listing: Listing) -> None:
        while len(self._listings) >= LISTINGS_MAX:
            del self._listings[next(iter(self._listings))]
        self._listings[commit] = listing

    def is_ancestor(self, one: str, other: str) -> bool:
        if one == other:
            return True
        if (one, other) not in self._related:
            if len(self._related) >= RELATED_MAX:
                self._related.clear()
            self._related[one, other] = self.git.agrees("merge-base", "--is-ancestor", one, other)
        return self._related[one, other]

    def merge_bases(self, one: str | None, other: str | None) -> list[str]:
        if one is None or other is None:
            return []
        if one == other:
            return [one]
        try:
            return self.git.text("merge-base", "--all", one, other).split()
        except GitFailed as failed:
            if failed.code == 1:
                return []
            raise

    def newest(self, commits: Iterable[str]) -> list[str]:
        """Those that are no ancestors of others."""
        one_each = sorted(set(commits))
        return one_each if len(one_each) < 2 else self.git.text("merge-base", "--independent", *one_each).split()

    def had(self, since: str | None, until: str | None) -> set[tuple[str, str]]:
        """Every path, with each blob that it had in any commit from one to another."""
        if until is None:
            return set()
        words = ("log", "-m", "--raw", "--no-abbrev", "--no-renames", "-z", "--format=")
        parts = fields(self.git.run(*words, until, *([] if since is None else [f"^{since}"])))
        found = set(self.listing(since).files.items())
        for about, name in zip(parts, parts, strict=False):
            path = name.decode(errors="surrogateescape")
            found |= {(path, blob) for blob in about.decode().split()[2:4]}
        return found

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        asked = sorted(set(blobs))
        if not asked:
            return {}
        answer = self.git.run("cat-file", "--batch-check", feed=["\n".join([*asked, ""]).encode()])
        words = [line.split() for line in answer.decode().splitlines()]
        for name, kind, *_ in words:
            if kind == "missing":
                raise _missing(name)
        return {name: int(size) for name, kind, size in words if kind == "blob"}

    def texts(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """What these blobs hold, their sizes looked at before."""
        asked = sorted(set(blobs))
        if not asked:
            return {}
        answer = memoryview(self.git.run("cat-file", "--batch", feed=["\n".join([*asked, ""]).encode()]))
        found, at = {}, 0
        for blob in asked:
            end = bytes(answer[at : at + 200]).index(b"\n") + at
            name, kind, *sizes = bytes(answer[at:end]).decode().split()
            if kind == "missing":
                raise _missing(name)
            size = int(sizes[0])
            found[blob] = bytes(answer[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return found

    # Writing

    def commit(
        self,
        parents: list[str],
        tree: Tree,
        extra: dict[str, tuple[str, str] | None],
        message: str,
        data: Callable[[str, str], bytes],
    ) -> tuple[str, str]:
        """A commit of this tree and of `extra` entries (mode and object; none: without it), and its pending ref."""
        began = self.listing(parents[0] if parents else None)
        known = {blob for commit in parents for blob in self.listing(commit).files.values()}
        modes = {path: mode for commit in reversed(parents) for path, mode in self.listing(commit).modes.items()}
        name = self._pending()

        def stream() -> Iterator[bytes]:
            said = message.encode()
            yield f"commit {name}\nmark :1\ncommitter {self._who()}\ndata {len(said)}\n".encode() + said + b"\n"
            for word, parent in zip(["from", *["merge"] * len(parents)], parents, strict=False):
                yield f"{word} {parent}\n".encode()
            for path in began.files.keys() - tree.keys():
                yield f"D {_quoted(path)}\n".encode()
            for path, entry in extra.items():
                place = _quoted(path)
                yield (f"D {place}\n" if entry is None else f"M {entry[0]} {entry[1]} {place}\n").encode()
            for path, blob in tree.items():
                if began.files.get(path) == blob:
                    continue
                mode, place = modes.get(path, PLAIN), _quoted(path)
                if blob in known:
                    yield f"M {mode} {blob} {place}\n".encode()
                else:
                    text = data(path, blob)
                    yield f"M {mode} inline {place}\ndata {len(text)}\n".encode() + text + b"\n"
            yield b"get-mark :1\ndone\n"

        answer = self.git.run("fast-import", "--quiet", "--force", "--done", "--date-format=now", feed=stream())
        commit = answer.decode().strip()
        self._related.update({(parent, commit): True for parent in parents})
        if not extra:
            self._at_hand(commit, Listing(files=dict(tree), modes={**modes, **began.modes}, unfit=began.unfit))
        return commit, name

    def noted(
        self,
        *,
        base: str | None = None,
        got: str | None = None,
        hub: str | None = None,
        drop: Iterable[str] = (),
    ) -> str:
        """What to tell git so that refs of our own move; for `note`, or together with others."""
        to = (("base", base), ("got", got), ("hub", hub))
        moves = "".join(f"update {self._own}/{name} {at}\n" for name, at in to if at)
        return moves + "".join(f"delete {name}\n" for name in drop)

    def put_base(self, commit: str | None) -> None:
        self.note(f"delete {self._own}/base\n" if commit is None else self.noted(base=commit))

    def note(self, moves: str) -> None:
        if moves:
            self.git.run("update-ref", "--stdin", feed=[moves.encode()])

    def skipped(self) -> set[str]:
        """Paths that stand in `base` and could not be written here: that they are not on disk means nothing."""
        try:
            with open(self._skipped, encoding="utf-8") as file:
                return set(json.load(file))
        except FileNotFoundError:
            return set()

    def skip(self, paths: Iterable[str]) -> None:
        """Remember them, before `base` moves to where they stand."""
        skipped = set(paths)
        if skipped != self.skipped():
            with open(f"{self._skipped}.new", "w", encoding="utf-8") as file:
                json.dump(sorted(skipped), file)
                file.flush()
                durable.sync(file.fileno())
            os.replace(file.name, self._skipped)

    def trails(self) -> bool:
        """Whether the person's branch may not have got to `base` yet."""
        return os.path.exists(self._trailing)

    def trail(self, whether: bool) -> None:
        """Remember it, before `base` moves."""
        if whether != self.trails():
            if whether:
                os.close(os.open(self._trailing, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(self._trailing)

    def turns(self) -> tuple[int, int] | None:
        """What was last put here about this clone's pushes in a row, by whichever process; none, if nothing was."""
        try:
            with open(self._turns, encoding="utf-8") as file:
                count, most = map(int, file.read().split())
        except (FileNotFoundError, ValueError):
            return None
        return count, most

    def put_turns(self, count: int, most: int) -> None:
        with open(self._turns, "w", encoding="utf-8") as file:
            file.write(f"{count} {most}\n")

    def remember(self, commit: str) -> str:
        """Note a commit of the person's as pending; the name of the note."""
        name = self._pending()
        self.git.run("update-ref", name, commit)
        return name

    def _pending(self) -> str:
        """A name for one, after those of all before it."""
        return f"{self._own}/pending/{time.time_ns():020d}-{os.urandom(4).hex()}"

    def clone(self) -> str:
        """A name for this clone that no other has, and none that was copied from it."""
        if self._clone is None:
            path = os.path.join(self.git_dir, "dibs-clone")
            try:
                with durable.NewFile(path) as new, open(new, "w", encoding="utf-8") as file:
                    file.write(os.urandom(16).hex())
            except FileExistsError:
                pass
            with open(path, encoding="utf-8") as file:
                drawn = file.read()
            here = os.stat(self.git_dir).st_ino
            self._clone = hashlib.sha256(f"{drawn} {here}".encode()).hexdigest()[:6]
        return self._clone

    def is_checked(self) -> bool:
        """Whether somebody looked for damage since this machine was started."""
        try:
            with open(self._checked, encoding="utf-8") as file:
                return file.read() == _boot_id()
        except FileNotFoundError:
            return False

    def check(self, whether: bool) -> None:
        """Remember that it was looked at and is whole, or that it is to be looked at."""
        if whether:
            with open(self._checked, "w", encoding="utf-8") as file:
                file.write(_boot_id())
        elif os.path.exists(self._checked):
            os.unlink(self._checked)

    def locks(self) -> list[str]:
        """Locks on all that is written here, if there are any at this moment."""
        names = ("HEAD", "packed-refs", f"refs/heads/{self.branch}")
        paths = [os.path.join(self.common_dir, f"{name}.lock") for name in names]
        own = os.path.join(self.common_dir, self._own)
        paths += [os.path.join(place, name) for place, _, names in os.walk(own) for name in names if ".lock" in name]
        return [path for path in paths if os.path.lexists(path)]

    def tidy(self) -> None:
        """Have git put its objects together, if there are many and nobody else's git does; it does so by itself."""
        try:
            self.git.run("-c", f"gc.auto={LOOSE_MAX}", "gc", "--auto", "--quiet")
        except GitFailed:
            pass  # another one is at it, or the disk is full: whoever needs the room will say so

    # The remote

    def fetch(self, *, again: bool = False) -> None:
        """Have `hub` say what the remote has; with `again`, and have all of it here, whatever is here already."""
        words = (
            *(["--refetch"] if again else []),
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--refmap=",
            "--no-auto-gc",
        )
        try:
            self.git.run("fetch", *words, "--", self._remote, f"+{self._ref}:{self._own}/hub", seconds=REMOTE_SECONDS)
        except GitFailed as failed:
            if "couldn't find remote ref" not in failed.said:
                raise Unreachable(failed.said) from failed
            if self.git.agrees("show-ref", "--verify", "--quiet", f"{self._own}/hub"):
                # It had one: it is about to be moved or restored, or somebody has to push it again.
                raise Unreachable(f"it has no {self._ref} any more; git push brings it back") from failed

    def reach(self) -> None:
        """See that the remote is there."""
        try:
            self.git.run("ls-remote", "--quiet", "--", self._remote, self._ref, seconds=REMOTE_SECONDS)
        except GitFailed as failed:
            raise Unreachable(failed.said) from failed

    def push(self, commit: str, base: str | None) -> None:
        """Have the remote take this commit in the place of `base`, and of no other.

        That it is a fast-forward is not enough: a pull of the person's may have brought what was decided elsewhere
        since, into the past of this commit and behind the back of who made it.
        """
        lease = f"--force-with-lease={self._ref}:{base or ''}"
        words = (lease, "--porcelain", "--quiet", "--no-verify", "--no-signed", "--recurse-submodules=no")
        try:
            self.git.run("push", *words, "--", self._remote, f"{commit}:{self._ref}", seconds=REMOTE_SECONDS)
        except GitFailed as failed:
            if is_damage(failed.said):
                raise
            line = _verdict(failed.output) if failed.code is not None else None
            if line is None:
                raise Unreachable(failed.said) from failed
            told = "; ".join([line, *_of_the_remote(failed.said)])
            if "[rejected]" in line or any(words in line for words in _OVERTAKEN):
                raise Rejected(told) from failed
            raise Refused(told) from failed

    def _who(self) -> str:
        if self._ident is None:
            try:
                self._ident = self.git.text("var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)[0]
            except GitFailed:
                self._ident = "dibs <dibs@localhost>"
        return f"{self._ident} now"


class Elsewhere(Exception):
    """The person has another branch, or none, checked out."""


class Astray(Repository):
    """One that has a remote to ask, and no branch checked out that could be sent there: in a rebase, say. `why`: where
    it is instead, and what to do."""

    def __init__(self, git: Git, git_dir: str, algorithm: str, why: str) -> None:
        super().__init__(git, git_dir, "", "", "", algorithm)
        self.why = why

    def refs(self) -> Refs:
        raise Elsewhere

    def fetch(self, *, again: bool = False) -> None:
        raise Elsewhere


def find(root: str) -> Repository | None:
    """The repository whose work tree is exactly this folder, if its branch has a remote that is to be asked.

    With no branch checked out it is `Astray`, if one of its branches has a remote; and with one that follows none, if
    it was synced before: what is given out there, other clones give out as well.
    """
    if not os.path.lexists(os.path.join(root, ".git")):
        return None
    git = Git(root)
    try:
        inside, git_dir, algorithm = git.text(
            "rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--show-object-format"
        ).splitlines()
        if inside != "true":
            return None
        git.settle(git_dir)
        return _with_its_remote(git, git_dir, algorithm)
    except FileNotFoundError as error:
        raise StoreUnusable("this vault is a git repository, and there is no git: install it", path=root) from error
    except GitFailed as failed:
        raise StoreUnusable(f"this vault's git repository cannot be used: {failed.said}", path=root) from failed


def _with_its_remote(git: Git, git_dir: str, algorithm: str) -> Repository | None:
    settings = _settings(git)
    if settings.get("dibs.sync") == "false":
        return None
    followed = _followed(settings)
    branch = _checked_out(git, git_dir)
    if branch is None:
        return Astray(git, git_dir, algorithm, "on no branch: check one out") if followed else None
    if branch in followed:
        return Repository(git, git_dir, branch, *followed[branch], algorithm)
    if not git.text("for-each-ref", "--count=1", "refs/dibs/"):
        return None
    back = f"check out {' or '.join(sorted(followed))} again, " if followed else ""
    ways = f"{back}have it follow one with git push -u, or go on alone with git config dibs.sync false"
    return Astray(git, git_dir, algorithm, f"on the branch {branch}, which follows none of a remote: {ways}")


def _checked_out(git: Git, git_dir: str) -> str | None:
    """The branch that is checked out, if one is. Git does not say if the branch's own ref cannot be read."""
    with open(os.path.join(git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
        said = file.read().strip()
    if said == "ref: refs/heads/.invalid":
        # Of a repository that keeps its refs in tables.
        found = git.text("symbolic-ref", "--quiet", "HEAD") if git.agrees("symbolic-ref", "--quiet", "HEAD") else ""
        said = f"ref: {found}"
    return said.removeprefix("ref: refs/heads/") if said.startswith("ref: refs/heads/") else None


def _followed(settings: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The remote, and the ref there, that each branch follows which follows one."""
    branches = [name.removeprefix("branch.").removesuffix(".merge") for name in settings if name.endswith(".merge")]
    remotes = {branch: settings.get(f"branch.{branch}.remote", ".") for branch in branches}
    return {branch: (at, settings[f"branch.{branch}.merge"]) for branch, at in remotes.items() if at != "."}


def _settings(git: Git) -> dict[str, str]:
    try:
        answer = git.run("config", "-z", "--get-regexp", r"^branch\..*\.(remote|merge)$")
    except GitFailed as failed:
        if failed.code != 1:
            raise
        answer = b""
    found = dict(part.decode(errors="replace").partition("\n")[::2] for part in fields(answer))
    if not git.agrees("config", "--type=bool", "--get", "dibs.sync"):
        return found
    return {**found, "dibs.sync": git.text("config", "--type=bool", "--get", "dibs.sync")}


def _listed(answer: bytes) -> Listing:
    files: Tree = {}
    modes: dict[str, str] = {}
    unfit: dict[str, tuple[str, str, str]] = {}
    for part in fields(answer):
        about, _, name = part.partition(b"\t")
        mode, _, blob = about.decode().split()
        path = name.decode(errors="surrogateescape")
        why = why_unfit(path, mode)
        if why is not None:
            unfit[path] = (mode, blob, why)
            continue
        files[path] = blob
        if mode != PLAIN:
            modes[path] = mode
    return Listing(files=files, modes=modes, unfit=unfit)


def _common_dir(git_dir: str) -> str:
    """Where objects and refs lie: elsewhere, if this is one of several work trees."""
    try:
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            return os.path.realpath(os.path.join(git_dir, file.read().strip()))
    except OSError:
        return git_dir


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read()
    except OSError:
        return f"process {os.getpid()}"  # it is looked at once by each


def _missing(name: str) -> GitFailed:
    return GitFailed("cat-file", None, f"missing object {name}")


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _verdict(answer: bytes) -> str | None:
    """What became of the one ref that was pushed, if the remote said no."""
    for line in answer.decode(errors="replace").splitlines():
        if line.startswith("!") and ("[rejected]" in line or "[remote rejected]" in line):
            return "".join(letter for letter in line.split("\t")[-1] if letter.isprintable())
    return None


def _of_the_remote(said: str) -> list[str]:
    """Its own words, among those of the git here."""
    return [part.removeprefix("remote: ").strip() for part in said.split("; ") if part.startswith("remote: ")]
