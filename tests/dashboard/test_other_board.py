"""A board that was restored from a backup under an open page: the page shows what the board has now."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.driving import Shop, live, signed_in, tab
from tests.dashboard.test_live import agrees

in_a_soak = pytest.mark.skipif(not os.environ.get("DIBS_SOAK"), reason="the same once more: in a soak")


def lose(shop: Shop, count: int = 5) -> str:
    """A backup, and work that it does not have; the path of the backup."""
    copy = str(Path(shop.harness.folder) / "kept.db")
    shop.board.backup(copy)
    for number in range(count):
        shop.board.add("Lost work", id=f"lost-{number}", priority=10)
    shop.board.claim("lost-0", session=shop.fleet.sessions[0], ttl_seconds=3600)
    return copy


def knows_nothing_of_it(page: Page, shop: Shop) -> None:
    agrees(page, shop)
    page.goto(re.sub("#.*", "#queue?q=lost", page.url))
    expect(page.locator(".row.empty")).to_contain_text("Nothing fits")
    page.goto(re.sub("#.*", "#events", page.url))
    page.wait_for_selector(".tall li")
    expect(page.locator(".tall li", has_text="lost-")).to_have_count(0)


def test_a_restore_under_a_running_server(shop: Shop, browser: Browser) -> None:
    with signed_in(shop, browser) as context:
        copy = lose(shop)
        page, problems = tab(context, shop, "flight")
        expect(page.locator('.row[data-id="lost-0"]')).to_have_count(1)
        shop.board.restore(copy)
        knows_nothing_of_it(page, shop)
        assert not problems


def test_a_restore_that_writes_no_event(shop: Shop, browser: Browser) -> None:
    """The backup has no item whose token would be retired."""
    copy = str(Path(shop.harness.folder) / "empty.db")
    with shop.harness.elsewhere() as empty:
        empty.board().backup(copy)
    with signed_in(shop, browser) as context:
        page, problems = tab(context, shop, "flight")
        agrees(page, shop)
        shop.board.restore(copy)
        expect(page.locator(".row.empty")).to_contain_text("Nobody holds anything")
        page.goto(re.sub("#.*", "#events", page.url))
        expect(page.locator(".tall")).to_have_text("Nothing has happened yet.")
        page.goto(re.sub("#.*", "#flight", page.url))
        shop.board.start_session("coder", id="later")
        shop.board.add("After it", id="after-it")
        shop.board.claim("after-it", session="later")
        agrees(page, shop)
        assert not problems


@pytest.mark.parametrize("later", [0, pytest.param(12, marks=in_a_soak)], ids=["behind", "ahead"])
def test_a_file_that_was_put_back_while_the_server_was_away(shop: Shop, browser: Browser, later: int) -> None:
    """Its events were numbered again from where the backup ends: fewer, or more, than the page has seen."""
    with signed_in(shop, browser) as context:
        copy = lose(shop)
        page, problems = tab(context, shop, "flight")
        shop.board.claim("lost-1", session=shop.fleet.sessions[0], ttl_seconds=3600)
        expect(page.locator('.row[data-id="lost-1"]')).to_have_count(1)
        shop.stop()
        shop.board.close()
        shop.fleet.board.close()
        folder = Path(shop.harness.folder)
        for file in ("board.db", "board.db-wal", "board.db-shm"):
            (folder / file).unlink(missing_ok=True)
        shutil.copyfile(copy, folder / "board.db")
        shop.board = shop.harness.board()
        shop.board.add_many([{"title": "After it", "id": f"after-{number}"} for number in range(later)])
        shop.start_again()
        live(page)
        knows_nothing_of_it(page, shop)
        assert not problems
