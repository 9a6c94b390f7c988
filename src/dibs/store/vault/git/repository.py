"""A clone's repository: its refs, its trees and blobs, commits, fetch and push.

dibs keeps refs of its own, `refs/dibs/...`: `base` is the remote's commit that the work tree was last brought up to,
`got` the newest of these that the user's branch has contained, `hub` the commit that was last fetched, and each
`pending` ref a commit that was pushed without a known result.
"""

from __future__ import annotations

import hashlib
import os
import time

from dibs.store.vault.git.clone_state import CloneState
from dibs.store.vault.git.merge import EMPTY, PLAIN, Listing, parse_listing
from dibs.store.vault.git.repair import is_damage
from dibs.store.vault.safe_fs import FILE_BYTES_MAX
from dibs.system import progress
from dibs.system.git import REMOTE_SECONDS, Git, GitFailed, fields
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.store.vault.git.merge import Tree

#: The steps of a sync that are reported: read the files, fetch, merge, push, write the files.
SYNC_STEPS = 5
#: How many listings of trees, and how many answers about ancestors, are cached.
LISTINGS_MAX = 6
RELATED_MAX = 1000
BLOB_BYTES_MAX = FILE_BYTES_MAX
#: Git's own limit: more loose objects than this are packed.
LOOSE_MAX = 6700
#: The names of the refs of dibs, beside the pending ones.
OWN = ("base", "got", "hub")

#: The messages of a remote that accepted another clone's push first.
_OVERTAKEN = ("cannot lock ref", "failed to lock", "failed to update ref", "incorrect old value", "already exists")


class Rejected(Exception):
    """The remote has moved on, and has not accepted this commit."""


class Refused(Exception):
    """The remote does not accept pushes at all: a hook refuses them, or the branch is protected."""


class Unreachable(Exception):
    """The remote did not answer. A push may have arrived nevertheless."""


class WrongBranch(Exception):
    """The user has checked out another branch, or none."""


class Refs(Value):
    """Commits, or None. `head` is the user's branch. `pending_names` are the refs of `pending`, the oldest first."""

    head: str | None = None
    base: str | None = None
    got: str | None = None
    hub: str | None = None
    pending: tuple[str, ...] = ()
    pending_names: tuple[str, ...] = ()


class Repository:
    def __init__(self, git: Git, git_dir: str, branch: str, remote: str, ref: str, algorithm: str) -> None:
        self.git, self.git_dir, self.branch, self.algorithm = git, git_dir, branch, algorithm
        self.common_dir = _common_dir(git_dir)
        self._remote, self._ref = remote, ref
        upstream = hashlib.sha256(f"{branch}\0{remote}\0{ref}".encode()).hexdigest()[:12]
        self._own = f"refs/dibs/{upstream}"
        self.state = CloneState(git_dir, upstream)
        self._listings: dict[str, Listing] = {}
        self._related: dict[tuple[str, str], bool] = {}
        self._ident: str | None = None

    def refs(self) -> Refs:
        """All refs; WrongBranch if the user is no longer on the branch."""
        answer = self.git.text(
            "for-each-ref", "--format=%(HEAD)%(objectname) %(refname)", f"refs/heads/{self.branch}", f"{self._own}/"
        )
        found: dict[str, str] = {}
        for line in answer.splitlines():
            commit, _, name = line.strip().removeprefix("*").partition(" ")
            found[name] = commit
            if name == f"refs/heads/{self.branch}" and not line.startswith("*"):
                raise WrongBranch(self.branch)
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
            pending_names=names,
        )

    def _require_unborn(self) -> None:
        if checked_out_branch(self.git, self.git_dir) != self.branch:
            raise WrongBranch(self.branch)

    def _require_readable(self, missing: Iterable[str]) -> None:
        """Git ignores a broken ref as if it did not exist."""
        for name in missing:
            if os.path.isfile(os.path.join(self.common_dir, name)):
                raise GitFailed("for-each-ref", None, f"broken ref {name}")

    def forget(self) -> None:
        """Clear the caches."""
        self._listings.clear()
        self._related.clear()

    # Reading

    def listing(self, commit: str | None) -> Listing:
        if commit is None:
            return EMPTY
        if commit not in self._listings:
            self._cache_listing(commit, parse_listing(self.git.run("ls-tree", "-r", "-z", "--full-tree", commit)))
        return self._listings[commit]

    def _cache_listing(self, commit: str, listing: Listing) -> None:
        while len(self._listings) >= LISTINGS_MAX:
            del self._listings[next(iter(self._listings))]
        self._listings[commit] = listing

    def is_ancestor(self, one: str, other: str) -> bool:
        if one == other:
            return True
        if (one, other) not in self._related:
            if len(self._related) >= RELATED_MAX:
                self._related.clear()
            self._related[one, other] = self.git.succeeds("merge-base", "--is-ancestor", one, other)
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
        """The commits that are not ancestors of others."""
        unique = sorted(set(commits))
        return unique if len(unique) < 2 else self.git.text("merge-base", "--independent", *unique).split()

    def history(self, since: str | None, until: str | None) -> set[tuple[str, str]]:
        """Every path, with each blob that it had in any commit from `since` to `until`."""
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
        """The contents of these blobs, whose sizes were checked before."""
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

    def texts_up_to(self, bytes_max: int, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of the blobs among these that are not larger."""
        return self.texts(blob for blob, size in self.sizes(blobs).items() if size <= bytes_max)

    # Writing

    def commit(
        self,
        parents: list[str],
        tree: Tree,
        extra: dict[str, tuple[str, str] | None],
        message: str,
        data: Callable[[str, str], bytes],
    ) -> tuple[str, str]:
        """Make a commit of a tree, changed by `extra` entries (mode and object; None: removed); return the commit and
        its pending ref. `data` gives the content of a blob that is new."""
        began = self.listing(parents[0] if parents else None)
        known = {blob for commit in parents for blob in self.listing(commit).files.values()}
        modes = {path: mode for commit in reversed(parents) for path, mode in self.listing(commit).modes.items()}
        name = self._new_pending_name()

        def stream() -> Iterator[bytes]:
            text = message.encode()
            yield f"commit {name}\nmark :1\ncommitter {self._committer()}\ndata {len(text)}\n".encode() + text + b"\n"
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
                    content = data(path, blob)
                    yield f"M {mode} inline {place}\ndata {len(content)}\n".encode() + content + b"\n"
            yield b"get-mark :1\ndone\n"

        answer = self.git.run("fast-import", "--quiet", "--force", "--done", "--date-format=now", feed=stream())
        commit = answer.decode().strip()
        self._related.update({(parent, commit): True for parent in parents})
        if not extra:
            self._cache_listing(commit, Listing(files=dict(tree), modes={**modes, **began.modes}, unfit=began.unfit))
        return commit, name

    def ref_updates(
        self,
        *,
        base: str | None = None,
        got: str | None = None,
        hub: str | None = None,
        drop: Iterable[str] = (),
    ) -> str:
        """The commands for `git update-ref` that move the refs of dibs."""
        to = (("base", base), ("got", got), ("hub", hub))
        moves = "".join(f"update {self._own}/{name} {at}\n" for name, at in to if at)
        return moves + "".join(f"delete {name}\n" for name in drop)

    def put_base(self, commit: str | None) -> None:
        self.update_refs(f"delete {self._own}/base\n" if commit is None else self.ref_updates(base=commit))

    def update_refs(self, updates: str) -> None:
        if updates:
            self.git.run("update-ref", "--stdin", feed=[updates.encode()])

    def add_pending(self, commit: str) -> str:
        """Make a pending ref for a commit of the user's; return its name."""
        name = self._new_pending_name()
        self.git.run("update-ref", name, commit)
        return name

    def _new_pending_name(self) -> str:
        """Pending refs sort by age."""
        return f"{self._own}/pending/{time.time_ns():020d}-{os.urandom(4).hex()}"

    def locks(self) -> list[str]:
        """The lock files that exist now on refs which dibs writes."""
        names = ("HEAD", "packed-refs", f"refs/heads/{self.branch}")
        paths = [os.path.join(self.common_dir, f"{name}.lock") for name in names]
        own = os.path.join(self.common_dir, self._own)
        paths += [os.path.join(place, name) for place, _, names in os.walk(own) for name in names if ".lock" in name]
        return [path for path in paths if os.path.lexists(path)]

    def collect_garbage(self) -> None:
        """Have git pack its objects in the background, if there are many."""
        try:
            self.git.run("-c", f"gc.auto={LOOSE_MAX}", "gc", "--auto", "--quiet")
        except GitFailed:
            pass  # another git is packing, or the disk is full, which the next write reports

    # The remote

    def fetch(self, *, again: bool = False) -> None:
        """Update `hub` from the remote; with `again`, download all objects, even those that exist here."""
        progress.report("fetching", 2, SYNC_STEPS)
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
            if "couldn't find remote ref" not in failed.stderr:
                raise Unreachable(failed.stderr) from failed
            if self.git.succeeds("show-ref", "--verify", "--quiet", f"{self._own}/hub"):
                # The remote had the branch: it is being moved or restored, or has to be pushed again.
                raise Unreachable(f"it has no {self._ref} any more; git push brings it back") from failed

    def require_remote(self) -> None:
        """Raise Unreachable unless the remote answers."""
        try:
            self.git.run("ls-remote", "--quiet", "--", self._remote, self._ref, seconds=REMOTE_SECONDS)
        except GitFailed as failed:
            raise Unreachable(failed.stderr) from failed

    def push(self, commit: str, base: str | None) -> None:
        """Push a commit, only if the remote still has `base`.

        A fast-forward alone would not do: a pull by the user may have brought decisions of other clones into the
        history of this commit, which was decided without them.
        """
        lease = f"--force-with-lease={self._ref}:{base or ''}"
        words = (lease, "--porcelain", "--quiet", "--no-verify", "--no-signed", "--recurse-submodules=no")
        try:
            self.git.run("push", *words, "--", self._remote, f"{commit}:{self._ref}", seconds=REMOTE_SECONDS)
        except GitFailed as failed:
            if is_damage(failed.stderr):
                raise
            line = _verdict(failed.output) if failed.code is not None else None
            if line is None:
                raise Unreachable(failed.stderr) from failed
            why = "; ".join([line, *_remote_messages(failed.stderr)])
            if "[rejected]" in line or any(words in line for words in _OVERTAKEN):
                raise Rejected(why) from failed
            raise Refused(why) from failed

    def _committer(self) -> str:
        if self._ident is None:
            try:
                self._ident = self.git.text("var", "GIT_COMMITTER_IDENT").rsplit(" ", 2)[0]
            except GitFailed:
                self._ident = "dibs <dibs@localhost>"
        return f"{self._ident} now"


def checked_out_branch(git: Git, git_dir: str) -> str | None:
    """The branch that is checked out, also if its ref is broken, in which case git does not report the branch."""
    with open(os.path.join(git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
        head = file.read().strip()
    if head == "ref: refs/heads/.invalid":
        # A repository with the reftable format.
        found = git.text("symbolic-ref", "--quiet", "HEAD") if git.succeeds("symbolic-ref", "--quiet", "HEAD") else ""
        head = f"ref: {found}"
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None


def _common_dir(git_dir: str) -> str:
    """The directory with objects and refs, which several work trees share."""
    try:
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            return os.path.realpath(os.path.join(git_dir, file.read().strip()))
    except OSError:
        return git_dir


def _missing(name: str) -> GitFailed:
    return GitFailed("cat-file", None, f"missing object {name}")


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _verdict(answer: bytes) -> str | None:
    """The remote's reason for not updating the pushed ref."""
    for line in answer.decode(errors="replace").splitlines():
        if line.startswith("!") and ("[rejected]" in line or "[remote rejected]" in line):
            return "".join(letter for letter in line.split("\t")[-1] if letter.isprintable())
    return None


def _remote_messages(stderr: str) -> list[str]:
    return [part.removeprefix("remote: ").strip() for part in stderr.split("; ") if part.startswith("remote: ")]
