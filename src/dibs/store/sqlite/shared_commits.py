"""Verbs of many callers in one commit, for a server whose event loop must not wait for a verb.

The engine's thread runs the calls as writes of a group commit. A call may need several writes and reads; all of them
are part of the group's transaction, and each write has a savepoint of its own, as every write of a group has.
"""

from __future__ import annotations

from dibs.store.contract import SharedCommits
from dibs.store.sqlite.group_commit import PendingWrite, fails_group
from dibs.store.sqlite.store import SqliteStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.model import Request
    from dibs.store.contract import Watch
    from dibs.store.sql.transaction import Transaction
    from dibs.store.sqlite.engine import Engine
    from dibs.store.sqlite.transaction import SqliteTransaction
    from dibs.value import Value

    T = TypeVar("T")
    #: Is given the function that returns the answer or raises.
    OnEnd = Callable[[Callable[[], Any]], None]

NOT_OPEN = "a verb was called outside of `SharedCommits.call`"


class SqliteSharedCommits(SharedCommits):
    def __init__(self, store: SqliteStore) -> None:
        self._board_store = store
        self.store = self._transaction = OpenTransaction(store.engine)

    def call(self, work: Callable[[], Any], on_end: OnEnd) -> None:
        self._board_store.engine.queue.put(SharedCall(self, work, on_end))

    def run(self, call: SharedCall, t: Any) -> Any:
        """Run a call. What it raises is its answer, and what its verbs wrote stays; but if the store failed, nothing
        of the whole group stays."""
        self._transaction.begin(t)
        try:
            return call.verbs()
        except BaseException as error:
            call.raised = error
        finally:
            self._transaction.finish()

    def end(self, call: SharedCall) -> None:
        self._board_store.tell_freed(call)
        call.on_end(call.result)


class SharedCall(PendingWrite):
    """A call, as one of the writes of a group."""

    rolls_back = True

    def __init__(self, commits: SqliteSharedCommits, verbs: Callable[[], Any], on_end: OnEnd) -> None:
        super().__init__(lambda t: commits.run(self, t), None, None)
        self.verbs, self.on_end = verbs, on_end
        self.raised: BaseException | None = None
        self._commits = commits

    def end(self) -> None:
        self._commits.end(self)

    def result(self) -> Any:
        if self.error is None and self.raised is not None:
            raise self.raised
        return super().result()


class OpenTransaction(SqliteStore):
    """The verbs of a board inside of the transaction that is open. Only the engine's thread uses it."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.settings = engine, engine.settings
        self._outer: SqliteTransaction | None = None
        self._failure: BaseException | None = None

    def begin(self, t: SqliteTransaction) -> None:
        self._outer, self._failure = t, None

    def finish(self) -> None:
        """Raises if the store failed, also if the caller of the verb went on."""
        self._outer = None
        if self._failure is not None:
            raise self._failure

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        assert self._outer is not None, NOT_OPEN
        outer = self._outer
        write = PendingWrite(work, request, kind)
        try:
            self.engine.run_in_savepoint(outer.connection, write)
        except BaseException as error:
            self._failure = error
            raise
        outer.changed, outer.freed = outer.changed or write.changed, outer.freed or write.freed
        result: T = write.result()
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        assert self._outer is not None, NOT_OPEN
        t = self.engine.transaction(self._outer.connection)
        try:
            return work(t)
        except BaseException as error:
            if fails_group(error):
                self._failure = error
            raise
        finally:
            t.close()

    def watch(self, *, session: str | None = None) -> Watch:
        raise NotImplementedError("a call that shares its commit must not wait")

    def close(self) -> None:
        pass
