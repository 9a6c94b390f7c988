"""A transaction on a vault's index, which remembers its steps: each of them is to be written into a file."""

from __future__ import annotations

import os

from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.store.tables.queries import Statements
from dibs.store.vault.beats import NEVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    import apsw

    from dibs.config import Settings
    from dibs.rules.decision import Step
    from dibs.store.vault.runblocks import Annotation

    T = TypeVar("T")

#: About the files; those about the board are SQLite's.
STATEMENTS = Statements(os.path.dirname(__file__))


class VaultTransaction(SqliteTransaction):
    def __init__(self, cursor: apsw.Cursor, now: int, settings: Settings, *, writable: bool = False) -> None:
        super().__init__(cursor, now, settings, writable=writable)
        #: Which clone this is, if there are others of this vault, with sessions of their own.
        self.clone: str | None = None
        #: In the order in which they were taken.
        self.steps: list[Step] = []
        #: Items whose files are to be written whatever their steps say.
        self.stale: set[str] = set()

    def take(self, step: Step) -> None:
        super().take(step)
        self.steps.append(step)

    def see(self, session: str) -> None:
        """Whoever speaks here is here: an index that was made anew took every session for one elsewhere."""
        super().see(session)
        self.files("session_is_here", session=session, now=self.now)
        self.files("claims_are_here", session=session, now=self.now, never=NEVER)

    def floor(self) -> int:
        """Every token up to here may have been given, whatever the items say."""
        row = self.one("token_floor")
        assert row is not None
        return int(row[0])

    def annotations(self, item: str) -> list[Annotation]:
        """What was learned of the item's runs, oldest first, as lines of its file tell it."""
        from dibs import jsontext
        from dibs.store.vault.runblocks import Annotation

        found = []
        for at, actor, text in self.files("annotations", item=item):
            data = jsontext.loads(text)
            token, at = data.pop("run"), data.pop("told_at", at)
            found.append(Annotation(token=token, actor=actor, at=at, said=data))
        return found

    def files(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """A statement about the files."""
        found: list[tuple[Any, ...]] = self._cursor.execute(STATEMENTS[statement], parameters).fetchall()
        return found

    def attempt(self, work: Callable[[], T]) -> T:
        """Do `work`, or nothing of it if it raises."""
        connection, before = self._cursor.connection, len(self.steps)
        connection.execute("SAVEPOINT attempt")
        try:
            result = work()
        except BaseException:
            del self.steps[before:]
            connection.execute("ROLLBACK TO attempt")
            connection.execute("RELEASE attempt")
            raise
        connection.execute("RELEASE attempt")
        return result
