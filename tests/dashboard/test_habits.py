"""What people do without thinking: press twice, press Escape, come back another day, print."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Route, expect

from tests.dashboard.driving import PHONE, Shop, await_true, opened, rows

DAY = 86_400
#: 28 February 2096.
LATER_MS = 3_981_225_600_000
#: As an event of another day shows its time, in the language of the tests.
ANOTHER_DAY = re.compile(r"^\d+ [A-Z][a-z]+ \d\d:\d\d$")


def test_a_key_that_is_pressed_twice_decides_once(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "approvals") as page:
        expect(page.locator(".count")).to_contain_text("3 wait, the oldest")
        page.wait_for_selector("article.draft pre")
        page.keyboard.press("a")
        page.keyboard.press("a")
        await_true(page, lambda: shop.board.get("letter-42").item.status == "ready", "it is not approved")
        expect(page.locator(".toast")).to_contain_text("letter-42: approve")
        expect(page.locator(".row.gone")).to_contain_text("settled")
        expect(page.locator("article.asked")).not_to_contain_text("decides about")
        # The next decision about it is another one.
        page.keyboard.press("p")
        await_true(page, lambda: shop.board.get("letter-42").item.status == "parked", "it is not parked")


def test_a_page_whose_parts_are_gone_says_that_nothing_was_decided(shop: Shop, browser: Browser) -> None:
    """As after an upgrade of the server."""
    with opened(shop, browser, "approvals") as page:
        page.route("**/assets/carry_out*", lambda route: route.abort())
        page.wait_for_selector("article.draft pre")
        page.keyboard.press("a")
        expect(page.locator(".toast.bad")).to_contain_text("nothing was changed: reload")
        assert shop.board.get("letter-42").item.status == "pending_approval"


def test_a_form_that_is_sent_twice_adds_one_item(shop: Shop, browser: Browser) -> None:
    def answer_late(route: Route) -> None:
        page.wait_for_timeout(200)
        route.continue_()

    with opened(shop, browser, "queue") as page:
        page.route("**/v1/items", answer_late)
        page.keyboard.press("n")
        page.get_by_label("title").fill("Only once")
        page.evaluate("for (const _ of [1, 2]) document.querySelector('dialog form').requestSubmit()")
        expect(page.locator("aside h1")).to_contain_text("Only once")
        assert len([one for one in shop.board.list() if one.title == "Only once"]) == 1


def test_escape_leaves_the_filter_as_it_is(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue") as page:
        page.keyboard.press("/")
        page.keyboard.type("Release")
        expect(page.locator("#filter")).to_have_value("Release")
        page.keyboard.press("Escape")
        assert page.url.endswith("#queue?q=Release")
        expect(page.locator("#filter")).to_have_value("Release")
        assert rows(page, "queue") == ["release-2"]
        # A field that was not typed to its end is given up.
        page.keyboard.press("/")
        page.keyboard.type(" status:fai")
        page.keyboard.press("Escape")
        expect(page.locator("#filter")).to_have_value("Release")
        assert page.url.endswith("#queue?q=Release")


def test_what_is_of_another_day_says_so(shop: Shop, browser: Browser) -> None:
    shop.harness.clock.advance(2 * DAY)
    shop.board.add("Later", id="later", not_before=LATER_MS, priority=10)
    with opened(shop, browser, "queue?item=letter-42") as page:
        expect(page.locator("aside .events time").first).to_have_text(ANOTHER_DAY)
        expect(page.locator('.row[data-id="later"] .c-claimedby')).to_have_text(re.compile(r"scheduled in \d+d$"))
        page.goto(f"{shop.url}/#queue?item=later")
        expect(page.locator("aside article")).to_contain_text("scheduled until 28 Feb 2096 ")
        page.goto(f"{shop.url}/#events")
        first = page.locator(".tall li", has_text="later").locator("time").first
        expect(first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
        expect(page.locator(".tall li", has_text="letter-42").locator("time").first).to_have_text(ANOTHER_DAY)


def test_an_open_item_is_printed_as_a_whole_and_alone(shop: Shop, browser: Browser) -> None:
    shop.board.edit("letter-42", body="A line.\n" * 400)
    with opened(shop, browser, "queue?item=letter-42", color_scheme="dark") as page:
        expect(page.locator("aside")).to_contain_text("A line.")
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollHeight") > 400 * 15
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        for gone in ("header", ".rows", "aside button"):
            expect(page.locator(gone).first).to_be_hidden()


def test_a_phone_names_no_keys(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue", viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.wait_for_selector("button >> text=new item")
        expect(page.locator("button kbd").first).to_be_hidden()


def test_signing_out_ends_the_key_of_this_browser(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        page.keyboard.press("?")
        page.get_by_role("button", name="sign out").click()
        expect(page.locator("h1")).to_have_text("You are signed out")
        page.reload()
        expect(page.locator("h1")).to_have_text("You are signed out")
        keys = shop.board.keys()
        assert all(key.revoked_at is not None for key in keys if key.agent == "ann")
