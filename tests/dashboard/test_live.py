"""What happens on the board is on the screen, once and at once; and the page says when that is not so."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from dibs.github.policy import ON_MERGE, Policy
from tests.dashboard.driving import Shop, alone, await_true, live, opened, rows, sign_in, signed_in, tab
from tests.github.conftest import GitHub, claimed
from tests.github.payloads import at, issue, pull, run
from tests.kit.soak import in_a_soak

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
    await_true(page, lambda: claims(page) == held(shop), lambda: f"{claims(page)} is not {held(shop)}")


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


def test_an_issue_is_followed_from_its_label_to_the_merge(shop: Shop, browser: Browser) -> None:
    """With real deliveries, workers and git: `test_story` in tests/github."""
    github = GitHub(shop.board, Policy(complete=ON_MERGE))
    github.tell(issue(12, labels=["bug"]))
    id, log = github.item().id, "https://github.com/acme/shop/actions/runs/1"
    own = {"ref": f"dibs/{id}", "repo": {"full_name": "acme/shop"}}
    with opened(shop, browser, f"now?item={id}") as page:
        aside = page.locator("aside")
        expect(aside.locator("article.item h1")).to_contain_text("Login fails")
        about = aside.get_by_role("link", name="github:acme/shop#12")
        expect(about).to_have_attribute("href", "https://github.com/acme/shop/issues/12")
        for number, sha in ((1, "a" * 40), (2, "b" * 40)):
            session, token = claimed(shop.board, id)
            shop.board.done(id, session=session, token=token)
            expect(aside.locator(".runs tbody tr").first).to_contain_text("submitted")
            github.tell(pull(20, head={**own, "sha": sha}, updated_at=at(number)))
            if number == 1:
                github.tell(run(1, "failure", branch=f"dibs/{id}", head_sha=sha))
                # It was read as a result that waits for a decision, so it did not change under its reader.
                aside.get_by_role("button", name="show it as it is now").click()
                expect(aside.locator(f'.runs a[href="{log}"]').first).to_have_text("failed_log")
                expect(aside.locator(".events")).to_contain_text(re.compile("sent back.*ci.yml: failure"))
                expect(aside.locator(".events")).to_contain_text("by github:acme/shop · ci.yml: failure")
        github.tell(pull(20, head={**own, "sha": "b" * 40}, updated_at=at(9), state="closed", merged=True))
        history = aside.locator(".events li")
        expect(history.first).to_contain_text(re.compile("approved.*acme/shop#20 was merged into main"))
        told = "\n".join(reversed(history.all_inner_texts()))
        assert re.search("added.*claimed.*submitted.*sent back.*claimed.*submitted.*approved", told, re.DOTALL), told
        assert shop.board.get(id).item.status == "done"


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


def lines(page: Page) -> list[list[str]]:
    """The item and the kind of each event that is shown, the newest first."""
    found: list[list[str]] = page.eval_on_selector_all(
        ".tall li", "all => all.map(one => [one.querySelector('bdi').textContent, one.querySelector('b').textContent])"
    )
    return found


def happened(shop: Shop, count: int) -> list[list[str]]:
    latest = reversed(shop.board.events(newest=True, limit=200))
    return [[event.item, event.kind.replace("_", " ")] for event in latest][:count]


@pytest.mark.parametrize("end", ["killed", *in_a_soak("stopped")])
def test_a_server_that_was_killed_and_came_back_was_missed_and_nothing_else(
    shop: Shop, browser: Browser, end: str
) -> None:
    with alone(shop), opened(shop, browser, "flight") as page:
        agrees(page, shop)
        shop.fleet.act(10)
        {"killed": shop.kill, "stopped": shop.stop}[end]()
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
        shop.fleet.act(10)
        live(page)
        agrees(page, shop)
        page.goto(re.sub("#.*", "#events", page.url))
        page.wait_for_selector(".tall li:nth-child(30)")
        await_true(page, lambda: lines(page) == happened(shop, len(lines(page))), "an event is missing, or doubled")
        assert ["while-away", "claimed"] in lines(page)
        assert page.locator(".lamp.newer").count() == 0


def test_a_new_version_of_the_server_offers_a_reload(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue") as page:
        shop.stop()
        expect(page.locator(".lamp.away")).to_have_count(1)
        front = f"{shop.url}/"
        page.route(front, lambda route: route.fulfill(body='<script src="/assets/main-NEWER.js"></script>'))
        shop.start_again()
        page.get_by_role("button", name="a new version is here").wait_for()
        page.unroute(front)
        page.get_by_role("button", name="a new version is here").click()
        live(page)


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


def set_hidden(page: Page, is_hidden: bool) -> None:
    """As if another tab were in front, which a browser without a screen does not do."""
    page.evaluate(
        "is => { Object.defineProperty(document, 'hidden', {value: is, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        is_hidden,
    )


def test_without_a_shared_worker_each_tab_streams_while_it_is_seen(shop: Shop, browser: Browser) -> None:
    """The server gives a browser two streams, so a third tab has one only after a hidden tab closed its own."""
    shop.stop()
    shop.start_again(streams_per_key=2)
    with signed_in(shop, browser, script=WITHOUT_WORKER) as context:
        tabs = [tab(context, shop, "queue") for _ in range(2)]
        (first, _), (second, _) = tabs
        shop.board.add("One", id="one", priority=10)
        for page in (first, second):
            expect(page.locator('.row[data-id="one"]')).to_have_count(1)
        set_hidden(first, True)
        tabs.append(tab(context, shop, "queue"))
        third = tabs[-1][0]
        shop.board.add("Two", id="two", priority=10)
        for page in (second, third):
            expect(page.locator('.row[data-id="two"]')).to_have_count(1)
        assert "two" not in rows(first, "queue"), "a hidden tab hears nothing"
        set_hidden(third, True)
        set_hidden(first, False)
        expect(first.locator('.row[data-id="two"]')).to_have_count(1)
        assert rows(first, "queue").count("one") == 1
        assert not [problem for _, problems in tabs for problem in problems]


def sign_out(shop: Shop) -> None:
    keys = shop.board.keys()
    for key in keys:
        if key.id.startswith("web") and key.revoked_at is None:
            shop.board.revoke_key(key.id)


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
    """Also while the page is open, which goes on by itself once somebody has signed in again."""
    with signed_in(shop, browser) as context:
        page, problems = tab(context, shop, "queue")
        page.wait_for_selector(".row[data-id]")
        sign_out(shop)
        expect(page.locator("main")).to_contain_text("dibs key link")
        expect(page.locator(".lamp")).to_have_text("signed out")
        assert page.locator(".row").count() == 0
        page.reload()
        expect(page.locator("main")).to_contain_text("dibs key link")
        assert page.locator(".row").count() == 0
        sign_in(shop, context)
        live(page)
        page.wait_for_selector(".row[data-id]")
        assert not problems
