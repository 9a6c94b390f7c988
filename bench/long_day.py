"""The heap of a dashboard that is open for hours, found in minutes.

A fleet of 200 sessions that causes ten events a second causes 432,000 in 12 hours. They are written into the tables of
a SQLite board as copies of one item's events and run, in batches; with each batch the board's clock moves on, and the
page has shown a batch before the next one is written. Server, stream, worker and page are those of every day; only the
pauses between events are left out.
"""

from __future__ import annotations

import apsw
from playwright.sync_api import Browser, CDPSession, expect

from tests.dashboard.driving import Shop, opened

EVENTS_PER_HOUR = 36_000
BATCH_ITEMS = 1_200
#: Each of these events is one that a worker causes for every item: added, claimable, claimed, three notes, done.
TEMPLATE = "template"
PATIENCE_MS = 60_000


def heap(shop: Shop, browser: Browser, hours: float) -> float:
    """In megabytes, after a collection."""
    events = _add_template(shop)
    # The claims of the fleet would expire between two batches, and their events would hide that a batch has arrived.
    shop.harness.clock.advance(86_400)
    while shop.board.sweep().more:
        pass
    path = shop.harness.recipe()["kwargs"]["path"]
    batches = round(hours * EVENTS_PER_HOUR / events / BATCH_ITEMS)
    with opened(shop, browser) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        for batch in range(batches):
            # Not quite as far: a key is renewed by the clock of the machine, and lasts for 12 hours on the board's.
            shop.harness.clock.advance(0.9 * hours * 3600 / batches)
            _write(path, batch, shop.harness.clock.now())
            # A commit of the store wakes those that follow the board.
            shop.board.add("A batch", id=f"batch-{batch}")
            expect(page.locator(".feed li", has_text=f"batch-{batch}").first).to_be_attached(timeout=PATIENCE_MS)
        return heap_of(session)


def heap_of(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used / 1e6


def _add_template(shop: Shop) -> int:
    """How many events it has."""
    shop.board.add("Login fails on Safari", id=TEMPLATE, project="shop", type="bug", labels=["web"], priority=1_000)
    session = shop.board.start_session("coder", id="copied", kind="cli").id
    shop.board.claim(TEMPLATE, session=session)
    for note in ("reading the code", "found it: a missing index", "tests green, pushing"):
        shop.board.progress(TEMPLATE, note, session=session)
    shop.board.done(TEMPLATE, session=session, note="merged", cost={"usd": 1.25})
    return len(shop.board.log(TEMPLATE))


def _write(path: str, batch: int, now: int) -> None:
    """Copies of the template's events and run, all of them at this instant."""
    database = apsw.Connection(path)
    database.set_busy_timeout(PATIENCE_MS)
    with database:
        for table, left_out, instants in (
            ("runs", ("seq",), ("started_at", "ended_at")),
            ("events", ("id",), ("at",)),
        ):
            names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})") if name not in left_out]
            values = [
                f"'day-{batch}-' || n" if name == "item" else str(now) if name in instants else f"x.{name}"
                for name in names
            ]
            order = ", x.number" if table == "events" else ""
            database.execute(
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"  # noqa: S608  # our own
                f" INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"
                f" FROM n CROSS JOIN {table} x WHERE x.item = ? ORDER BY n{order}",
                (BATCH_ITEMS, TEMPLATE),
            )
    database.close()
