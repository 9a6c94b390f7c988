"""The dashboard in a real browser against its budget: on a board of 5,000 items, and on one with a million ended items.

    python -m bench page --seconds 6

Each view is opened in a context of its own, on a board that then changes 100 times a second. `cpu` and the longest
tasks are processor time of the page's main thread, so that other programs on the machine do not count; `at first` is
from the request for the page until a second after its rows. The first rows and the filter are real time.
`bench.long_day` says how the heap of a page that is open for 12 hours is found.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, Page

import dibs
from bench import dashboard, long_day
from bench.serving import served
from dibs.testing.clock import FileClock
from tests.dashboard import sizes
from tests.dashboard.driving import VIEWS, Site, live, shop_of, signed_in
from tests.dashboard.driving import found as found_browser
from tests.dashboard.fleet import Fleet
from tests.dashboard.test_views import CONTENT
from tests.kit import browser as kit

ITEMS, SESSIONS = 5_000, 200
EVENTS_PER_SECOND = 100
LIMITS = {
    **{"first load, kB gz": 20, "charts, kB gz": 25, "first rows, ms": 1_000, "longest task, ms": 50, "cpu, %": 10},
    **{"longest task at first, ms": 50, "rows": 60, "a filter, ms": 30, "heap, MB": 40},
}
#: A view that has its frame before its content is asked for the content.
FIRST = CONTENT | {"timeline": ".bar-top .count[data-runs]:not([data-runs='0'])"}
WATCHED = """window.rowsAt = null;
new MutationObserver((_, observer) => {
  if (document.querySelector(%s)) { rowsAt = performance.now(); observer.disconnect(); }
}).observe(document, {childList: true, subtree: true, attributes: true});"""
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

#: By the name of a figure and the view that it was found in, or "page".
Figures = dict[str, dict[str, float]]


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="bench page")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--ended", type=int, default=dashboard.LARGE.ended)
    parser.add_argument("--hours", type=float, default=12.0)
    parser.add_argument("--views", default=",".join(VIEWS))
    asked = parser.parse_args(arguments)
    views = asked.views.split(",")
    rows = _table(
        "", {"first load, kB gz": {"page": sizes.first_load() / 1000}, "charts, kB gz": {"page": sizes.charts() / 1000}}
    )
    with kit.launched(found_browser()) as browser:
        with shop_of("page", _fill) as shop:
            rows += _table(
                f"{ITEMS:,} items", _measured(Site(shop.url, shop.board), shop.fleet, browser, views, asked.seconds)
            )
            if asked.hours:
                heap = long_day.heap(shop, browser, asked.hours)
                rows += _table(f"after {asked.hours:g} h", {"heap, MB": {"now": heap}})
        if asked.ended:
            with _large_board(asked.ended) as (site, fleet):
                rows += _table(f"{asked.ended:,} ended", _measured(site, fleet, browser, views, asked.seconds))
    return f"The dashboard against its budget, {EVENTS_PER_SECOND} events a second", rows


def _table(board: str, figures: Figures) -> list[dict[str, object]]:
    return [
        {"board": board, "figure": name, "at most": LIMITS[name]} | {one: found.get(one) for one in ("page", *VIEWS)}
        for name, found in figures.items()
    ]


def _fill(fleet: Fleet) -> None:
    fleet.add(ITEMS)
    fleet.start(SESSIONS)
    fleet.play(6)
    fleet.settle()


@contextmanager
def _large_board(ended: int) -> Iterator[tuple[Site, Fleet]]:
    with tempfile.TemporaryDirectory(prefix="dibs-page-") as folder:
        path = str(Path(folder) / "board.db")
        dibs.connect(path, create=True).close()
        dashboard.made("SQLite", path, dashboard.LARGE._replace(ended=ended))
        with served(path) as (url, _), dibs.connect(path) as board:
            fleet = Fleet(board, FileClock(Path(folder) / "clock"))
            fleet.resume()
            # Something for the views of drafts and of what needs a person.
            fleet.settle()
            yield Site(url, board), fleet


def _measured(site: Site, fleet: Fleet, browser: Browser, views: Sequence[str], seconds: float) -> Figures:
    figures: Figures = {}
    for view in views:
        with signed_in(site, browser, script=WATCHED % json.dumps(FIRST[view])) as context:
            for name, value in _view(site, fleet, context.new_page(), view, seconds).items():
                figures.setdefault(name, {})[view] = value
    return figures


def _view(site: Site, fleet: Fleet, page: Page, view: str, seconds: float) -> dict[str, float]:
    with _traced(page) as first:
        page.goto(f"{site.url}/#{view}")
        live(page)
        page.wait_for_selector(FIRST[view], state="attached")
        page.wait_for_timeout(1_000)
    figures = {"first rows, ms": page.evaluate("rowsAt"), "longest task at first, ms": max(first)}
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, began = _metrics(session)["TaskDuration"], time.monotonic()
    with _traced(page) as tasks, _busy(fleet):
        page.wait_for_timeout(seconds * 1000)
    figures["cpu, %"] = 100 * (_metrics(session)["TaskDuration"] - before) / (time.monotonic() - began)
    figures["longest task, ms"] = max(tasks)
    figures["rows"] = page.locator(".row[data-id], .card, .events li").count()
    if view == "queue":
        figures["a filter, ms"] = page.evaluate(FILTERED)
    figures["heap, MB"] = long_day.heap_of(session)
    return figures


@contextmanager
def _traced(page: Page) -> Iterator[list[float]]:
    """The tasks of the page's main thread, in milliseconds of processor time; the list is filled in the end."""
    browser = page.context.browser
    assert browser is not None
    tasks: list[float] = []
    browser.start_tracing(page=page, categories=["toplevel"])
    yield tasks
    events = json.loads(browser.stop_tracing())["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    tasks += [
        one["tdur"] / 1000
        for one in events
        if one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in mains and "tdur" in one
    ]


def _metrics(session: CDPSession) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


@contextmanager
def _busy(fleet: Fleet) -> Iterator[None]:
    """Sessions at work, in a thread, that cause as many events a second as the budget names."""
    first = fleet.board.events(newest=True, limit=1)[0].id
    ends = threading.Event()
    count = 0

    def work() -> None:
        nonlocal count
        began = time.monotonic()
        while not ends.is_set():
            fleet.act(5)
            count = fleet.board.events(newest=True, limit=1)[0].id - first
            ends.wait(max(0.0, began + count / EVENTS_PER_SECOND - time.monotonic()))

    thread, began = threading.Thread(target=work), time.monotonic()
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    rate = count / (time.monotonic() - began)
    if rate < EVENTS_PER_SECOND * 0.8:
        print(f"this machine managed only {rate:.0f} events a second")
