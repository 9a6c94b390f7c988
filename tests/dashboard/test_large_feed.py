"""A feed of large events is read in smaller pages, and an error is shown as one, never as an empty feed."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Route, expect

from tests.dashboard.driving import Shop, opened

#: Together more than an answer may have, each as large as a body may be.
LARGE, BODY = 20, "text " * 198_000
WRONG = '{"code": "ERROR", "detail": "the disk is tired"}'


def add_large(shop: Shop) -> list[str]:
    ids = [f"large-{number}" for number in range(LARGE)]
    for id in ids:
        shop.board.add("Large", id=id, body=BODY)
    return ids


def test_a_feed_that_is_too_large_for_an_answer_is_shown(shop: Shop, browser: Browser) -> None:
    ids = add_large(shop)
    with opened(shop, browser, "events") as page:
        expect(page.locator(".tall li").first).to_contain_text(ids[-1])
        expect(page.get_by_text("Nothing has happened yet")).to_have_count(0)
        seen: set[str] = set()
        for _ in range(LARGE):
            seen |= set(re.findall(r"large-\d+", " ".join(page.locator(".tall li").all_inner_texts())))
            if seen == set(ids):
                break
            page.get_by_role("button", name="earlier").click()
            expect(page.get_by_role("button", name="earlier")).to_be_enabled()
        assert seen == set(ids), "none is left out"
        page.goto(re.sub("#.*", "#now", page.url))
        expect(page.get_by_text("Nothing has happened yet")).to_have_count(0)


def test_an_error_is_no_empty_feed(shop: Shop, browser: Browser) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=500, content_type="application/problem+json", body=WRONG)

    with opened(shop, browser, "queue") as page:
        page.route("**/v1/events?*", refuse)
        page.goto(re.sub("#.*", "#events", page.url))
        expect(page.get_by_role("alert").filter(has_text="the disk is tired")).to_be_visible()
        expect(page.get_by_text("Nothing has happened yet")).to_have_count(0)
        page.unroute("**/v1/events?*")
        page.get_by_role("button", name="try again").click()
        expect(page.locator(".tall li").first).to_be_visible()
        expect(page.get_by_role("alert").filter(has_text="the disk is tired")).to_have_count(0)
