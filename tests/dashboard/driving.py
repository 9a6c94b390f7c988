"""A browser on the dashboard of a board: what a person sees, and does."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from dibs import api_keys
from dibs.board import Board
from dibs.model import ADMIN
from dibs.server.auth.callers import cookie_name
from dibs.testing.clock import FileClock
from tests.dashboard.fleet import Fleet
from tests.kit import browser as kit
from tests.kit.http import Host
from tests.kit.sqlite import SqliteHarness

#: Tests share two cores with others.
PATIENCE_MS = 30_000
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
VIEWS = ("now", "queue", "flight", "sessions", "timeline", "approvals", "metrics", "events")
#: What is wrong with the layout: parts that reach beyond the window, that lie on each other, or that scroll sideways.
BROKEN = """() => {
  const wrong = [], name = one => `${one.tagName}.${one.className} ${one.dataset.id ?? ""}`;
  const boxes = [...document.querySelectorAll(
    'header, .bar-top, .bar-bottom, .row, .card, .events li, article, .chart, aside, .cell, .buttons, h1, h2')];
  for (const one of boxes) {
    const box = one.getBoundingClientRect();
    const isBeyond = box.left < -1 || box.right > innerWidth + 1;
    if (box.width && isBeyond) wrong.push(`${name(one)} ${box.left}..${box.right}`);
  }
  const lines = [...document.querySelectorAll('.row[data-id], .card, .events li')];
  for (const one of lines) {
    const [box, next] = [one, one.nextElementSibling].map(each => each?.getBoundingClientRect());
    if (next && next.left === box.left && box.bottom > next.top + 1) wrong.push(`${name(one)} lies on the next`);
    const height = lines.find(other => other.className.split(' ')[0] === one.className.split(' ')[0]
      && other.parentElement === one.parentElement).offsetHeight;
    if (one.offsetHeight !== height) wrong.push(`${name(one)} is ${one.offsetHeight} high, not ${height}`);
  }
  const close = document.querySelector('.item .close')?.getBoundingClientRect();
  for (const title of close ? document.querySelectorAll('.item h1 bdi') : [])
    for (const line of title.getClientRects())
      if (line.right > close.left && line.bottom > close.top && line.top < close.bottom)
        wrong.push(`${title.textContent} lies under its buttons`);
  // A strip of tabs, and a table of figures, may be wider than a phone.
  for (const one of document.querySelectorAll('*'))
    if (one.scrollWidth > one.clientWidth + 1 && !one.closest('nav, .facets, .runs, .unseen')
        && (one === document.documentElement || /auto|scroll/.test(getComputedStyle(one).overflowX))
        && !one.querySelector('table.runs'))
      wrong.push(`${name(one)} scrolls sideways: ${one.scrollWidth} > ${one.clientWidth}`);
  return wrong;
}"""
expect.set_options(timeout=PATIENCE_MS)


class Site(NamedTuple):
    """The address of a server, and its board."""

    url: str
    board: Board


class Shop:
    """A board behind a server, with a fleet that works on it."""

    def __init__(self, host: Host, harness: SqliteHarness, fleet: Fleet) -> None:
        self.host, self.harness, self.fleet = host, harness, fleet
        self.board: Board = harness.board()
        self.url, self.key = host.serve(harness.recipe(), sweeps=True)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self.host.stop(self.url)

    def kill(self) -> None:
        """SIGKILL, which nothing of the server notices; see `alone`."""
        self.host.close()
        self.host = Host()

    def start_again(self, **options: Any) -> None:
        """At the same address, as after an upgrade."""
        self.url, self.key = self.host.serve(self.harness.recipe(), port=self.port, sweeps=True, **options)


@contextmanager
def alone(shop: Shop) -> Iterator[None]:
    """The server of the shop is a process of its own, which can be killed without those of other tests."""
    shop.stop()
    shared, shop.host = shop.host, Host()
    shop.start_again()
    try:
        yield
    finally:
        shop.host.close()
        shop.host = shared
        shop.start_again()


@contextmanager
def opened(shop: Shop, browser: Browser, view: str = "now", *, role: str = ADMIN, **options: Any) -> Iterator[Page]:
    """A page that is signed in, live, and has loaded its view. What goes wrong in it fails the test."""
    with signed_in(shop, browser, role=role, **options) as context:
        page, problems = tab(context, shop, view)
        yield page
    assert not problems, problems


@contextmanager
def signed_in(
    shop: Shop | Site, browser: Browser, *, role: str = ADMIN, script: str | None = None, **options: Any
) -> Iterator[BrowserContext]:
    context = browser.new_context(**{"viewport": WIDE, "locale": "en-GB", "timezone_id": "UTC", **options})
    context.set_default_timeout(PATIENCE_MS)
    if script is not None:
        context.add_init_script(script)
    try:
        sign_in(shop, context, role)
        yield context
    finally:
        # A route that still answers would fail the next test.
        context.unroute_all(behavior="ignoreErrors")
        context.close()


def sign_in(shop: Shop | Site, context: BrowserContext, role: str = ADMIN) -> None:
    key, secret = api_keys.new_for_browser(role, "ann")
    shop.board.store.put_key(key, seconds=3600)
    name = cookie_name(urlsplit(shop.url).netloc, is_secure=False)
    context.add_cookies([{"name": name, "value": secret, "url": shop.url, "httpOnly": True, "sameSite": "Strict"}])


def tab(context: BrowserContext, shop: Shop, view: str) -> tuple[Page, list[str]]:
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if _is_bad(said.type, said.text) else None)
    page.goto(f"{shop.url}/#{view}")
    live(page)
    return page, problems


def _is_bad(kind: str, text: str) -> bool:
    # A server that is away, and a refusal, are what some tests are about; both are shown by the page itself.
    return kind == "error" and "Failed to load resource" not in text


def live(page: Page) -> None:
    page.wait_for_selector(".lamp.live", state="attached")


def rows(page: Page, kind: str) -> list[str]:
    """The ids of the rows of a list that are in the document."""
    found: list[str] = page.eval_on_selector_all(
        f".rows.{kind} .row[data-id]", "rows => rows.map(row => row.dataset.id)"
    )
    return found


def await_true(page: Page, question: Callable[[], bool], why: str | Callable[[], str]) -> None:
    """Until something outside of the page is so."""
    for _ in range(PATIENCE_MS // 50):
        if question():
            return
        page.wait_for_timeout(50)
    raise AssertionError(why if isinstance(why, str) else why())


def found() -> kit.Program:
    """The program of a browser; without one, a test is skipped."""
    program, why_not = kit.find()
    if program is None:
        pytest.skip(why_not)
    return program


def board_of(folder: Path, shared: Path, name: str, fill: Callable[[Fleet], None]) -> tuple[SqliteHarness, Fleet]:
    """A board that the first of all test processes fills, and that the others copy."""
    original = shared / f"dashboard-{name}"
    with open(shared / f"dashboard-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not original.exists():
            making = shared / f"dashboard-{name}.making"
            making.mkdir()
            harness = _harness(making)
            harness.clock.freeze()
            fill(Fleet(harness.board(), harness.clock))
            harness.clock.run()
            harness.board().backup(str(making / "copy.db"))
            harness.close()
            making.rename(original)
    shutil.copyfile(original / "copy.db", folder / "board.db")
    shutil.copyfile(original / "clock", folder / "clock")
    copy = _harness(folder)
    fleet = Fleet(copy.board(), copy.clock, seed=2)
    fleet.resume()
    return copy, fleet


def _harness(folder: Path) -> SqliteHarness:
    clock = FileClock(folder / "clock")
    kwargs: dict[str, Any] = {"path": str(folder / "board.db"), "clock": clock.path, "broken": None, "settings": {}}
    return SqliteHarness(kwargs, clock, folder)


@contextmanager
def shop_of(name: str, fill: Callable[[Fleet], None]) -> Iterator[Shop]:
    """A shop of its own, outside of any test."""
    host = Host()
    try:
        with tempfile.TemporaryDirectory(prefix="dibs-dashboard-") as made:
            folder = Path(made) / "board"
            folder.mkdir()
            harness, fleet = board_of(folder, Path(made), name, fill)
            with harness:
                yield Shop(host, harness, fleet)
    finally:
        host.close()
