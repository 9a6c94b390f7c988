"""What happens on the board is on the screen, once and at once; and the page says when that is not so."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, Request, expect

from tests.dashboard.driving import Shop, await_true, live, opened, rows, signed_in, tab

TABS = 12
WITHOUT_WORKER = "delete window.SharedWorker"


def claims(page: Page) -> dict[str, str]:
    """What the list of claims shows: the item and its session."""
    found = page.eval_on_selector_all(
        ".rows.flight .row[data-id]:not(.gone)",
        "rows => rows.map(row => [row.dataset.id, row.querySelector('.c-session bdi')?.textContent ?? ''])",
    )
    return dict(found)


def held(shop: Shop) -> dict[str, str]:
    return {one.item.id: one.claim.session for one in shop.board.who() if one.claim is not None}


def agrees(page: Page, shop: Shop) -> None:
    await_true(page, lambda: claims(page) == held(shop), f"{claims(page)} is not {held(shop)}")


def test_claims_notes_and_ends_appear_without_a_reload(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "flight") as page:
        agrees(page, shop)
        session = shop.board.start_session("coder", id="new-1", kind="cli")
        shop.board.add("Fix it", id="fix-it", priority=10)
        grant = shop.board.claim("fix-it", session=session.id, ttl_seconds=70)
        row = page.locator('.row[data-id="fix-it"]')
        expect(row).to_contain_text("new-1")
        expect(row).to_contain_text("warning")
        shop.board.progress("fix-it", "tests green", session=session.id, token=grant.claim.token)
        expect(row).to_contain_text("tests green")
        shop.board.done("fix-it", session=session.id, token=grant.claim.token)
        expect(row).to_have_count(0)
        agrees(page, shop)


def test_renewals_and_queues_write_no_event_and_are_shown_all_the_same(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "flight") as page:
        shop.board.start_session("coder", id="new-1", kind="cli")
        shop.board.start_session("fixer", id="new-2", kind="cli")
        shop.board.add("Fix it", id="fix-it")
        shop.board.claim("fix-it", session="new-1", ttl_seconds=120)
        row = page.locator('.row[data-id="fix-it"]')
        expect(row.locator(".left")).to_have_text(re.compile("^(2:00|1:5)"))
        shop.harness.clock.advance(50)
        shop.board.heartbeat(session="new-1")
        shop.board.wait("fix-it", session="new-2")
        expect(row).to_contain_text("new-2")
        expect(row.locator(".left")).to_have_text(re.compile("^(2:00|1:5)"))


def test_the_feed_begins_with_what_happened_before_the_page_was_opened(shop: Shop, browser: Browser) -> None:
    latest = shop.board.events(newest=True, limit=1)[0]
    with opened(shop, browser) as page:
        expect(page.locator(".feed li").first).to_contain_text(latest.item)
        page.goto(re.sub("#.*", "#events", page.url))
        kept = len(shop.board.events(limit=1_000))
        expect(page.locator(".bar-top .count")).to_have_text(f"{min(kept, 200)} events")
        shop.board.add("Now", id="fresh-one")
        expect(page.locator(".tall li", has_text="fresh-one").filter(has_text="added")).to_have_count(1)


def timeless(page: Page) -> list[str]:
    """What the rows and cards of a view say, but for ages, which differ from second to second."""
    page.bring_to_front()
    texts = page.eval_on_selector_all(".row[data-id], .card", "all => all.map(one => one.textContent)")
    return [re.sub(r"[\d:]+[smhd]?\b|failed.*", "", text) for text in texts]


def test_many_events_leave_the_page_as_one_that_was_opened_afterwards(shop: Shop, browser: Browser) -> None:
    with signed_in(shop, browser) as context:
        page, problems = tab(context, shop, "flight")
        for _ in range(6):
            shop.fleet.act(25)
            shop.harness.clock.advance(200)
            shop.board.sweep()
        agrees(page, shop)
        fresh, more = tab(context, shop, "flight")
        agrees(fresh, shop)
        for view in ("queue", "sessions", "now"):
            for one in (page, fresh):
                one.goto(re.sub("#.*", f"#{view}", one.url))
                one.wait_for_selector(".row[data-id], .card")
            await_true(page, lambda: timeless(page) == timeless(fresh), view)
        assert not problems
        assert not more


def test_a_server_that_was_killed_and_came_back_was_missed_and_nothing_else(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "flight") as page:
        agrees(page, shop)
        shop.stop()
        expect(page.locator(".lamp.away")).to_have_text(re.compile(r"away since \d\d:\d\d:\d\d"))
        expect(page.locator(".app.stands")).to_have_count(1)
        page.keyboard.press("j")
        expect(page.locator(".row[data-cursor] button")).to_be_disabled()
        shop.board.start_session("coder", id="meanwhile", kind="cli")
        shop.board.add("While it was away", id="while-away", priority=10)
        shop.board.claim("while-away", session="meanwhile")
        shop.fleet.act(10)
        page.keyboard.press("Escape")
        shop.start_again()
        live(page)
        agrees(page, shop)
        page.goto(re.sub("#.*", "#events", page.url))
        line = page.locator(".tall li", has_text="while-away").filter(has_text="claimed")
        expect(line).to_have_count(1)


def test_twelve_tabs_share_one_stream(shop: Shop, browser: Browser) -> None:
    """The server refuses a second one, so that no tab can have one unnoticed."""
    shop.stop()
    shop.start_again(streams_per_key=1)
    with signed_in(shop, browser) as context:
        streams: list[str] = []

        def note(request: Request) -> None:
            if "/api/events" in request.url:
                streams.append(request.url)

        context.on("request", note)
        tabs = [tab(context, shop, "queue") for _ in range(TABS)]
        shop.board.add("Seen by all", id="seen-by-all", priority=10)
        for page, problems in tabs:
            page.bring_to_front()
            expect(page.locator('.row[data-id="seen-by-all"]')).to_have_count(1)
            assert not problems
        assert len(streams) <= 1


def test_without_a_shared_worker_a_tab_streams_while_it_is_seen(shop: Shop, browser: Browser) -> None:
    with signed_in(shop, browser, script=WITHOUT_WORKER) as context:
        ended: list[str] = []
        context.on("requestfailed", lambda request: ended.append(request.url))
        page, problems = tab(context, shop, "queue")
        shop.board.add("One", id="one", priority=10)
        expect(page.locator('.row[data-id="one"]')).to_have_count(1)
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        await_true(page, lambda: any("/api/events" in url for url in ended), "a hidden tab kept its stream")
        shop.board.add("Two", id="two", priority=10)
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator('.row[data-id="two"]')).to_have_count(1)
        assert rows(page, "queue").count("one") == 1
        assert not problems


def test_a_server_that_goes_again_before_it_was_asked_for_its_version_is_no_error(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        gone: list[str] = []
        page.on("requestfailed", lambda request: gone.append(request.url))
        page.route(f"{shop.url}/", lambda route: route.abort("connectionrefused"))
        shop.stop()
        expect(page.locator(".lamp.away")).to_be_visible()
        shop.start_again()
        live(page)
        await_true(page, lambda: f"{shop.url}/" in gone, "it was not asked")


def test_a_browser_that_is_signed_out_says_how_to_get_in(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        keys = shop.board.keys()
        for key in keys:
            if key.id.startswith("web") and key.revoked_at is None:
                shop.board.revoke_key(key.id)
        page.reload()
        expect(page.locator("main")).to_contain_text("dibs key link")
        assert page.locator(".row").count() == 0
