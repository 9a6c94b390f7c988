"""A model of GitHub with one item, its pull request and its checks, whose histories are chosen at random.

The model knows what is true at each instant, and whether the contract of the item holds. GitHub tells of each change by
a webhook, which is delivered at once, late, twice or never, and answers a watcher's polls. What an app changes in place
without an end, GitHub tells nobody.
"""

from __future__ import annotations

import collections
import random
from typing import TYPE_CHECKING, Any

import pytest

from dibs.errors import Invalid
from dibs.github import delivery as deliveries
from dibs.github.policy import ON_CHECKS, ON_MERGE, Policy
from dibs.github.watch import Watcher
from tests.github.direct import Direct, close
from tests.github.fake_api import _check_run, _repository
from tests.github.fake_writes import WritableApi
from tests.github.writing import Clock

if TYPE_CHECKING:
    from dibs.board import Board

GREEN, RED, OTHER = (
    ("success", "neutral", "skipped"),
    ("failure", "timed_out"),
    ("cancelled", "action_required", "stale"),
)
APPS = ("codecov", "linter")
NAMES = ("build", "cover")
#: So many checks that GitHub lists them on two pages.
CROWD = 101
STEPS = 22
#: The number of the pull request of a stranger.
STRANGERS = 200
DELIVERIES_MAX = 40


class History:
    def __init__(self, board: Board, number: int, chosen: random.Random) -> None:
        self.board, self.chosen, self.met = board, chosen, collections.Counter[str]()
        self.repository, self.item = f"acme/r{number}", f"i{number}"
        self.fake = WritableApi(None, self.repository)
        self.contract = chosen.choice((ON_CHECKS, ON_CHECKS, ON_CHECKS, ON_MERGE))
        named = chosen.choice(((), (), ("ci.yml",), ("build",), ("ci.yml", "cover*")))
        self.policy = Policy(complete=self.contract, checks=named, rules=())
        board.add("work", id=self.item, review=True)
        self.parents: dict[str, str] = {}
        self.fake.compare = self.compare  # type: ignore[method-assign]
        self.second, self.ids, self.deliveries = 0, 0, list[tuple[str, Any]]()
        self.pull: dict[str, Any] | None = None
        self.pulls = 0
        self.session, self.token = "", 0
        #: The commit that the agent pushed last, and the one that the run names as its own.
        self.pushed, self.left = "", ""
        self.named: dict[str, str] = {}
        #: Heads that were seen red by a verdict, and why.
        self.sent_back: set[str] = set()
        #: What happened, for a history that fails.
        self.trace: list[str] = []
        self.watcher = self._watcher()
        self.watcher.look()  # from here on, a server knows that somebody watches

    def _watcher(self) -> Watcher:
        return Watcher(self.board, Direct(self.fake), self.repository, self.policy, every=60.0, clock=Clock())

    def close(self) -> None:
        self.watcher.close()
        close(self.fake)
        if self.status not in ("done", "cancelled"):
            self.board.cancel(self.item)

    # What is true

    @property
    def status(self) -> str:
        return self.board.get(self.item).item.status

    def now(self) -> str:
        """GitHub's instants have a resolution of a second: two changes may have the same."""
        self.second += self.chosen.choice((0, 1, 1, 2))
        return f"2026-11-16T{9 + self.second // 3600:02d}:{self.second // 60 % 60:02d}:{self.second % 60:02d}Z"

    def checks(self, sha: str) -> list[tuple[str, str]]:
        """The checks of a commit that count: name and state. Of one name and source the newest counts."""
        found: dict[tuple[str, str], str] = {}
        for run in sorted(self.fake.runs.values(), key=lambda one: (one["run_number"], one["run_attempt"])):
            if run["head_sha"] == sha and run["head_repository"]["full_name"] == self.repository:
                found["ci.yml", "run"] = run["conclusion"] if run["status"] == "completed" else "pending"
        for _, run in sorted(self.fake.check_runs.get(sha, {}).items()):
            state = run["conclusion"] if run["status"] == "completed" else "pending"
            found[run["name"], run["app"]["slug"]] = state
        for status in reversed(self.fake.statuses.get(sha, [])):
            found[status["context"], "status"] = status["state"]
        return [(name, state) for (name, _), state in found.items() if self.policy.counts(name)]

    def decisive(self) -> dict[str, Any] | None:
        """The pull request that decides: the one at the commit that the run left, or else the newest, and one that was
        closed without a merge only if there is no other."""
        mine = [one for number, one in self.fake.pulls.items() if number < STRANGERS]
        alive = [one for one in mine if one["state"] == "open" or one["merged_at"]]
        return max(alive or mine, key=lambda one: (self.is_at(one), one["number"]), default=None)

    def is_at(self, pull: dict[str, Any]) -> bool:
        return bool(self.named) and pull["head"]["sha"] == self.left

    def is_left(self, pull: dict[str, Any]) -> bool:
        """Whether the head has what the run left."""
        return not self.named or self.has(pull["head"]["sha"], self.left)

    def has(self, head: str, commit: str) -> bool:
        while head and head != commit:
            head = self.parents[head]
        return bool(head)

    def compare(self, base: str, head: str) -> dict[str, Any]:
        return {"status": "behind" if self.has(base, head) else "diverged", "commits": []}

    def holds(self) -> bool:
        """Whether the contract of the item holds for the result that waits."""
        pull = self.decisive()
        if pull is None or not self.is_left(pull) or pull["merged_at"]:
            return pull is not None and self.is_left(pull)
        if pull["state"] != "open" or self.contract != ON_CHECKS:
            return False
        counted = self.checks(pull["head"]["sha"])
        is_green = bool(counted) and all(state in GREEN for _, state in counted)
        named = [any(self.policy.is_named(one, name) for name, _ in counted) for one in self.policy.checks]
        return is_green and all(named)

    def is_refused(self) -> bool:
        """Whether the result is to be sent back."""
        pull = self.decisive()
        if pull is None or pull["merged_at"] or not self.is_left(pull):
            return False
        return pull["state"] == "closed" or any(state in RED for _, state in self.checks(pull["head"]["sha"]))

    # Steps

    def step(self) -> None:
        steps = {
            self.claim: 5 if self.status == "ready" else 0,
            self.push: 3 if self.status == "in_progress" else 0,
            self.submit: 5 if self.status == "in_progress" and self.pushed else 0,
            self.let_go: 1 if self.status == "in_progress" else 0,
            self.fix: 1 if self.status == "pending_approval" and self.is_open() else 0,
            self.close_pull: 1 if self.is_open() else 0,
            self.reopen_pull: 3 if self.pull is not None and self.pull["state"] == "closed" else 0,
            self.merge: (4 if self.status == "ready" else 1) if self.is_open() else 0,
            self.new_check: 3 if self.pull else 0,
            self.end_check: 4 if self.some_check() else 0,
            self.reset_check: 2 if self.some_check() else 0,
            self.rerun: 2 if self.pull else 0,
            self.set_status: 2 if self.pull else 0,
            self.crowd: 1 if self.pull and self.chosen.random() < 0.3 else 0,
            self.stranger: 1 if self.pull else 0,
            self.poll: 4,
            self.restart: 1,
            self.deliver: 5 if self.deliveries else 0,
        }
        (chosen,) = self.chosen.choices(list(steps), list(steps.values()))
        chosen()
        self.met[chosen.__name__] += 1
        self.trace.append(f"{chosen.__name__}: {self.status}")
        self.check_done()

    def is_open(self) -> bool:
        return self.pull is not None and self.pull["state"] == "open"

    def claim(self) -> None:
        self.session = self.board.start_session("coder").id
        self.token = self.board.claim(self.item, session=self.session).claim.token

    def commit(self, parent: str = "") -> str:
        sha = f"{self.chosen.getrandbits(160):040x}"
        self.parents[sha] = parent
        self.fake.messages[sha] = "Work"
        return sha

    def push(self) -> None:
        """To the branch of the item. A pull request that is merged stays at its head."""
        self.pushed = self.commit(self.pushed)
        if self.pull is None or (self.pull["merged_at"] and self.chosen.random() < 0.5):
            self.open_pull()
        elif not self.pull["merged_at"]:
            self.move(self.pushed)

    def open_pull(self) -> None:
        self.pulls += 1
        self.put_pull(self.pulls + 20, self.pushed, f"dibs/{self.item}", self.repository, self.now(), "opened")
        self.pull = self.fake.pulls[self.pulls + 20]

    def put_pull(self, number: int, sha: str, ref: str, of: str, at: str, action: str, **fields: Any) -> None:
        repo = _repository(of)
        head = {"label": ref, "ref": ref, "sha": sha, "repo": repo, "user": None}
        self.fake.put_pull(number, head=head, updated_at=at, created_at=at, **fields)
        self.tell_pull(number, action)

    def tell_pull(self, number: int, action: str) -> None:
        found = self.fake.pulls[number]
        told = {**found, "merged": bool(found["merged_at"])}
        self.tell("pull_request", {"action": action, "pull_request": told, "sender": {"login": "ann", "type": "User"}})

    def move(self, sha: str) -> None:
        assert self.pull is not None
        self.change(head={**self.pull["head"], "sha": sha}, action="synchronize")

    def change(self, *, action: str, **fields: Any) -> None:
        assert self.pull is not None
        number = self.pull["number"]
        self.fake.put_pull(number, updated_at=self.now(), **fields)
        self.pull = self.fake.pulls[number]
        self.tell_pull(number, action)

    def submit(self) -> None:
        self.named = {"commit": self.pushed} if self.chosen.random() < 0.6 or not self.at_head() else {}
        self.left = self.pushed
        self.board.done(self.item, session=self.session, token=self.token, links=self.named)
        if self.pull is not None and self.pull["merged_at"]:
            self.met["submitted after the merge"] += 1

    def at_head(self) -> bool:
        return self.pull is not None and self.pull["head"]["sha"] == self.pushed

    def let_go(self) -> None:
        self.board.release(self.item, session=self.session, token=self.token)

    def fix(self) -> None:
        """A person pushes on top of what is there, or forces something else to be merged instead."""
        is_forced = self.chosen.random() < 0.4
        self.met["forced"] += is_forced
        self.move(self.commit("" if is_forced else self.head()))

    def close_pull(self) -> None:
        self.change(state="closed", action="closed")

    def reopen_pull(self) -> None:
        assert self.pull is not None
        if not self.pull["merged_at"]:
            self.change(state="open", action="reopened")

    def merge(self) -> None:
        self.met["merged while ready"] += self.status == "ready"
        self.change(state="closed", merged_at=self.now(), action="closed")

    # Checks

    def head(self) -> str:
        assert self.pull is not None
        return str(self.pull["head"]["sha"])

    def some_check(self) -> bool:
        return self.pull is not None and bool(self.fake.check_runs.get(self.head()))

    def conclusion(self) -> str:
        return self.chosen.choice((*GREEN, GREEN[0], GREEN[0], *RED, *OTHER))

    def new_check(self) -> None:
        """Two apps may use one name."""
        self.ids += 1
        app = _check_run(self.repository, "", 1, "", self.chosen.choice(APPS))["app"]
        self.put_check(self.head(), self.ids, self.chosen.choice(NAMES), None, app=app, started_at=self.now())

    def put_check(self, sha: str, id: int, name: str, conclusion: str | None, **fields: Any) -> None:
        run = self.fake.put_check_run(sha, id, name, conclusion, **fields)
        told = {**run, "pull_requests": [{"number": self.pull["number"]}] if self.pull else []}
        told["check_suite"] = {"id": 1, "head_branch": f"dibs/{self.item}"}
        self.tell("check_run", {"action": "completed" if conclusion else "created", "check_run": told})

    def end_check(self) -> None:
        """For the first time, or once more in place."""
        id, run = self.chosen.choice(list(self.fake.check_runs[self.head()].items()))
        self.met["ended in place again"] += run["status"] == "completed"
        self.put_check(self.head(), id, run["name"], self.conclusion(), completed_at=self.now())

    def reset_check(self) -> None:
        """An app sets a check back to going on, or somebody asks for another run of it: GitHub tells of neither."""
        id, run = self.chosen.choice(list(self.fake.check_runs[self.head()].items()))
        self.met["reset in place"] += run["status"] == "completed"
        self.fake.put_check_run(
            self.head(), id, run["name"], None, status=self.chosen.choice(("queued", "in_progress"))
        )

    def rerun(self) -> None:
        """A workflow is run, ends, or is run again."""
        mine = [one for one in self.fake.runs.values() if one["head_sha"] == self.head()]
        if not mine or self.chosen.random() < 0.2:
            self.ids += 1
            self.put_run(self.ids, 1, None)
        elif mine[-1]["status"] == "completed":
            self.put_run(mine[-1]["run_number"], mine[-1]["run_attempt"] + 1, None)
        else:
            self.put_run(mine[-1]["run_number"], mine[-1]["run_attempt"], self.conclusion())

    def put_run(self, number: int, attempt: int, conclusion: str | None, of: str = "", sha: str = "") -> None:
        at = self.now()
        fields = {"run_attempt": attempt, "head_sha": sha or self.head(), "head_branch": f"dibs/{self.item}"}
        fields |= {"status": "completed" if conclusion else "in_progress", "event": "pull_request", "created_at": at}
        fields["head_repository"] = _repository(of or self.repository)
        self.fake.put_run(number, conclusion or "", **fields)
        self.fake.runs[number]["conclusion"] = conclusion
        self.tell("workflow_run", {"action": "x", "workflow_run": dict(self.fake.runs[number])})

    def set_status(self) -> None:
        """A status may have the name of a check."""
        state = self.chosen.choice(("success", "success", "success", "failure", "pending"))
        at = self.now()
        self.fake.put_status(self.head(), self.chosen.choice(NAMES), state, at)
        row = self.fake.statuses[self.head()][0]
        self.ids += 1
        row["id"] = self.ids
        branches = [{"name": f"dibs/{self.item}", "commit": {"sha": self.head()}}]
        self.tell("status", {**row, "sha": self.head(), "branches": branches})

    def crowd(self) -> None:
        for number in range(CROWD):
            self.ids += 1
            self.fake.put_check_run(self.head(), self.ids, f"part {number}", "success", completed_at=self.now())

    def stranger(self) -> None:
        """A fork with the branch of the item, or with a run of its own at the same commit."""
        at = self.now()
        if self.chosen.random() < 0.5:
            fields = {"author_association": "NONE", "state": "closed", "merged_at": at}
            self.put_pull(STRANGERS, self.commit(), f"dibs/{self.item}", "eve/fork", at, "closed", **fields)
        else:
            self.ids += 1
            self.put_run(self.ids, 1, self.conclusion(), "eve/fork")

    # What dibs learns

    def tell(self, event: str, told: dict[str, Any]) -> None:
        data = {**told, "repository": {"full_name": self.repository}}
        self.deliveries.append((event, data))
        if len(self.deliveries) > DELIVERIES_MAX:
            self.deliveries.pop(0)  # GitHub does not deliver everything

    def deliver(self) -> None:
        number = self.chosen.randrange(len(self.deliveries))
        event, data = self.deliveries[number]
        if self.chosen.random() < 0.9:
            del self.deliveries[number]  # otherwise it comes twice
        id = f"{self.item}-{self.chosen.getrandbits(60)}"
        deliveries.apply(self.board, self.policy, event, data, id)

    def poll(self) -> None:
        found = self.watcher.look()
        assert found.wrote.problems == ()

    def restart(self) -> None:
        self.watcher.close()
        self.watcher = self._watcher()
        self.watcher.look()

    # What has to hold

    is_checked = False

    def check_done(self) -> None:
        """Done is what the contract holds for, at this very instant: nothing is decided on what was true before."""
        item = self.board.get(self.item).item
        if item.status == "done" and not self.is_checked:
            self.is_checked = True
            assert self.holds(), "done although the contract does not hold"
            pull = self.decisive()
            self.met["done, merged" if pull and pull["merged_at"] else "done, green"] += 1

    def settle(self) -> None:
        """The second poll after the last change decides, and what GitHub tells late changes nothing."""
        self.poll()
        self.poll()
        self.check_done()
        status, holds = self.status, self.status == "pending_approval" and self.holds()
        assert not holds, "the contract holds, and the item still waits"
        if status == "pending_approval" and self.is_refused():
            kinds = [event.kind for event in self.board.log(self.item)]
            assert "sent_back" in kinds, "a result that fails was never sent back"
            self.met["fails again for the same reason"] += 1
        self.met["sent back"] += "sent_back" in [event.kind for event in self.board.log(self.item)]
        self.met[f"ends as {status}"] += 1
        while self.deliveries:
            self.deliver()
        self.poll()
        assert self.status == status, "late deliveries changed the verdict"
        if self.chosen.random() < 0.1:
            self.rename()

    def rename(self) -> None:
        """GitHub answers by the former name all the same, with the new one in its answers."""
        status, self.fake.repository = self.status, f"{self.repository}-2"
        self.fake.moved_from = self.repository
        for watcher in (self.watcher, self._watcher()):
            with pytest.raises(Invalid, match=f"is {self.fake.repository} now"):
                watcher.look()
            watcher.close()
        assert self.status == status
        self.met["renamed"] += 1
