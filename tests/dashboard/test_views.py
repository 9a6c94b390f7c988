"""Each view on a busy board: it shows what the board has, few rows at a time, readable for everybody."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from dibs.errors import ItemAlreadyClaimed
from tests.dashboard.driving import BROKEN, PHONE, VIEWS, Shop, await_true, opened, rows, signed_in
from tests.kit import browser as kit

ROWS_MAX = 60
#: What a finger would miss: controls of fewer than 32 pixels, but for links within a line of text.
SMALL = """() => {
  const controls = 'button, select, input, nav a, .row[data-id], .card, .close a';
  return [...document.querySelectorAll(controls)].flatMap(one => {
    const { width, height } = one.getBoundingClientRect();
    const isSmall = one.checkVisibility() && (width < 32 || height < 32);
    return isSmall ? [`${one.outerHTML.slice(0, 80)} ${width}x${height}`] : [];
  });
}"""
#: Ids that do not fit into their cells.
CUT = """[...document.querySelectorAll('.c-item')]
  .filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"""
#: Of a picture of lanes, in pixels; and where in its width a run that goes on is.
LANE, AXIS, NOW_X = 22, 20, 0.97
#: Notes what is written into pictures.
DRAWN = """window.drawn = new Set();
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  drawn.add(text);
  fillText.call(this, text, ...place);
};"""
#: Less than the rounds that the fleet of a board played.
BOARD_AHEAD_MS = 600_000
#: What each view shows once it has its data.
CONTENT = {
    "now": ".rows.needs .row[data-id]",
    "queue": ".rows.queue .row[data-id]",
    "flight": ".rows.flight .row[data-id]",
    "sessions": ".card",
    "timeline": "canvas.lanes",
    "approvals": "article.draft",
    "metrics": ".chart .uplot",
    "events": ".tall li",
}


def shown(page: Page, view: str) -> None:
    page.goto(re.sub(r"#.*", f"#{view}", page.url))
    page.wait_for_selector(CONTENT[view])


def findings(page: Page) -> list[Any]:
    """What axe finds, short enough to read."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    return [(one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"]) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_keeps_anybody_out(busy: Shop, browser: Browser, scheme: str) -> None:
    with opened(busy, browser, color_scheme=scheme) as page:
        width = page.evaluate(
            "(() => { const range = document.createRange(); range.selectNodeContents(document.querySelector('nav'));"
            " return range.getBoundingClientRect().width; })()"
        )
        assert width > 300, "there is no text without a font, and axe does not notice"
        page.evaluate(kit.axe_script())
        for view in VIEWS:
            shown(page, view)
            assert findings(page) == [], view
            if view == "approvals":
                assert page.evaluate(CUT) == [], "an id that cannot be read"
        page.goto(re.sub(r"#.*", "#queue?item=letter-42", page.url))
        page.wait_for_selector("article.item h1")
        assert findings(page) == [], "item"
        page.wait_for_selector("aside button:has-text('send back')")
        for key in ("?", "n", "b"):
            page.keyboard.press(key)
            page.wait_for_selector("dialog[open]")
            assert findings(page) == [], f"the dialog of {key}"
            page.keyboard.press("Escape")
            # Keys count again when it is gone from the document, which is after it was closed.
            expect(page.locator("dialog")).to_have_count(0)


def test_a_view_has_few_rows_in_the_document_however_long_its_list(busy: Shop, browser: Browser) -> None:
    with opened(busy, browser, "queue") as page:
        page.wait_for_selector(CONTENT["queue"])
        expect(page.locator(".bar-top .count")).to_contain_text(re.compile(r"^4,\d\d\d of 5,\d\d\d"))
        before = rows(page, "queue")
        page.evaluate("document.querySelector('.rows .scroll').scrollTop = 28 * 150")
        page.wait_for_selector('.rows.queue .row[aria-rowindex="160"]')
        after = rows(page, "queue")
        assert 20 < len(before) <= ROWS_MAX
        assert 20 < len(after) <= ROWS_MAX
        assert not set(before) & set(after)
        shown(page, "events")
        page.get_by_role("button", name="earlier").click()
        expect(page.locator(".bar-top .count")).to_have_text(re.compile("^(2|3|4)00 events"))
        assert 20 < page.locator(".tall li").count() <= ROWS_MAX
        shown(page, "sessions")
        assert 6 <= page.locator(".card").count() <= ROWS_MAX


def test_the_queue_is_in_the_order_of_next_and_its_counts_follow_the_filter(busy: Shop, browser: Browser) -> None:
    with opened(busy, browser, "queue?q=status:ready") as page:
        page.wait_for_selector(CONTENT["queue"])
        listed = [item.id for item in busy.board.list(statuses=["ready"], limit=20)]
        assert rows(page, "queue")[:20] == listed
        page.fill("#filter", "webhooks type:docs")
        page.keyboard.press("Enter")
        expected = [one for one in busy.board.list(limit=10_000) if one.type == "docs" and "webhooks" in one.title]
        ready = [one for one in expected if one.status == "ready"]
        expect(page.locator(".bar-top .count")).to_have_text(re.compile(rf"^{len(ready):,} of"))
        facet = page.locator(".facet", has_text=re.compile("^done"))
        done = len([one for one in expected if one.status == "done"])
        expect(facet).to_have_text(f"done {done:,}")
        expect(page.locator(".chip")).to_have_count(2)
        assert "q=status%3Aready" in page.url, "the address holds the filter"
        page.reload()
        expect(page.locator(".bar-top .count")).to_have_text(re.compile(rf"^{len(ready):,} of"))


def test_scores_are_those_of_the_server(busy: Shop, browser: Browser) -> None:
    """Also where the rule has half a point to round, and where a live run is among the ten that are shown."""
    for session, outcomes in {"a-half": "fddddddd", "a-tenth": "fddddddddd"}.items():
        busy.board.start_session("coder", id=session)
        for number, outcome in enumerate(outcomes + "-"):
            item = busy.board.add("Scored", id=f"{session}-{number}").id
            busy.board.claim(item, session=session)
            if outcome == "d":
                busy.board.done(item, session=session)
            elif outcome == "f":
                busy.board.fail(item, session=session)
    with opened(busy, browser, "sessions?q=a-") as page:
        page.wait_for_selector(CONTENT["sessions"])
        expect(page.locator('[data-id="a-half"]')).to_contain_text(re.compile("1 of 8 failed .3"))
        assert page.locator('[data-id="a-tenth"] .score').inner_text().endswith("100")
        page.goto(re.sub("#.*", "#sessions", page.url))
        expect(page.locator(".card").nth(6)).to_be_visible()
        view = busy.board.view()
        scores = {seat.id: seat.score for seat in view.sessions}
        found = page.eval_on_selector_all(
            ".card", "cards => cards.map(card => [card.dataset.id, card.querySelector('.score').lastChild.data])"
        )
        assert len(found) > 6
        assert {id: int(score) for id, score in found} == {id: scores[id] for id, _ in found}


def test_what_needs_a_person_is_listed_with_its_reason_and_counted_in_the_title(busy: Shop, browser: Browser) -> None:
    with opened(busy, browser) as page:
        page.wait_for_selector(CONTENT["now"])
        texts = dict(zip(rows(page, "needs"), page.locator(".rows.needs .row[data-id]").all_inner_texts(), strict=True))
        assert "draft waits" in texts["letter-42"]
        assert "plan waits" in texts["prices"]
        count = int(page.locator("nav .badge.hot").inner_text().replace(",", ""))
        assert page.title() == f"({count}) dibs"
        assert page.locator("#icon").get_attribute("href") == f"/assets/icon-{min(9, count)}.svg"


def test_a_phone_shows_every_view_whole_with_room_for_fingers(busy: Shop, browser: Browser) -> None:
    with opened(busy, browser, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        for view in (*VIEWS, "queue?item=letter-42", "item?item=letter-42"):
            page.goto(re.sub(r"#.*", f"#{view}", page.url))
            page.wait_for_selector(CONTENT.get(view, "article.item h1"))
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], view
            assert page.evaluate("[visualViewport.scale, innerWidth]") == [1, PHONE["width"]], view
            assert page.evaluate(BROKEN) == [], view
            assert page.evaluate(SMALL) == [], view
            expect(page.locator(".lamp.live")).to_be_in_viewport()


def test_no_width_cuts_a_list(busy: Shop, browser: Browser) -> None:
    """A tablet, and a window that is zoomed to 200 %."""
    with opened(busy, browser) as page:
        for view in ("now", "queue", "flight", "approvals"):
            for width in (610, 740, 880, 1024):
                page.set_viewport_size({"width": width, "height": 600})
                shown(page, view)
                assert page.evaluate(BROKEN) == [], (view, width)


def test_the_timeline_shows_the_runs_of_the_board_also_as_a_table(busy: Shop, browser: Browser) -> None:
    held = next(one for one in busy.board.who() if one.claim is not None)
    with contextlib.suppress(ItemAlreadyClaimed):
        busy.board.claim(held.item.id, session=busy.fleet.sessions[0])
    with opened(busy, browser, "timeline?hours=1") as page:
        page.wait_for_selector(CONTENT["timeline"])
        window = busy.board.window(limit=5_000)
        expect(page.locator(".bar-top .count")).to_contain_text(f"{len(window.runs):,} runs, 1 conflict avoided")
        page.keyboard.press("T")
        page.wait_for_selector(".time-box table")
        texts = page.locator(".time-box tbody tr").all_inner_texts()
        named = {(run[0], run[2]) for run in window.runs} | {(held.item.id, busy.fleet.sessions[0])}
        assert len(texts) == 300
        assert all(tuple(text.split("\t")[2:4]) in named for text in texts)
        expect(page.locator(".time-box tr", has_text="refused: TASK_ALREADY_CLAIMED")).to_contain_text(held.item.id)
        expect(page.locator(".time-box")).to_contain_text(f"{len(window.runs) - 299:,} earlier ones are not listed")
        page.locator(".time-box tbody a").first.press("Enter")
        page.wait_for_selector("aside h1")
        page.keyboard.press("Escape")
        page.keyboard.press("T")
        page.locator("canvas.lanes").click(position={"x": 300, "y": 40})
        page.get_by_role("button", name="earlier").click()
        expect(page.get_by_role("button", name="now", exact=True)).to_be_visible()


def test_the_address_holds_where_the_timeline_was_dragged_to_and_the_depth_follows(
    busy: Shop, browser: Browser
) -> None:
    with opened(busy, browser, "timeline?hours=1") as page:
        line = page.locator(".depth polyline")
        expect(line).to_have_attribute("points", re.compile(r"\d,\d.* \d"))
        page.mouse.move(500, 400)
        page.mouse.down()
        page.mouse.move(900, 400, steps=4)
        page.mouse.up()
        page.wait_for_url(re.compile(r"from=\d+"))
        begin, end = (int(parse_qs(urlsplit(page.url).fragment.partition("?")[2])[name][0]) for name in ("from", "to"))
        assert busy.board.view().at - end > 15 * 60_000, "a third of an hour to the left"
        runs = busy.board.window(from_=begin, to=end, limit=5_000).runs
        depth = busy.board.series(from_=begin, to=end, step=-(-(end - begin) // 240_000)).depth["ready"]
        for _ in range(2):
            expect(page.locator(".bar-top .count")).to_contain_text(f"{len(runs):,} runs")
            expect(page.locator(".depth")).to_contain_text(f"up to {max(filter(None, depth)):,}")
            page.reload()
        page.get_by_role("button", name="now", exact=True).click()
        expect(page.locator(".bar-top .count")).not_to_have_attribute("data-runs", str(len(runs)))
        assert "from=" not in page.url


def test_runs_of_one_agent_at_the_same_time_are_drawn_below_each_other(busy: Shop, browser: Browser) -> None:
    """Each of several live claims of an agent can be pointed at."""
    with opened(busy, browser, "timeline?hours=1&lanes=agent") as page:
        runs = busy.board.window(limit=5_000).runs
        expect(page.locator(".bar-top .count")).to_contain_text(f"{len(runs):,} runs")
        live_ones = {one.item.id for one in busy.board.who() if one.claim is not None}
        height = page.locator(".time-box > div").evaluate("one => one.offsetHeight")
        assert height > len(live_ones) * LANE, "what is held at the same time has lanes of its own"
        box = page.locator("canvas.lanes").bounding_box()
        assert box is not None
        found = set()
        for lane in range(5):
            page.mouse.click(box["x"] + NOW_X * box["width"], box["y"] + AXIS + LANE * (lane + 0.5))
            found.add(page.locator("aside h1 .id").inner_text())
            page.keyboard.press("Escape")
            expect(page.locator("aside")).to_have_count(0)
        assert len(found) > 2
        assert found <= live_ones


def test_every_end_has_a_sign_of_its_own_and_no_lane_names_its_agent_twice(shop: Shop, browser: Browser) -> None:
    me = shop.board.start_session("reviewer").id
    assert me.startswith("reviewer-")
    for item in ("good", "bad", "asked", "lost"):
        shop.board.add(item, id=item)
        shop.board.claim(item, session=me, ttl_seconds=600)
        shop.harness.clock.advance(300)
        if item == "good":
            shop.board.done(item, session=me)
        elif item == "bad":
            shop.board.fail(item, session=me)
        elif item == "asked":
            shop.board.submit(item, session=me, draft="?")
    shop.harness.clock.advance(600)
    shop.board.sweep()
    with opened(shop, browser, "timeline?hours=1", script=DRAWN) as page:
        await_true(page, lambda: set("✓✕»!") <= {*page.evaluate("[...drawn]")}, "a sign is missing")
        assert page.evaluate("[...drawn].some(one => one.startsWith('reviewer-'))"), "its id, as far as there is room"


def test_the_first_minutes_of_a_board_are_not_a_line_at_the_edge(shop: Shop, browser: Browser) -> None:
    shop.board.add("new", id="new")
    shop.board.claim("new", session=shop.board.start_session("coder").id)
    shop.harness.clock.advance(120)
    four_hours = "button[aria-pressed=true]:text-is('4h')"
    with opened(shop, browser, "timeline", script=DRAWN) as page:
        await_true(page, lambda: "new" in {*page.evaluate("[...drawn]")}, "the bar has no room for its name")
        expect(page.locator(four_hours)).to_have_count(0)
        page.get_by_role("button", name="4h", exact=True).click()
        expect(page.locator(four_hours)).to_have_count(1)
        shown(page, "metrics")
        expect(page.locator(four_hours)).to_have_count(0)
        page.get_by_role("button", name="4h", exact=True).click()
        expect(page.locator(four_hours)).to_have_count(1)


def test_nothing_is_asked_by_the_clock_of_this_machine(busy: Shop, browser: Browser) -> None:
    """The clock of the board is ahead: its fleet has played for a while."""
    with signed_in(busy, browser) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "to=" in request.url else None)
        page.goto(f"{busy.url}/#now")
        page.wait_for_selector(".today-lines")
        ends = [int(parse_qs(urlsplit(url).query)["to"][0]) for url in asked]
        assert len(ends) >= 2
        assert min(ends) > time.time() * 1000 + BOARD_AHEAD_MS


def test_every_chart_is_also_a_table(busy: Shop, browser: Browser) -> None:
    with opened(busy, browser, "metrics?hours=4") as page:
        page.wait_for_selector(CONTENT["metrics"])
        expect(page.locator(".chart")).to_have_count(7)
        page.get_by_role("button", name="Items by status as a table").click()
        last = page.locator(".chart-table tbody tr").last
        expect(last).to_contain_text(re.compile(r"\d"))
        ready = busy.board.stats().items["ready"]
        shown_ready = [
            int(float(text.split("\t")[1])) for text in page.locator(".chart-table tbody tr").all_inner_texts()
        ]
        assert max(shown_ready) >= ready
        # Its colours follow those of the system at once.
        old = page.locator(".uplot").first.element_handle()
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("old => !old.isConnected", arg=old, timeout=10_000)


def test_a_number_of_claims_has_no_half_and_another_day_its_name(shop: Shop, browser: Browser) -> None:
    def answer_with_one_loss(route: Route) -> None:
        series = route.fetch().json()
        four_a_minute = [4 * series["step_seconds"] / 60 for _ in series["events"]["claimed"]]
        series["events"] |= {"claimed": four_a_minute, "done": four_a_minute, "expired": [1 for _ in four_a_minute]}
        route.fulfill(json=series | {"cost": {}})

    with signed_in(shop, browser, script=DRAWN) as context:
        context.route("**/v1/series?*", answer_with_one_loss)
        page = context.new_page()
        page.goto(f"{shop.url}/#metrics?hours=168")
        expect(page.locator(".uplot")).to_have_count(6)
        # A share has all of its axis, however small it is.
        page.wait_for_function("drawn.has('100')")
        assert page.evaluate("[...drawn].filter(text => /^0\\.\\d+$/.test(text))") == []
        assert page.evaluate("[...drawn].some(text => /^\\d+ [A-Z][a-z]+$/.test(text))")
        page.get_by_role("button", name="Items by status as a table").click()
        expect(page.locator(".chart-table td").first).to_have_text(re.compile(r"^\d+ [A-Z][a-z]+ \d\d:\d\d$"))


def test_a_duration_is_in_hours_and_minutes(busy: Shop, browser: Browser) -> None:
    def answer_with_ninety_minutes(route: Route) -> None:
        series = route.fetch().json()
        series["duration"]["p50"] = [5_400 for _ in series["duration"]["p50"]]
        route.fulfill(json=series)

    with signed_in(busy, browser) as context:
        context.route("**/v1/series?*", answer_with_ninety_minutes)
        page = context.new_page()
        page.goto(f"{busy.url}/#metrics")
        page.get_by_role("button", name="Duration of claims as a table").click()
        expect(page.locator(".chart-table td:nth-child(2)").last).to_have_text("1h30m")
