"""A board that is led through everything an item can meet, so that documents can be compared with what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError
from dibs.model import Event, Owner
from dibs.store.sqlite.store import SqliteStore

TTL_SECONDS = 60
START = 1_700_000_000_000


class Led:
    """`events` is every kind of event, `refusals` every kind of refusal that a board gives."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self.path = str(folder / "board.db")
        self.board = Board(self._store(create=True), DEFAULTS, actor="you")
        self.coder = self.board.start_session("coder", id="coder-1").id
        self.fixer = self.board.start_session("fixer", id="fixer-1").id
        self.refusals: list[DibsError] = []
        try:
            self._live()
            self._refuse()
            self.events: tuple[Event, ...] = self.board.events()
        finally:
            self.board.close()

    def _store(self, *, create: bool = False) -> SqliteStore:
        return SqliteStore(self.path, DEFAULTS, create=create, clock=lambda: self.now)

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
        board.done("done", session=me, note="it was the cookie", links={"pr": "7"}, cost={"tokens": 1})
        board.fail("failed", session=me, reason="cannot be reproduced", links={"log": "1"}, cost={"tokens": 2})
        board.retry("failed", reason="now it can")
        board.cancel("cancelled", reason="duplicate")
        board.cancel(board.add("Fix logout").id)
        self.now += TTL_SECONDS * 1000
        board.sweep()
        self._let_an_owner_die()

    def _let_an_owner_die(self) -> None:
        gone = Owner(boot_id="of another day", pid_namespace=1, pid=1, start_time=1)
        store = self.board.store
        owned = self.board.start_session("owned", id="owned-1").replace(id="owned-2", owner=gone)
        store.start_session(owned)
        self.board.add("Fix login", id="orphan")
        self.board.claim("orphan", session=owned.id)
        store.sweep(dead=[(owned.id, gone)], limit=10)

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
        self._refused(lambda: board.done("held", session=self.board.start_session("third").id))
        board.claim("released", session=other)
        self._refused(lambda: board.release("released", session=me))
        self._refused(lambda: board.done("held", session=me, token=1))
        self._refused(lambda: board.done("expired", session=me, token=1))
        board.set_agent("fixer", max_claims=1)
        self._refused(lambda: board.claim("expired", session=other))
        self._refused(lambda: board.add("x", id="a/b"))
        other_store = SqliteStore(self.path, DEFAULTS.replace(lock_wait_seconds=0.05))
        board.store._lock.acquire()  # type: ignore[attr-defined]
        try:
            self._refused(lambda: Board(other_store).add("x"))
        finally:
            board.store._lock.release()  # type: ignore[attr-defined]
            other_store.close()
        self._refused(lambda: SqliteStore(self.path + "-missing", DEFAULTS))

    def _refused(self, call: Callable[[], object]) -> None:
        try:
            call()
        except DibsError as refusal:
            self.refusals.append(refusal)
        else:
            raise AssertionError("this was to be refused")
