"""A board that is led through everything an item can meet, so that documents can be compared with what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError
from dibs.model import Event, Owner, Reason
from dibs.store.sqlite.store import SqliteStore
from dibs.store.vault.store import VaultStore
from tests.kit.owners import found_dead
from tests.vault.clones import move
from tests.vault.test_git_store import Pair

TTL_SECONDS = 60
START = 1_700_000_000_000
LATER = START + 10**9
ENDED_BY_THEN_SECONDS = 1
OVER = {"external": {"over": "closed on GitHub"}}


class Led:
    """`events` is every kind of event, `refusals` every kind of refusal that a board gives, `reasons` every answer to
    `why`, and `records` what it exports."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self.path = str(folder / "board.db")
        self.board = Board(self._store(create=True), DEFAULTS, actor="you")
        self.coder = self.board.start_session("coder", id="coder-1").id
        self.fixer = self.board.start_session("fixer", id="fixer-1").id
        self.third = self.board.start_session("third", id="third-1").id
        self.refusals: list[DibsError] = []
        self.reasons: list[Reason] = []
        try:
            self._live()
            self._let_go_of_what_is_over()
            self._rest()
            self._draft()
            self._queue()
            self._ask_why()
            self._refuse()
            self.records: list[tuple[str, dict[str, Any]]] = list(self.board.export())
            self.events: tuple[Event, ...] = self.board.events(limit=10_000)
            self._go_back(str(folder / "backup.db"))
            self.events += self.board.events(newest=True, limit=100)
            self.records += self.board.export()
            self.events += self._find(folder / "vault")
            self.events += self._lose(folder / "clones")
        finally:
            self.board.close()

    def _store(self, *, create: bool = False) -> SqliteStore:
        return SqliteStore(self.path, DEFAULTS, create=create, clock=lambda: self.now)

    def _find(self, root: Path) -> tuple[Event, ...]:
        """What a vault makes of a file that has been through something, and of one that is moved as no verb says."""
        facts = '{"token": 1, "attempts": 1, "strikes": 1, "failures": 1, "created_by": "you", "created_at": 1}'
        block = "**Claimed By**: coder\n**Claimed At**: 2026-01-01T00:00:00.000Z\n**Status**: failed\n"
        block += "**Session**: coder-1\n**Token**: 1\n\n## Completion\n\n"
        block += "**Completed At**: 2026-01-01T00:00:01.000Z\n**Outcome**: failed\n"
        store = VaultStore(str(root), DEFAULTS, create=True, clock=lambda: self.now)
        text = f"---\ndibs: {facts}\n---\n# X\n\n<!-- dibs: runs -->\n# Claimed Task: x\n\n{block}"
        (root / "Needs_Action" / "x.md").write_text(text)
        vault = Board(store, DEFAULTS, actor="you")
        vault.get("x")
        (root / "Needs_Action" / "x.md").rename(root / "Pending_Approval" / "x.md")
        vault.get("x")
        (root / "Approved" / "y.md").write_text("# Y")
        events = vault.events(limit=100)
        vault.close()
        return tuple(event for event in events if event.kind == "found")

    def _lose(self, folder: Path) -> tuple[Event, ...]:
        """What a clone makes of a claim that another one has pushed first."""
        folder.mkdir()
        pair = Pair(folder)
        pair.a.claim("x", session=pair.alice)
        move(pair.there, "Needs_Action/x.md", "In_Progress/local/x.md")
        pair.b.sync()
        events = pair.b.events(limit=100)
        pair.a.close()
        pair.b.close()
        return tuple(event for event in events if event.kind == "found")

    def _live(self) -> None:
        board, me = self.board, self.coder
        for id in ("released", "forgotten", "forced", "expired", "done", "failed", "cancelled", "held"):
            board.add("Fix login", id=id, labels=["web"])
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
        board.edit("done", title="Fix the login", labels=["web", "auth"])
        board.progress("done", "half of it", session=me, meta={"percent": 50})
        board.release("released", session=me, reason="needs a designer")
        board.heartbeat(session=me, holding=dict.fromkeys(("forced", "expired", "done", "failed", "cancelled", "held")))
        board.force_release("forced", reason="stuck")
        board.hand("expired", to=self.fixer, session=me, reason="yours", ttl_seconds=TTL_SECONDS)
        board.hand("expired", to=me, session=self.fixer, ttl_seconds=TTL_SECONDS)
        board.done("done", session=me, note="it was the cookie", links={"pr": "7"}, cost={"tokens": 1})
        board.annotate("done", links={"pr": "8"}, checks={"ci": "passed"}, cost={"tokens": 2})
        board.fail("failed", session=me, reason="cannot be reproduced", links={"log": "1"}, cost={"tokens": 2})
        board.retry("failed", reason="now it can")
        board.cancel("cancelled", reason="duplicate")
        board.cancel(board.add("Fix logout").id)
        self._reopen()
        self.now += TTL_SECONDS * 1000
        board.sweep()
        self._let_an_owner_die()

    def _reopen(self) -> None:
        board, me = self.board, self.coder
        board.add("Fix login", id="reopened", needs_approval=True)
        board.approve("reopened")
        board.claim("reopened", session=me)
        board.done("reopened", session=me)
        board.add("Fix login", id="waits-again", depends_on=["reopened"])
        board.claim("waits-again", session=me)
        self._refused(lambda: board.reopen("reopened"))
        board.release("waits-again", session=me)
        board.reopen("reopened", reason="it fails on Windows")

    def _let_an_owner_die(self) -> None:
        gone = Owner(boot_id="of another day", pid_namespace=1, pid=1, start_time=1)
        store = self.board.store
        owned = self.board.start_session("owned", id="owned-1").replace(id="owned-2", owner=gone)
        store.start_session(owned)
        self.board.add("Fix login", id="orphan")
        self.board.claim("orphan", session=owned.id)
        self.board.add("Fix login", id="over", payload=OVER)
        self.board.claim("over", session=owned.id)
        with found_dead((owned.id, gone)):
            self.reasons += self.board.why("orphan")
            store.sweep(limit=10)

    def _let_go_of_what_is_over(self) -> None:
        board, me = self.board, self.coder
        ids = [f"over-{verb}" for verb in ("release", "fail", "force", "expire", "forget")]
        for id in ids:
            board.add("Fix login", id=id, payload=OVER, retries=1)
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
        board.release(ids[0], session=me)
        board.fail(ids[1], session=me)
        board.force_release(ids[2], reason="stuck")
        board.heartbeat(session=me, holding={ids[3]: None})
        self.now += TTL_SECONDS * 1000
        board.sweep()

    def _rest(self) -> None:
        """Blocked, scheduled, tried again, set aside."""
        board, me = self.board, self.coder
        board.add("Design", id="design", retries=1)
        board.add("Build", id="build", depends_on=["design"])
        board.add("Ship", id="ship", depends_on=["design"], not_before=LATER)
        board.add("Later", id="later", not_before=self.now + 1000)
        board.claim("design", session=me)
        board.fail("design", session=me)
        self.now += round(DEFAULTS.retry_backoff_seconds * 1000)
        board.sweep()
        board.claim("design", session=me)
        board.done("design", session=me)
        board.park("build", reason="not now")
        board.claim("build", session=me)
        board.release("build", session=me, park=True)
        board.unpark("build")

    def _draft(self) -> None:
        """Submitted, sent back, approved, edited after that, rejected."""
        board, me = self.board, self.coder
        board.add("Mail", id="mail", needs_approval=True)
        board.approve("mail", comment="go on")
        board.claim("mail", session=me)
        board.submit("mail", session=me, draft="Dear customer", links={"doc": "1"}, cost={"tokens": 3})
        board.send_back("mail", comment="shorter")
        board.claim("mail", session=me)
        board.submit("mail", session=me, draft="Sorry", note="half as long")
        board.approve("mail")
        board.edit("mail", title="Mail them")
        board.reject("mail", reason="never mind")
        board.add("Call", id="call", needs_approval=True)
        board.approve("call", done=True)
        board.add("Write", id="write")
        board.claim("write", session=me)
        board.reject("write", session=me, reason="not our business")

    def _queue(self) -> None:
        """A ticket closed for each reason there is, but for a restored board."""
        board, me, other, third = self.board, self.coder, self.fixer, self.third
        for id in ("wanted", "ended", "aside"):
            board.add("Deploy", id=id)
            board.claim(id, session=me)
            board.wait(id, session=other)
        board.done("ended", session=me)
        board.wait("aside", session=third)
        board.release("aside", session=me)
        board.park("aside")
        board.leave("aside", session=third)
        board.wait("wanted", session=third, ttl_seconds=1)
        leaver = board.start_session("leaver").id
        board.wait("wanted", session=leaver)
        board.end_session(leaver)
        board.wait("wanted", session=board.start_session("full").id)
        board.release("wanted", session=me)
        self.now += round(DEFAULTS.accept_seconds * 1000)
        board.sweep()
        self._cannot_accept("wanted")
        board.wait("wanted", session=other)
        board.claim("wanted", session=other)

    def _cannot_accept(self, item: str) -> None:
        (full,) = [view.session.id for view in self.board.sessions() if view.session.agent == "full"]
        self.board.set_agent("full", max_claims=1)
        self.board.add("Busy", id="busy")
        self.board.claim("busy", session=full)
        self._refused(lambda: self.board.claim(item, session=full))

    def _ask_why(self) -> None:
        board, me, other = self.board, self.coder, self.fixer
        board.set_agent("picky", types=["docs"])
        picky = board.start_session("picky").id
        board.add("Urgent", id="urgent", priority=100)
        for id in ("mine", "parked", "kept"):
            board.add("Ask", id=id)
        board.claim("mine", session=me)
        board.park("parked")
        board.wait("kept", session=me)
        for item in ("mine", "parked", "kept", "urgent"):
            self.reasons += board.why(item, session=me)
        for item, session in (("mine", other), ("urgent", picky), ("released", other)):
            self.reasons += board.why(item, session=session)
        board.leave("kept", session=me)

    def _refuse(self) -> None:
        board, me, other = self.board, self.coder, self.fixer
        self._refused(lambda: board.get("nothing"))
        self._refused(lambda: board.claim("held", session="nobody"))
        board.claim("held", session=other, ttl_seconds=TTL_SECONDS)
        self._refused(lambda: board.claim("held", session=me))
        self._refused(lambda: board.done("released", session=other))
        self._refused(lambda: board.release("released", session=me))
        self._refused(lambda: board.force_release("released", reason="stuck"))
        self._refused(lambda: board.claim("done", session=me))
        self._refused(lambda: board.retry("done"))
        self._refused(lambda: board.done("held", session=self.third))
        board.claim("released", session=other)
        self._refused(lambda: board.release("released", session=me))
        self._refused(lambda: board.done("held", session=me, token=1))
        self._refused(lambda: board.done("expired", session=me, token=1))
        self._refused(lambda: board.add("x", id="a/b"))
        self._refuse_what_waits()
        self._refuse_by_policy()
        other_store = SqliteStore(self.path, DEFAULTS.replace(lock_wait_seconds=0.05))
        board.store.engine.lock.acquire()  # type: ignore[attr-defined]
        try:
            self._refused(lambda: Board(other_store).add("x"))
        finally:
            board.store.engine.lock.release()  # type: ignore[attr-defined]
            other_store.close()
        self._refused(lambda: SqliteStore(self.path + "-missing", DEFAULTS))

    def _refuse_what_waits(self) -> None:
        board, me, other = self.board, self.coder, self.fixer
        board.add("Test", id="test", depends_on=["urgent"])
        self._refused(lambda: board.claim("test", session=me))
        self._refused(lambda: board.claim("ship", session=me))
        board.add("Offered", id="offered")
        board.wait("offered", session=other)
        self._refused(lambda: board.claim("offered", session=me))
        self._refused(lambda: board.leave("test", session=me))
        self._refused(lambda: board.soft_release("test", session=me))
        board.soft_claim("test", session=me)

    def _refuse_by_policy(self) -> None:
        board, me, other = self.board, self.coder, self.fixer
        for id in ("one", "two"):
            board.add("Port", id=id, resources=["port:8080"])
        board.claim("one", session=other)
        self._refused(lambda: board.claim("two", session=me))
        board.set_agent("fixer", max_claims=1)
        self._refused(lambda: board.claim("expired", session=other))
        board.set_agent("third", claims_per_minute=1, sensitive_actions=["send"])
        self._refused(lambda: board.claim("expired", session=self.third))
        board.add("Send", id="send", action="send")
        board.claim("send", session=self.third)
        self._refused(lambda: board.done("send", session=self.third))
        self._refused(lambda: board.next(session=self.third))
        board.submit("send", session=self.third, draft="Hello")
        self._refused(lambda: board.approve("send", actor="third"))
        self._refused(lambda: board.approve("send", revision=1))
        self._refused(lambda: board.edit("send", relabel=False, action="read"))
        board.add("x", id="idempotent", request_id="r-1")

    def _go_back(self, path: str) -> None:
        board, me = self.board, self.coder
        board.add("Held over", id="held-over")
        board.claim("held-over", session=me)
        board.wait("held-over", session=self.fixer)
        board.backup(path)
        board.restore(path)
        self._refused(lambda: board.done("held-over", session=me, token=1))
        self.now += ENDED_BY_THEN_SECONDS * 1000 + 1
        board.prune(older_than_seconds=ENDED_BY_THEN_SECONDS)
        self._refused(lambda: board.events(after=0))

    def _refused(self, call: Callable[[], object]) -> None:
        try:
            call()
        except DibsError as refusal:
            self.refusals.append(refusal)
        else:
            raise AssertionError("this was to be refused")
