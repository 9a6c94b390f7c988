"""A model of branches, forks, pull requests and claims, whose histories are chosen at random.

The model knows under which claim each commit was made, and which claims were lost. Whoever has lost one pushes its
commits wherever they like: to other branches, with other pull requests, after the branch was deleted.
"""

from __future__ import annotations

import collections
import random
from typing import TYPE_CHECKING

from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.watch import Watcher
from tests.github.direct import Direct, close
from tests.github.fake_api import _repository
from tests.github.fake_writes import WritableApi
from tests.github.writing import Clock

if TYPE_CHECKING:
    from dibs.board import Board

STEPS = 18
MAIN = "0" * 40


class ClaimHistory:
    def __init__(self, board: Board, number: int, chosen: random.Random) -> None:
        self.board, self.chosen, self.met = board, chosen, collections.Counter[str]()
        self.repository = f"acme/c{number}"
        self.fake = WritableApi(None, self.repository)
        self.items = [f"c{number}-{letter}" for letter in "ab"]
        for item in self.items:
            board.add("work", id=item)
        self.holders: dict[str, tuple[str, int]] = {}
        #: The claim of each commit, and the commits of claims that were lost.
        self.made: dict[str, tuple[str, int]] = {}
        self.lost: set[str] = set()
        self.pulls = 0
        self.trace: list[str] = []
        self.watcher = self._watcher()
        self.look()

    def _watcher(self) -> Watcher:
        policy = Policy(rules=(), out=Out(status=True))
        return Watcher(self.board, Direct(self.fake), self.repository, policy, every=60.0, clock=Clock())

    def close(self) -> None:
        self.watcher.close()
        close(self.fake)
        for item in self.items:
            if self.board.get(item).item.status not in ("done", "cancelled"):
                self.board.cancel(item)

    # Steps

    def step(self) -> None:
        steps = {
            self.claim: 6,
            self.push: 6,
            self.lose: 3,
            self.end: 1,
            self.push_elsewhere: 4,
            self.push_on_top: 2,
            self.delete_branch: 3,
            self.open_pull: 4,
            self.close_pull: 2,
            self.look: 4,
            self.show: 3,
            self.restart: 2,
        }
        (chosen,) = self.chosen.choices(list(steps), list(steps.values()))
        if chosen() is not False:
            self.met[chosen.__name__] += 1
            self.trace.append(chosen.__name__)

    def claim(self) -> bool:
        free = [item for item in self.items if self.board.get(item).item.status == "ready"]
        if not free:
            return False
        item = self.chosen.choice(free)
        session = self.board.start_session("coder").id
        self.holders[item] = (session, self.board.claim(item, session=session).claim.token)
        self.look()  # who has taken over is known before the next push
        return True

    def push(self) -> bool:
        """A commit of whoever holds the item, or held it last. Without the hooks, no commit names its claim."""
        if not self.holders:
            return False
        item = self.chosen.choice(list(self.holders))
        token = self.holders[item][1]
        # Branches of items that have ended may be many, and are not read: there, only a name tells whose a commit is.
        is_signed = self.chosen.random() < 0.6 or self.board.get(item).item.status == "cancelled"
        branch = f"dibs/{item}" if not is_signed or self.chosen.random() < 0.7 else self.other_branch()
        sha = self.commit(f"Work\n\nDibs-Claim: {item}/{token}" if is_signed else "Work", self.start_of(branch))
        self.made[sha] = (item, token)
        self.fake.branches[branch] = sha
        self.mark_lost()
        if not is_signed:
            self.met["unsigned"] += 1
            self.look()  # a push without a name is told by the branch that it is seen on
        return True

    def commit(self, message: str, parent: str) -> str:
        sha = f"{self.chosen.getrandbits(160):040x}"
        self.fake.commits[sha] = ((parent,), message)
        return sha

    def start_of(self, branch: str) -> str:
        """Who takes over begins anew: whether it may build on what is there is another matter."""
        there = self.fake.branches.get(branch, MAIN)
        return MAIN if self.chosen.random() < 0.5 else there

    def other_branch(self) -> str:
        return self.chosen.choice(("feature", "mend", f"dibs/{self.chosen.choice(self.items)}", "release"))

    def lose(self) -> bool:
        held = [item for item in self.items if self.board.get(item).item.status == "in_progress"]
        if not held:
            return False
        item = self.chosen.choice(held)
        if self.chosen.random() < 0.15:
            self.board.cancel(item)
        else:
            self.board.force_release(item, reason="x")
        self.mark_lost(item)
        return True

    def mark_lost(self, item: str | None = None) -> None:
        if item is not None:
            self.gone = {*self.gone, self.holders[item] and (item, self.holders[item][1])}
        self.lost |= {sha for sha, claim in self.made.items() if claim in self.gone}

    gone: frozenset[tuple[str, int]] | set[tuple[str, int]] = frozenset()

    def end(self) -> bool:
        held = [item for item in self.items if self.board.get(item).item.status == "in_progress"]
        if not held:
            return False
        session, token = self.holders[held[0]]
        self.board.release(held[0], session=session, token=token)
        return True

    def push_elsewhere(self) -> bool:
        """The same commit on another branch, perhaps that of another item."""
        if not self.made:
            return False
        sha = self.chosen.choice(list(self.made))
        self.fake.branches[self.other_branch()] = sha
        self.met["a lost commit elsewhere"] += sha in self.lost
        return True

    def push_on_top(self) -> bool:
        """A person's commit on top of one of a claim. The one below is judged wherever it is."""
        if not self.made:
            return False
        sha = self.commit("A person's", self.chosen.choice(list(self.made)))
        self.fake.branches[self.other_branch()] = sha
        return True

    def delete_branch(self) -> bool:
        branches = [one for one in self.fake.branches if one != "main"]
        if not branches:
            return False
        gone = self.chosen.choice(branches)
        self.met["a green commit without a branch"] += self.fake.state(self.fake.branches[gone]) == "success"
        del self.fake.branches[gone]
        return True

    def open_pull(self) -> bool:
        """From a branch of the repository, or of a fork that calls its branch as it likes."""
        branches = [one for one in self.fake.branches if one != "main"]
        if not branches:
            return False
        self.pulls += 1
        branch, base = self.chosen.choice(branches), self.chosen.choice(branches)
        is_fork = self.chosen.random() < 0.3
        self.fake.put_pull(self.pulls)
        sides = {"head": (self.fake.branches[branch], branch, "eve/fork" if is_fork else self.repository)}
        to = "main" if self.chosen.random() < 0.7 else base
        sides["base"] = (self.fake.branches[to], to, self.repository)
        for side, (sha, ref, of) in sides.items():
            self.fake.pulls[self.pulls][side] = {"sha": sha, "ref": ref, "repo": _repository(of)}
        self.met["fork"] += is_fork
        return True

    def close_pull(self) -> bool:
        found = [one for one in self.fake.pulls.values() if one["state"] == "open"]
        if not found:
            return False
        self.chosen.choice(found)["state"] = "closed"
        return True

    # What has to hold

    def look(self) -> None:
        found = self.watcher.look()
        assert found.wrote.problems == ()
        self.check()

    def show(self) -> None:
        """The board has changed: that a claim was lost is written at once."""
        self.watcher.show()

    def restart(self) -> None:
        self.watcher.close()
        self.watcher = self._watcher()
        self.look()

    def check(self) -> None:
        for sha in self.lost:
            assert self.fake.state(sha) != "success", f"{sha[:7]} of {self.made[sha]} is green"
            self.met["a lost commit is red"] += self.fake.state(sha) == "failure"
        live = [sha for sha, claim in self.made.items() if claim not in self.gone]
        self.met["a live commit is green"] += any(self.fake.state(sha) == "success" for sha in live)
