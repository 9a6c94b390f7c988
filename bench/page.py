"""The dashboard in a real browser against its budget, on a board of 5,000 items and 200 sessions.

python -m bench page --seconds 10
"""

from __future__ import annotations

import argparse
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, Page

from dibs.server import pages
from tests.dashboard.driving import VIEWS, Shop, live, shop_of, signed_in
from tests.dashboard.driving import found as found_browser
from tests.dashboard.fleet import Fleet
from tests.kit import browser as kit

ITEMS, SESSIONS = 5_000, 200
EVENTS_PER_SECOND = 100
WATCHED = """window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(one => tasks.push(one.duration)))
  .observe({type: 'longtask', buffered: true});
window.rowsAt = null;
new MutationObserver((_, observer) => {
  if (document.querySelector('.row[data-id], .card')) { rowsAt = performance.now(); observer.disconnect(); }
}).observe(document, {childList: true, subtree: true});"""
FILTERED = """() => new Promise(resolve => {
  const field = document.getElementById('filter'), began = performance.now();
  const titles = () => [...document.querySelectorAll('.row[data-id] .c-title')];
  new MutationObserver((_, observer) => {
    if (!titles().every(one => /webhooks/.test(one.textContent))) return;
    observer.disconnect();
    resolve(performance.now() - began);
  }).observe(document.querySelector('.rows'), {childList: true, characterData: true, subtree: true});
  field.value = 'webhooks';
  field.dispatchEvent(new Event('input', {bubbles: true}));
})"""


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="bench page")
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args(arguments)
    rows = [
        _row("first load, compressed", _first_load(), "kB", 20),
        _row("charts, compressed", _size("metrics-"), "kB", 25),
    ]
    with shop_of("page", _fill) as shop, kit.launched(found_browser()) as browser:
        for view in VIEWS:
            with signed_in(shop, browser, script=WATCHED) as context:
                rows += _view(shop, context, view, asked.seconds)
    return f"The dashboard on {ITEMS:,} items and {SESSIONS} sessions, {EVENTS_PER_SECOND} events a second", rows


def _fill(fleet: Fleet) -> None:
    fleet.add(ITEMS)
    fleet.start(SESSIONS)
    fleet.play(6)
    fleet.settle()


def _first_load() -> float:
    page = pages.assets()[pages.INDEX]
    names = re.findall(r'/assets/([^"]+)', page.content.decode())
    return (len(page.compressed) + sum(len(pages.assets()[name].compressed) for name in names)) / 1000


def _size(prefix: str) -> float:
    return sum(len(one.compressed) for name, one in pages.assets().items() if name.startswith(prefix)) / 1000


def _view(shop: Shop, context: BrowserContext, view: str, seconds: float) -> list[dict[str, object]]:
    page = context.new_page()
    page.goto(f"{shop.url}/#{view}")
    live(page)
    rows = []
    if view in ("now", "queue", "flight", "sessions"):
        page.wait_for_function("rowsAt !== null")
        rows.append(_row(f"{view}: first rows", page.evaluate("rowsAt"), "ms", 1000))
    if view == "queue":
        rows.append(_row(f"{view}: a word in the filter", page.evaluate(FILTERED), "ms", 30))
    page.wait_for_timeout(1_000)
    page.evaluate("tasks.length = 0")
    metrics = _Metrics(page)
    before, began = metrics.read(), time.monotonic()
    with _busy(shop.fleet) as count:
        page.wait_for_timeout(seconds * 1000)
    lasted, after = time.monotonic() - began, metrics.read()
    busy = 100 * (after["TaskDuration"] - before["TaskDuration"]) / lasted
    rows.append(_row(f"{view}: main thread at {count[0] / lasted:.0f} events/s", busy, "%", 10))
    rows.append(_row(f"{view}: longest task", page.evaluate("Math.max(0, ...tasks)"), "ms", 50))
    rows.append(_row(f"{view}: rows", page.locator(".row[data-id], .card, .events li").count(), "", 60))
    rows.append(_row(f"{view}: heap", after["JSHeapUsedSize"] / 1e6, "MB", 40))
    return rows


class _Metrics:
    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        # Processor time, so that other programs on the machine do not count.
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self) -> dict[str, float]:
        return {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}


@contextmanager
def _busy(fleet: Fleet) -> Iterator[list[int]]:
    """Sessions at work, in a thread; the list has the number of events so far."""
    first = fleet.board.events(newest=True, limit=1)[0].id
    count, ends = [0], threading.Event()

    def work() -> None:
        began = time.monotonic()
        while not ends.is_set():
            fleet.act(5)
            count[0] = fleet.board.events(newest=True, limit=1)[0].id - first
            ends.wait(max(0.0, began + count[0] / EVENTS_PER_SECOND - time.monotonic()))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield count
    finally:
        ends.set()
        thread.join()


def _row(what: str, value: float, unit: str, target: float) -> dict[str, object]:
    return {"what": what, "measured": f"{value:.1f} {unit}".strip(), "at most": f"{target} {unit}".strip()}
