"""Addresses that somebody typed or sent: a view with what it cannot be asked for shows what it can."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.driving import Shop, opened
from tests.dashboard.test_views import CONTENT

#: Names that every object of a script has, where a view, an order or a kind of lane is named.
NAMES = {
    "constructor": "now",
    "__proto__": "now",
    "flight?sort=constructor": "flight",
    "timeline?lanes=constructor": "timeline",
    "sessions?state=constructor": "sessions",
}
#: Longer than any board has existed, and no numbers.
SPANS = ("timeline?hours=1e9", "timeline?hours=-1", "timeline?hours=Infinity", "metrics?hours=1e9", "metrics?hours=-1")


def go(page: Page, view: str) -> None:
    page.goto(re.sub("#.*", f"#{view}", page.url))


def test_a_name_that_is_none_leads_to_the_first_choice(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "events") as page:
        for view, shown in NAMES.items():
            go(page, view)
            page.wait_for_selector(CONTENT[shown])
            expect(page.locator("nav [aria-current]")).to_have_attribute("href", f"#{shown}")
        expect(page.locator(".facet[aria-pressed=true]")).to_have_count(0)
        go(page, "timeline?lanes=constructor")
        expect(page.locator(".sort select")).to_have_value("session")
        expect(page.locator(".bar-top .count")).not_to_have_text(re.compile("^0 runs"))


def test_an_item_that_was_opened_by_its_address_is_closed_to_the_queue(shop: Shop, browser: Browser) -> None:
    """What lies before it in the history is not of this page."""
    with opened(shop, browser, "item?item=letter-42") as page:
        page.wait_for_selector("main > article h1")
        page.keyboard.press("Escape")
        page.wait_for_selector(CONTENT["queue"])
        go(page, "queue?item=nowhere")
        expect(page.locator("aside article")).to_contain_text("there is no item nowhere")
        page.locator("aside").get_by_role("button", name="close").click()
        expect(page.locator("aside")).to_have_count(0)


@pytest.mark.parametrize("view", ["timeline", "metrics"])
def test_a_span_has_a_length_that_can_be_drawn(shop: Shop, browser: Browser, view: str) -> None:
    with opened(shop, browser) as page:
        for span in SPANS:
            if span.startswith(view):
                go(page, span)
                page.wait_for_selector(CONTENT[view])
                assert page.locator(".row.empty").count() == 0, span
