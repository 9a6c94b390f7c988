"""Everything by keyboard alone: every key of the help does what the help says."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect

from tests.dashboard.driving import Shop, await_true, opened
from tests.dashboard.test_views import CONTENT

PLACES = {"n": "now", "q": "queue", "f": "flight", "s": "sessions", "t": "timeline", "a": "approvals", "m": "metrics"}
#: An action: its key, on which item, whether it asks for words or a yes first, and the status that it leads to.
ACTIONS = {
    "approve": ("a", "prices", None, "ready"),
    "approve as done": ("A", "letter-42", None, "done"),
    "send back": ("b", "letter-42", "shorter", "ready"),
    "reject": ("R", "refund-order-7", "no", "rejected"),
    "retry": ("r", "plan-release", None, "ready"),
    "park": ("p", "spare", None, "parked"),
    "cancel": ("c", "spare", "", "cancelled"),
}


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def cursor(page: Page) -> str | None:
    return page.locator(".row[data-cursor]").get_attribute("data-id")


def test_the_keyboard_leads_everywhere_and_back(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        for key, view in {**PLACES, "e": "events"}.items():
            press(page, "g", key)
            page.wait_for_selector(CONTENT[view])
            expect(page.locator("nav [aria-current]")).to_have_attribute("href", f"#{view}")
        press(page, "g", "n")
        page.wait_for_selector(CONTENT["now"])
        press(page, "/")
        expect(page.locator("#filter")).to_be_focused()
        page.keyboard.type("login")
        press(page, "Enter")
        page.wait_for_selector(CONTENT["queue"])
        assert page.url.endswith("#queue?q=login")
        press(page, "j", "j")
        second = cursor(page)
        press(page, "k")
        first = cursor(page)
        assert first not in (None, second)
        press(page, "ArrowDown")
        assert cursor(page) == second
        press(page, "Enter")
        expect(page.locator("aside h1")).to_contain_text(str(second))
        press(page, "Enter")
        expect(page.locator("main > article h1")).to_contain_text(str(second))
        press(page, "Escape")
        page.wait_for_selector("aside h1")
        press(page, "Escape")
        expect(page.locator("aside")).to_have_count(0)
        press(page, "j", "x", "j", "X")
        expect(page.locator(".row[aria-selected=true]")).to_have_count(2)
        press(page, "Escape")
        expect(page.locator(".row[aria-selected=true]")).to_have_count(0)


def test_a_session_is_left_for_the_item_that_it_holds(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "sessions") as page:
        page.wait_for_selector(CONTENT["sessions"])
        press(page, "j")
        held = page.locator(".card[data-cursor] .holds .id").inner_text()
        press(page, "Enter")
        expect(page.locator("aside h1 .id")).to_have_text(held)
        press(page, "F")
        page.wait_for_selector("dialog[open] textarea")
        page.keyboard.type("it hangs")
        press(page, "Tab", "Enter")
        await_true(page, lambda: shop.board.get(held).runs[0].outcome == "force_released", "it is still held")


@pytest.mark.parametrize("name", ACTIONS)
def test_each_action_has_a_key(shop: Shop, browser: Browser, name: str) -> None:
    key, item, words, status = ACTIONS[name]
    shop.board.add("Something spare", id="spare")
    with opened(shop, browser, f"item?item={item}") as page:
        page.wait_for_selector("article.item h1")
        press(page, key)
        if words is not None:
            page.wait_for_selector("dialog[open]")
            page.keyboard.type(words)
            press(page, *(["Tab"] if words else []), "Enter")
        await_true(page, lambda: shop.board.get(item).item.status == status, f"{item} is not {status}")


def test_an_item_is_written_and_the_screen_stopped_by_keys(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue") as page:
        page.wait_for_selector(CONTENT["queue"])
        press(page, "n")
        page.wait_for_selector("dialog[open] input")
        page.keyboard.type("Typed here")
        press(page, "Enter")
        expect(page.locator("aside h1")).to_contain_text("Typed here")
        press(page, "e")
        expect(page.locator("dialog[open] [name=title]")).to_have_value("Typed here")
        press(page, "Escape")
        press(page, "Escape", ".")
        expect(page.locator(".lamp.paused")).to_be_visible()
        shop.board.add("While it is paused", id="paused", priority=1_000)
        press(page, ".")
        expect(page.locator('.row[data-id="paused"]')).to_have_count(1)
        press(page, "w")
        expect(page.locator(".bar-top")).to_be_hidden()
        press(page, "w", "?")
        expect(page.locator("dialog[open] kbd", has_text=re.compile("^F$"))).to_have_count(1)
        press(page, "Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)
        for _ in range(5):
            press(page, "g", "t")  # two keys within a second, which a busy machine may miss
            with suppress(TimeoutError):
                page.wait_for_selector(CONTENT["timeline"], timeout=5000)
                break
        page.wait_for_selector(CONTENT["timeline"])
        press(page, "T")
        page.wait_for_selector(".time-box table")
