"""The lists and their filters: what is selected is in sight, and what is counted is what the board has."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Route, expect

from tests.dashboard.driving import Shop, opened, rows, signed_in, tab
from tests.dashboard.test_live import set_hidden
from tests.dashboard.test_views import CONTENT


def test_a_filter_leaves_nothing_selected_that_it_hides(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue?q=status:ready") as page:
        page.wait_for_selector(CONTENT["queue"])
        for key in "jxjx":
            page.keyboard.press(key)
        kept, hidden = (row.get_attribute("data-id") for row in page.locator(".row[aria-selected=true]").all())
        page.goto(re.sub("#.*", f"#queue?q={kept}", page.url))
        expect(page.locator(f'.row[data-id="{hidden}"]')).to_have_count(0)
        expect(page.locator(".bar-bottom")).to_contain_text("1 selected")
        page.goto(re.sub("#.*", "#queue?q=status:blocked", page.url))
        expect(page.locator('.row[data-id="release-2"]')).to_have_count(1)
        expect(page.locator(".bar-bottom")).not_to_contain_text("selected")
        page.keyboard.press("p")
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open] kbd")
        assert {shop.board.get(str(id)).item.status for id in (kept, hidden)} == {"ready"}


def test_a_word_of_a_filter_presses_no_facet(shop: Shop, browser: Browser) -> None:
    shop.board.add("Is it ready to ship?", id="ship")
    with opened(shop, browser, "queue?q=ready") as page:
        expect(page.locator(".rows.queue .row[data-id]")).to_have_count(1)
        expect(page.locator(".facet[aria-pressed=true]")).to_have_count(0)
        page.locator(".facet", has_text="ready").click()
        expect(page.locator(".facet[aria-pressed=true]")).to_have_text("ready 1")


#: As coding agents name their sessions.
UUID = "3f2b9c1e-7a44-4d0c-9b1f-0d5e8c7a6b21"


def test_however_long_the_name_of_a_session_is_its_silence_is_seen(shop: Shop, browser: Browser) -> None:
    """A person is never silent: people send no heartbeats."""
    for kind, name in {"cli": UUID, "person": "a-person-with-a-name-that-is-longer-than-its-column"}.items():
        shop.board.start_session("claude-code", id=name, kind=kind)
        shop.board.add("Held", id=f"held-by-{kind}", priority=10)
        shop.board.claim(f"held-by-{kind}", session=name, ttl_seconds=7200)
    shop.harness.clock.advance(shop.board.settings.stale_seconds + 60)
    with opened(shop, browser, "queue") as page:
        row = page.locator('.row[data-id="held-by-cli"]')
        expect(row.locator(".claimed")).to_have_text(re.compile(r"^\[!\] 3f2b…6b21 cli silent \d+m$"))
        expect(row.locator("[title]")).to_have_attribute("title", UUID)
        for kind in ("cli", "person"):
            cell = page.locator(f'.row[data-id="held-by-{kind}"] .c-claimedby').bounding_box()
            since = page.locator(f'.row[data-id="held-by-{kind}"] .since').bounding_box()
            assert cell is not None
            assert since is not None
            assert since["x"] + since["width"] <= cell["x"] + cell["width"], kind
        page.goto(re.sub("#.*", "#flight", page.url))
        expect(page.locator('.row[data-id="held-by-cli"] .mark')).to_have_text("stale")
        expect(page.locator('.row[data-id="held-by-person"] .mark')).to_have_text("ok")


def test_however_long_an_id_is_what_happened_to_it_is_seen(shop: Shop, browser: Browser) -> None:
    shop.board.add("Long", id="x" * 120)
    with opened(shop, browser) as page:
        line = page.locator(".now .events li", has_text="xxx").first
        kind, box = line.locator("b").bounding_box(), line.bounding_box()
        assert kind is not None
        assert box is not None
        assert kind["x"] + kind["width"] <= box["x"] + box["width"]


def test_an_agent_is_that_of_the_latest_run_also_if_nobody_holds_the_item(shop: Shop, browser: Browser) -> None:
    holder = shop.board.start_session("loner", id="loner-1")
    shop.board.add("Tried once", id="tried")
    shop.board.claim("tried", session=holder.id)
    shop.board.release("tried", session=holder.id)
    with opened(shop, browser, "queue?q=agent:coder,loner") as page:
        expect(page.locator(".rows.queue .row[data-id]")).to_have_count(1)
        assert rows(page, "queue") == [item.id for item in shop.board.page(agent="loner").items] == ["tried"]
        expect(page.locator(".chip")).to_have_text(re.compile("^agent:loner "))


def test_a_facet_and_the_badge_of_the_queue_agree_at_every_moment(shop: Shop, browser: Browser) -> None:
    """Also where the server is asked for the rows, since ended items are among them."""
    with opened(shop, browser, "queue?q=status:ready,done") as page:
        page.wait_for_selector(CONTENT["queue"])
        ready = shop.board.stats().items["ready"]
        badge, facet = page.locator("nav [aria-current] .badge"), page.locator(".facet", has_text="ready")
        expect(facet).to_have_text(f"ready {ready}")
        shop.board.add("One more", id="one-more")
        expect(badge).to_have_text(str(ready + 1))
        assert facet.inner_text() == f"ready {ready + 1}"


def test_a_server_that_answers_slowly_is_asked_less_often(shop: Shop, browser: Browser) -> None:
    with signed_in(shop, browser) as context:
        context.clock.install()
        asked: list[str] = []

        def answer_after_two_seconds(route: Route) -> None:
            asked.append(route.request.url)
            context.clock.fast_forward(2_000)
            route.continue_()

        context.route("**/v1/page?*", answer_after_two_seconds)
        page, problems = tab(context, shop, "queue?q=status:ready,done")
        page.wait_for_selector(CONTENT["queue"])
        shop.board.add("One more", id="one-more")
        expect(page.locator(".facet", has_text="ready")).to_have_text(f"ready {shop.board.stats().items['ready']}")
        context.clock.fast_forward(5_000)
        page.evaluate("fetch('/v1/me')")
        assert len(asked) == 1
        with page.expect_response("**/v1/page?*"):
            context.clock.fast_forward(20_000)
        assert not problems


def test_a_tab_that_nobody_looks_at_asks_for_nothing(shop: Shop, browser: Browser) -> None:
    with signed_in(shop, browser) as context:
        context.clock.install()
        page, problems = tab(context, shop, "now")
        page.wait_for_selector(".today-lines")
        page.wait_for_selector(".fleet-box [aria-label*='sessions worked']:not([aria-label^='0 '])")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        set_hidden(page, True)
        shop.board.add("One more", id="one-more")
        expect(page.locator(".feed li").first).to_contain_text("one-more")
        context.clock.fast_forward(60_000)
        page.evaluate("fetch('/v1/me')")
        assert not {"/v1/series", "/v1/runs/window"} & set(asked)
        with page.expect_response("**/v1/series?*"), page.expect_response("**/v1/runs/window?*"):
            set_hidden(page, False)
        assert not problems


def test_what_a_board_has_too_many_of_is_counted_all_the_same(shop: Shop, browser: Browser) -> None:
    """A view gives a thousand sessions and two thousand claims at most; here, fewer."""

    def give_less(route: Route) -> None:
        view = route.fetch().json()
        less = {"sessions": view["sessions"][:5], "holdings": view["holdings"][:3]}
        left_off = {f"{name}_left_off": len(view[name]) - len(some) for name, some in less.items()}
        route.fulfill(json={**view, **less, **left_off})

    with signed_in(shop, browser) as context:
        context.route("**/v1/view", give_less)
        page, problems = tab(context, shop, "sessions")
        page.wait_for_selector(CONTENT["sessions"])
        sessions, claims = len(shop.board.sessions()), len(shop.board.who())
        expect(page.locator("nav [href='#sessions'] .badge")).to_have_text(str(sessions))
        expect(page.locator("nav [href='#flight'] .badge")).to_have_text(str(claims))
        expect(page.locator(".bar-top .count")).to_have_text(f"5 of {sessions}")
        page.goto(re.sub("#.*", "#flight", page.url))
        expect(page.locator(".bar-top .count")).to_contain_text(f"{claims - 3} not listed")
        assert not problems


def test_why_an_item_failed_is_known_at_once_and_after_a_reload(shop: Shop, browser: Browser) -> None:
    shop.board.add("Build it", id="build", priority=10)
    shop.board.claim("build", session=shop.fleet.sessions[3])
    with opened(shop, browser) as page:
        row = page.locator('.row[data-id="build"]')
        shop.board.fail("build", session=shop.fleet.sessions[3], reason="tests red")
        expect(row).to_contain_text("failed: tests red")
        # Further back than the events that the page fetches.
        shop.board.add_many([{"title": "Later", "id": f"later-{number}"} for number in range(220)])
        page.reload()
        expect(row).to_contain_text("failed: tests red")
