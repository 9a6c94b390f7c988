"""One script of verbs on a vault, in a process under strace that makes one of its system calls fail, or be its last.

After the fault a process that knows nothing of it looks: every item has one file, in the folder that says how it
stands; what was acknowledged is so; what was not is done or undone. Then the script goes on, with whoever lives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.errors import ItemNotFound
from dibs.maintenance import doctor
from dibs.store.vault.layout import folder_of
from dibs.testing.actors import Actor, Answer, Gone
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.fault.tracing import Traced
from tests.kit import vault
from tests.vault.conftest import places, put

#: (verb, item, further arguments, how the item stands afterwards)
SCRIPT: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("claim", "x", {}, "in_progress"),
    ("progress", "x", {"note": "half"}, "in_progress"),
    ("release", "x", {}, "ready"),
    ("claim", "x", {}, "in_progress"),
    ("done", "x", {"links": {"pr": 1}}, "done"),
    ("claim", "y", {}, "in_progress"),
    ("submit", "y", {"draft": "Dear customer"}, "pending_approval"),
    ("add", "z", {}, "ready"),
    ("claim", "z", {}, "in_progress"),
    ("fail", "z", {"reason": "red"}, "failed"),
)
#: What people wrote, byte for byte.
TEXTS = {
    "x": "# The first\n\n- [ ] milk\n- [ ] bread  \n\n---\nend",
    "y": "No heading.\r\n\r\nTabs\tand ünïcode 🎉\r\n",
}
TRIES_MAX = 4


class Run(Traced):
    """One performance, with one fault: `fault` is strace's, such as `renameat2:error=EIO:when=5`."""

    def __init__(
        self, folder: Path, fault: str | None, syscall: str, *, only: tuple[str, ...] = (), call: str | None = None
    ) -> None:
        """With `only`, just the calls about these folders of the vault; `call` opens another kind of it."""
        folder.mkdir()
        self._call = {} if call is None else {"call": call}
        self.folder, self.fault, self.log = folder, fault, folder / "strace.log"
        inject = () if fault is None else ("-e", f"inject={fault}")
        paths = [word for name in only for word in ("-P", str(folder / "vault" / name))]
        self._prefix = ("strace", "-f", "-qq", "-o", str(self.log), "-e", f"trace={syscall}", *inject, *paths)
        self.refusals = 0
        self._tokens: dict[str, list[int]] = {}

    @property
    def root(self) -> Path:
        return self.folder / "vault"

    def perform(self) -> Run:
        with vault.harness(self.folder, lock_wait_seconds=5.0) as harness:
            board = harness.board()
            for name, text in TEXTS.items():
                put(self.root, f"Needs_Action/{name}.md", text)
            board.start_session("ann", id="s")
            assert {item.id for item in board.list()} == set(TEXTS)
            traced = Actor({**harness.recipe(), **self._call}, harness.folder, prefix=self._prefix)
            try:
                self._act(harness, traced)
            finally:
                traced.leave()
            stands = {item: status for _, item, _, status in SCRIPT}
            self._judge(harness, dict.fromkeys(stands), {item: {status} for item, status in stands.items()})
        return self

    def _act(self, harness: Harness, traced: Actor) -> None:
        actor = traced if self._came_up(traced) else harness.actor()
        stands: dict[str, str | None] = {"x": "ready", "y": "ready", "z": None}
        for number, (verb, item, more, then) in enumerate(SCRIPT):
            asked = {**more, "request_id": f"r{number}", **({"id": item} if verb == "add" else {"session": "s"})}
            for _ in range(TRIES_MAX):
                answer = self._asked(actor, verb, item, asked)
                if answer is not None and answer.error is None:
                    break
                self._judge(harness, stands, {item: {stands[item], then}})
                if answer is None:
                    actor = harness.actor()
                elif answer.code == "STORE_UNAVAILABLE":
                    self.refusals += 1
                elif harness.board().get(item).item.status == then:
                    break  # it was done by who was killed before it could say so
                else:
                    raise AssertionError(f"{self.fault}: {verb} {item} could not be done: {answer.error}")
            else:
                raise AssertionError(f"{self.fault}: {verb} {item} failed {TRIES_MAX} times: {answer}")
            if verb == "claim" and answer.error is None:
                self._took(item, answer.reply["claim"]["token"])
            stands[item] = then
            if self.refusals or self.died:
                self._judge(harness, stands, {})

    def _took(self, item: str, token: int) -> None:
        given = self._tokens.setdefault(item, [])
        assert all(token > other for other in given), f"{self.fault}: {item} has token {token} after {given}"
        given.append(token)

    def _asked(self, actor: Actor, verb: str, item: str, kwargs: dict[str, Any]) -> Answer | None:
        """Its answer; None if there is none: the process is gone, or could not write it."""
        actor.send(verb, item, **kwargs)
        try:
            found = actor.read("start_ns")
        except Gone:
            self.died = True
            return None
        except AssertionError as failure:
            if "say(" not in str(failure):
                raise
            return None
        return Answer(found)

    def _judge(self, harness: Harness, stands: dict[str, str | None], unsure: dict[str, set[str | None]]) -> None:
        """What a fresh look finds is what was acknowledged, or what was being done."""
        board = harness.board()
        try:
            for item, status in stands.items():
                self._judge_one(board, item, unsure.get(item, {status}))
            assert_sound(board, f"{self.fault}:")
            found = [one.what for one in doctor.examine(board) if not one.late]
            assert not found, f"{self.fault}: the doctor says {found}"
        finally:
            board.close()

    def _judge_one(self, board: Board, id: str, may_be: set[str | None]) -> None:
        try:
            detail = board.get(id)
        except ItemNotFound:
            assert None in may_be, f"{self.fault}: {id} is lost"
            assert not self._files(id), f"{self.fault}: {id} is no item and has {self._files(id)}"
            return
        item, claim = detail.item, detail.claim
        assert item.status in may_be, f"{self.fault}: {id} is {item.status}, not {may_be}"
        assert (item.status == "in_progress") == (claim is not None), f"{self.fault}: {id} is ownerless: {detail}"
        place = f"{folder_of(item.status, None if claim is None else claim.agent)}/{id}.md"
        assert self._files(id) == [place], f"{self.fault}: {id} is {item.status} and lies at {self._files(id)}"
        text = (self.root / place).read_bytes()
        assert text.count(b"**Claimed By**") == item.token, (
            f"{self.fault}: {id} has token {item.token}\n{text.decode()}"
        )
        if id in TEXTS:
            assert TEXTS[id].encode() in text, f"{self.fault}: the text of {id} is damaged:\n{text.decode()}"
        assert item.token >= max(self._tokens.get(id, [0])), f"{self.fault}: {id} has token {item.token}"

    def _files(self, id: str) -> list[str]:
        return [place for place in places(self.root) if place.endswith(f"/{id}.md")]
