"""Writers that commit in another order than that in which they drew the numbers of their events, and who reads them.

A writer holds its transaction open at the `Shuffle`, which lets go of one of those that wait there, drawn at random.
Readers follow the feed page by page meanwhile, as a dashboard does; the naive one goes by the numbers alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import ItemAlreadyClaimed, ItemNotClaimed, NotClaimOwner
from dibs.store.postgres.store import PostgresStore
from tests.kit.waiting import PATIENCE_SECONDS

Connection = psycopg.Connection[tuple[Any, ...]]
Seen = tuple[int, str, int]

PAGE = 20
NEWS_SECONDS = 0.005
#: Whoever is waited for may itself wait for one who is held here: after this long without news, one is let go.
STILL_SECONDS = 0.02
#: The latest event that this connection wrote, if its open transaction did.
WRITTEN = "SELECT id FROM dibs.events WHERE id = currval('dibs.events_id_seq') AND xmin = pg_current_xact_id()::xid"


class Shuffle:
    """Keeps up to `keep` writers waiting, fewer as they end, and lets them go in an order that is drawn."""

    def __init__(self, draw: random.Random, writers: int, keep: int) -> None:
        self._draw, self._writers, self._keep = draw, writers, keep
        self._waiting: list[threading.Event] = []
        self._lock = threading.Lock()

    def wait(self) -> None:
        turn = threading.Event()
        with self._lock:
            self._waiting.append(turn)
            self._let_go()
        while not turn.wait(STILL_SECONDS):
            with self._lock:
                self._let_one_go()

    def leave(self) -> None:
        """One of the writers has ended."""
        with self._lock:
            self._writers -= 1
            self._let_go()

    def _let_go(self) -> None:
        while len(self._waiting) > min(self._keep, self._writers // 2):
            self._let_one_go()

    def _let_one_go(self) -> None:
        if self._waiting:
            self._waiting.pop(self._draw.randrange(len(self._waiting))).set()


class Commits:
    """What each transaction wrote last, and when that became visible: between the beginning and end of its COMMIT."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int, int]] = []
        self.news = threading.Event()

    def commit(self, connection: Connection, event: int) -> None:
        start_ns = time.monotonic_ns()
        connection.execute("COMMIT")
        self._seen.append((event, start_ns, time.monotonic_ns()))
        self.news.set()

    def __len__(self) -> int:
        return len(self._seen)

    def overtaken(self) -> int:
        """How many began to commit when one with later events could already be seen."""
        count, earliest_end_ns = 0, None
        for _, start_ns, end_ns in sorted(self._seen, reverse=True):
            count += earliest_end_ns is not None and earliest_end_ns < start_ns
            earliest_end_ns = end_ns if earliest_end_ns is None else min(earliest_end_ns, end_ns)
        return count


class HoldingStore(PostgresStore):
    """A store that commits what the functions of the board did only when the shuffle lets it."""

    def __init__(self, url: str, shuffle: Shuffle, commits: Commits) -> None:
        super().__init__(url, DEFAULTS)
        self._shuffle, self._commits = shuffle, commits

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        with self._pool.connection() as connection:
            connection.execute("BEGIN")
            row = connection.execute(function, parameters).fetchone()
            assert row is not None
            written = None if "no" in row[0] else connection.execute(WRITTEN).fetchone()
            if written is None:
                connection.execute("COMMIT")
            else:
                self._shuffle.wait()
                self._commits.commit(connection, written[0])
        answer: dict[str, Any] = row[0]
        return answer


def write(name: str, items: Iterable[str], holding: Board, usual: Board) -> None:
    """Take each item, note how far it is and give it back: now held open, now as usual. What another has is taken from
    it, so that an item's events come from many connections."""
    for number, item in enumerate(items):
        try:
            token = holding.claim(item, session=name).claim.token
            (holding if number % 2 else usual).progress(item, f"note {number}", session=name, token=token)
            holding.release(item, session=name, token=token)
        except ItemAlreadyClaimed:
            _take_from_whoever_has_it(holding, item)
        except (ItemNotClaimed, NotClaimOwner):
            pass  # it was taken from this one


def _take_from_whoever_has_it(board: Board, item: str) -> None:
    try:
        board.force_release(item, reason="it is wanted")
    except ItemNotClaimed:
        pass  # it was given back meanwhile


class Reader:
    """Follows the feed from its beginning, and keeps what it saw: (id, item, number)."""

    def __init__(self, page: Callable[[int], list[Seen]], news: threading.Event) -> None:
        self.seen: list[Seen] = []
        self._page, self._news = page, news
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def finish(self) -> None:
        """Nobody writes any more: read the rest."""
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the reader never came to an end"

    def missed(self, written: set[int]) -> set[int]:
        return written - {id for id, _, _ in self.seen}

    def twice(self) -> list[int]:
        return [id for id, count in Counter(id for id, _, _ in self.seen).items() if count > 1]

    def out_of_order(self) -> list[str]:
        """Items whose events did not come one after the other, from the first on."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for _, item, number in self.seen:
            numbers[item].append(number)
        return [item for item, its in numbers.items() if its != list(range(1, len(its) + 1))]

    def _follow(self) -> None:
        while True:
            is_over = self._over.is_set()
            found = self._page(self.seen[-1][0] if self.seen else 0)
            self.seen.extend(found)
            if not found and is_over:
                return
            if not found:
                self._news.wait(NEWS_SECONDS)
                self._news.clear()


def by_the_feed(board: Board) -> Callable[[int], list[Seen]]:
    return lambda after: [(event.id, event.item, event.number) for event in board.events(after=after, limit=PAGE)]


def by_numbers_alone(connection: Connection) -> Callable[[int], list[Seen]]:
    """What looks right at first: everything above the cursor, in order."""
    words = "SELECT id, item, number FROM dibs.events WHERE id > %s ORDER BY id LIMIT %s"
    return lambda after: connection.execute(words, [after, PAGE]).fetchall()
