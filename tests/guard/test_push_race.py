"""A fleet's worst day at a shared repository: sessions push early, lose their claims, and push the same work again in
every form, beside those who took it over. No commit of a lost claim comes to a protected ref."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.guard import refs, trailers
from tests.guard.conftest import ANN, BOB, Repository, hub, install_in_hub
from tests.kit.soak import in_a_soak
from tests.kit.waiting import PATIENCE_SECONDS

#: What the remote has before the claim is lost.
BRANCH_OF_ITEM, FEATURE, NOTHING = "refs/heads/dibs/{}", "refs/heads/feature/{}", ""
EARLY = (BRANCH_OF_ITEM, BRANCH_OF_ITEM, FEATURE, BRANCH_OF_ITEM, NOTHING)
LOSSES = ("force-released", "lapsed", "cancelled")
#: Every so many rounds, a push begins before the claim is lost.
RACED = 4
HEIR_TRIES_MAX = 5


class Clone(Repository):
    """A clone without hooks. Commits are made without a work tree."""

    def __init__(self, folder: Path, environment: dict[str, str], url: str) -> None:
        super().__init__(folder, environment)
        folder.mkdir()
        self.git("clone", "--quiet", "--no-checkout", url, ".")

    def make(self, message: str, *parents: str, claim: str = "") -> str:
        more = f"\n\nDibs-Claim: {claim}\n" if claim else ""
        onto = [word for one in parents for word in ("-p", one)]
        return self.git("commit-tree", "-m", message + more, *onto, f"{parents[0]}^{{tree}}")

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """A push that runs beside others."""
        return subprocess.Popen(
            ["git", "push", "--quiet", "origin", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def ended(push: subprocess.Popen[str]) -> tuple[bool, str]:
    output, _ = push.communicate(timeout=PATIENCE_SECONDS)
    return push.returncode == 0, output


class Late:
    """What a session pushes after its loss: the same commit, or what it made of it, to another ref."""

    def __init__(self, ann: Clone, item: str, lost: str) -> None:
        self._ann, self._item, self._lost = ann, item, lost
        to_refs_that_exist: dict[str, Callable[[], list[str]]] = {
            "forced to main": lambda: [f"+{lost}:refs/heads/main"],
            "rebased": lambda: [f"+{self._again('origin/main')}:refs/heads/main"],
            "merged": lambda: [f"+{ann.make('a merge', 'origin/main', lost)}:refs/heads/main"],
            "to stable": lambda: [f"+{lost}:refs/heads/stable"],
            "of several": lambda: [f"origin/main:refs/heads/innocent-{item}", f"+{lost}:refs/heads/main"],
        }
        to_new_refs: dict[str, Callable[[], list[str]]] = {
            "tag": lambda: [f"{lost}:refs/tags/late-{item}"],
            "annotated tag": lambda: [f"{self._tag()}:refs/tags/annotated-{item}"],
            "release": lambda: [f"{lost}:refs/heads/release-{item}"],
            "renamed": lambda: [f"{lost}:refs/heads/renamed-{item}", f":{BRANCH_OF_ITEM.format(item)}"],
            "on top": lambda: [f"{ann.make('on top', lost)}:refs/heads/top-{item}"],
        }
        self.to_refs_that_exist, self.all = to_refs_that_exist, to_refs_that_exist | to_new_refs

    def _again(self, onto: str) -> str:
        return self._ann.make("rebased", onto, claim=f"{self._item}/1")

    def _tag(self) -> str:
        self._ann.git("tag", "-a", "-m", "late", f"late-{self._item}", self._lost)
        return f"refs/tags/late-{self._item}"


class Race:
    def __init__(self, ann: Clone, bob: Clone, board: Board, chance: random.Random) -> None:
        self.ann, self.bob, self.board, self.chance = ann, bob, board, chance
        #: How often each case occurred.
        self.seen: Counter[str] = Counter()
        #: The lost commit of each item, and the refs that it came to in time; None stands for every ref.
        self.in_time: dict[str, str | None] = {}
        self.heirs: list[str] = []

    def round(self, number: int) -> None:
        item, early, loss = f"i{number}", EARLY[number % len(EARLY)], LOSSES[number % len(LOSSES)]
        for one in (self.ann, self.bob):
            one.git("fetch", "--quiet", "origin", "refs/heads/main")
            one.git("update-ref", "refs/remotes/origin/main", "FETCH_HEAD")
        self.board.add(item, id=item)
        self.board.claim(item, session=ANN, ttl_seconds=0.1 if loss == "lapsed" else 3600)
        lost = self.ann.make(f"work on {item}", "origin/main", claim=f"{item}/1")
        if early:
            assert ended(self.ann.begin(f"{lost}:{early.format(item)}"))[0]
        if early == FEATURE:
            self.in_time[item] = early.format(item)
        if number % RACED == RACED - 1:
            self._race(item, lost, lambda: self._lose(item, loss))
        else:
            self._lose(item, loss)
        if item in self.in_time and self.in_time[item] is None:
            self._heir(item, lost, loss)
            return
        forms = Late(self.ann, item, lost)
        # New refs may have what the protected branch `feature` got in time.
        names = list(forms.to_refs_that_exist if early == FEATURE else forms.all)
        if early != BRANCH_OF_ITEM and "renamed" in names:
            names.remove("renamed")
        chosen = sorted(names, key=lambda name: self.seen[name])[:2]
        late = [(name, self.ann.begin(*forms.all[name]())) for name in chosen]
        self._heir(item, lost, loss)
        for name, push in late:
            _, output = ended(push)
            if "was made under claim 1 of" in output:
                self.seen.update([name, f"refused, {early}", loss])
                continue
            # The heir has brought it to main before: it is history like any other.
            hub(self.bob, "merge-base", "--is-ancestor", lost, "main")
            self.seen.update(["after its heir"])

    def _lose(self, item: str, loss: str) -> None:
        if loss == "force-released":
            self.board.force_release(item, reason="gone")
        if loss == "cancelled":
            self.board.cancel(item, reason="no longer wanted")
        else:
            self.board.claim(item, session=BOB, ttl_seconds=3600, wait_seconds=PATIENCE_SECONDS)

    def _race(self, item: str, lost: str, lose: Callable[[], None]) -> None:
        """A push that begins before the loss may come to its end after it."""
        push = self.ann.begin(f"{lost}:refs/heads/main")
        try:
            push.wait(self.chance.uniform(0, 0.4))
        except subprocess.TimeoutExpired:
            pass  # it goes on beside the loss
        lose()
        did, output = ended(push)
        assert did or "was made under claim 1 of" in output, output
        self.seen.update(["in time" if did else "too late"])
        if did:
            self.in_time[item] = None

    def _heir(self, item: str, lost: str, loss: str) -> None:
        """The new holder builds on the work or begins again; what it pushes gets through. A cancelled item has none,
        and others push."""
        claim = "" if loss == "cancelled" else f"{item}/2"
        onto = ["origin/main"]
        if claim and self.chance.random() < 0.5:
            self.bob.git("fetch", "--quiet", str(self.ann.folder), lost)
            onto = [lost] if self.chance.random() < 0.5 else ["origin/main", lost]
        heir = self.bob.make(f"after {item}", *onto, claim=claim)
        for _ in range(HEIR_TRIES_MAX):
            words = (f"{heir}:refs/heads/main", f"{heir}:refs/tags/{item}", f"{heir}:refs/heads/stable")
            did, output = ended(self.bob.begin("--atomic", *words))
            if did:
                break
            # Only a push that was in time can have come before.
            assert "was made under claim" not in output, output
            self.seen.update(["a heir came second"])
            self.bob.git("fetch", "--quiet", "origin", "refs/heads/main")
            heir = self.bob.make(f"after {item}, again", "FETCH_HEAD", heir, claim=claim)
        else:
            raise AssertionError(f"the heir of {item} did not get through")
        self.heirs.append(heir)
        self.seen.update(["heir"])


class History:
    """All commits of the hub, read without the guard's own walk."""

    def __init__(self, repository: Repository) -> None:
        self.named: dict[str, tuple[trailers.Trailer, ...]] = {}
        self._parents: dict[str, list[str]] = {}
        self._heirs: dict[str, list[str]] = {}
        for record in hub(repository, "log", "--all", "--format=%x01%H%n%P%n%B").split("\x01")[1:]:
            sha, parents, message = record.split("\n", 2)
            self.named[sha], self._parents[sha] = trailers.of(message), parents.split()
            for item in (one.item for one in self.named[sha] if one.token == 2):
                self._heirs.setdefault(item, []).append(sha)
        rows = hub(repository, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)").splitlines()
        #: The commit of each protected ref.
        self.protected = {row.split()[0]: row.split()[-1] for row in rows if refs.is_protected(row.split()[0])}

    def ancestors(self, tip: str) -> set[str]:
        """With the commit itself."""
        found, waiting = set[str](), [tip]
        while waiting:
            sha = waiting.pop()
            if sha not in found:
                found.add(sha)
                waiting += self._parents[sha]
        return found

    def has_heir(self, sha: str, item: str, commits: set[str]) -> bool:
        """Whether one of the commits is of the second run, and builds on this one."""
        return any(sha in self.ancestors(heir) for heir in self._heirs.get(item, ()) if heir in commits)


@pytest.mark.parametrize("rounds", [20, *in_a_soak(200)])
def test_no_commit_of_a_lost_claim_comes_to_a_protected_ref(repository: Repository, board: Board, rounds: int) -> None:
    seed = int(os.environ.get("DIBS_SEED") or random.randrange(1 << 32))
    print(f"DIBS_SEED={seed}")
    install_in_hub(repository)
    # Hooks run before git looks at it: a late push is refused by the guard, or the heir came before it.
    hub(repository, "config", "receive.denyNonFastForwards", "true")
    repository.git("push", "--quiet", "origin", "main:stable")
    url = repository.git("remote", "get-url", "origin")
    ann, bob = (Clone(repository.folder.parent / name, repository.environment, url) for name in ("ann", "bob"))
    race = Race(ann, bob, board, random.Random(seed))
    for number in range(rounds):
        race.round(number)
    print(sorted(race.seen.items()))

    history = History(repository)
    main = history.ancestors(history.protected["refs/heads/main"])
    for ref, tip in history.protected.items():
        commits = history.ancestors(tip)
        for sha in commits:
            for item in (one.item for one in history.named[sha] if one.token == 1):
                is_allowed = race.in_time.get(item, "") in (ref, None) or history.has_heir(sha, item, commits | main)
                assert is_allowed, f"DIBS_SEED={seed}: {ref} has {sha} of {item}/1"
    assert set(race.heirs) <= main
    assert len(race.heirs) == rounds
    late = Late(ann, "none", "HEAD").all
    missing = [case for case in (*late, *LOSSES, *(f"refused, {one}" for one in set(EARLY))) if not race.seen[case]]
    assert not missing, f"DIBS_SEED={seed}: {missing} did not occur"
    assert race.seen["in time"] + race.seen["too late"] == rounds // RACED
