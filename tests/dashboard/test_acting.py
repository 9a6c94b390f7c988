"""What a person does with the dashboard, by mouse and by keyboard alone; and what it does not let happen."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from dibs.model import AGENT, VIEWER
from tests.dashboard.driving import Shop, await_true, live, opened, rows
from tests.dashboard.test_views import CONTENT

#: The labels of buttons that change something.
ACTING = re.compile("approve|send back|reject|retry|park|cancel|release|edit|new item")


def test_a_claim_is_force_released_by_keyboard_alone(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        page.keyboard.press("g")
        page.keyboard.press("f")
        page.wait_for_selector(".rows.flight .row[data-id]")
        page.keyboard.press("j")
        item = page.locator(".row[data-cursor]").get_attribute("data-id")
        assert item is not None
        page.keyboard.press("F")
        page.wait_for_selector("dialog[open] textarea")
        page.keyboard.type("it hangs")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        await_true(page, lambda: shop.board.get(item).runs[0].outcome == "force_released", "it is still held")
        run = shop.board.get(item).runs[0]
        assert run.reason == "it hangs"
        (event,) = [one for one in shop.board.log(item) if one.kind == "force_released"]
        assert event.actor == "ann"
        expect(page.locator(".toast")).to_contain_text(item)


def submit_another(shop: Shop) -> None:
    shop.board.send_back("letter-42", comment="too long")
    shop.board.claim("letter-42", session=shop.fleet.sessions[2])
    shop.board.submit("letter-42", session=shop.fleet.sessions[2], draft="Something else")


def test_exactly_what_was_read_is_approved(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "approvals") as page:
        expect(page.locator("article.draft")).to_contain_text("Tell them that login works")
        read = shop.board.get("letter-42").item
        submit_another(shop)
        expect(page.locator("article.asked [role=alert]")).to_contain_text("changed since you opened it")
        expect(page.locator("article.draft")).to_contain_text("Dear customer")
        page.keyboard.press("a")
        expect(page.locator(".toast.bad")).to_contain_text(re.compile("revision|changed", re.IGNORECASE))
        assert shop.board.get("letter-42").item.status == "pending_approval"
        page.get_by_role("button", name="show it as it is now").click()
        expect(page.locator("article.draft")).to_contain_text("Something else")
        expect(page.locator("article.draft button")).to_contain_text(f"changes since run {read.token}")
        page.keyboard.press("d")
        expect(page.locator("article.draft .minus").first).to_contain_text("Dear customer")
        page.keyboard.press("A")
        await_true(page, lambda: shop.board.get("letter-42").item.status == "done", "it is not approved")
        (event,) = [one for one in shop.board.log("letter-42") if one.kind == "approved"]
        assert event.token == read.token + 1


def test_the_buttons_beside_an_open_item_are_about_what_is_read_there(shop: Shop, browser: Browser) -> None:
    """Also the buttons of its row in the list, which follows the board."""
    with opened(shop, browser, "now?item=letter-42") as page:
        aside = page.locator("aside")
        expect(aside.locator(".draft pre")).to_contain_text("Dear customer")
        submit_another(shop)
        expect(aside.locator("[role=alert]")).to_contain_text("changed since you opened it")
        page.locator('.row[data-id="letter-42"]').get_by_role("button", name="approve letter-42").click()
        expect(page.locator(".toast.bad")).to_contain_text(re.compile("revision|changed", re.IGNORECASE))
        assert shop.board.get("letter-42").item.status == "pending_approval"
        aside.get_by_role("button", name="show it as it is now").click()
        expect(aside.locator(".draft pre")).to_contain_text("Something else")
        aside.get_by_role("button", name="approve letter-42").click()
        await_true(page, lambda: shop.board.get("letter-42").item.status == "ready", "it is not approved")


def test_a_draft_is_sent_back_with_a_comment(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        row = page.locator('.row[data-id="refund-order-7"]')
        row.get_by_role("button", name="send back").click()
        page.locator("dialog[open] textarea").fill("Which order?")
        page.locator("dialog[open] button.main").click()
        expect(row).to_have_count(0)
        assert shop.board.get("refund-order-7").item.status == "ready"
        (event,) = [one for one in shop.board.log("refund-order-7") if one.kind == "sent_back"]
        assert event.data["comment"] == "Which order?"


def test_an_item_is_added_and_edited(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue") as page:
        page.keyboard.press("n")
        page.get_by_label("id (").fill("from-here")
        page.get_by_label("title").fill("Made in the browser")
        page.get_by_label("priority").fill("10")
        page.locator("dialog[open] button.main").click()
        expect(page.locator("article.item h1")).to_contain_text("Made in the browser")
        page.locator("aside").get_by_role("button", name="edit").click()
        page.get_by_label("title").fill("Made and changed")
        # Somebody else is faster.
        shop.board.edit("from-here", labels=["web"])
        page.locator("dialog[open] button.main").click()
        expect(page.locator("dialog[open] [role=alert]")).to_contain_text("revision")
        page.get_by_role("button", name="leave it").click()
        page.locator("aside").get_by_role("button", name="edit").click()
        page.get_by_label("title").fill("Made and changed")
        page.locator("dialog[open] button.main").click()
        expect(page.locator("article.item h1")).to_contain_text("Made and changed")
        assert shop.board.get("from-here").item.labels == ("web",)
        # A field that is emptied has what a new item has, and a priority may be a word.
        for written, priority in {"": 5, "high": 8}.items():
            page.locator("aside").get_by_role("button", name="edit").click()
            page.get_by_label("priority").fill(written)
            page.locator("dialog[open] button.main").click()
            expect(page.locator("dialog[open]")).to_have_count(0)
            assert shop.board.get("from-here").item.priority == priority


def test_many_items_are_parked_at_once_and_what_changed_meanwhile_is_left_alone(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue?q=status:ready") as page:
        page.wait_for_selector(".rows.queue .row[data-id]")
        page.keyboard.press("j")
        page.keyboard.press("x")
        for _ in range(3):
            page.keyboard.press("j")
        page.keyboard.press("X")
        expect(page.locator(".bar-bottom")).to_contain_text("4 selected")
        chosen = rows(page, "queue")[:4]
        page.keyboard.press("p")
        page.wait_for_selector("dialog[open]")
        shop.board.edit(chosen[1], title="Another title")
        page.keyboard.press("Enter")
        expect(page.locator(".toast.bad")).to_contain_text("3 items: park; 1 refused")
        statuses = [shop.board.get(id).item.status for id in chosen]
        assert statuses == ["parked", "ready", "parked", "parked"]


def test_a_viewer_sees_everything_and_no_button_that_would_be_refused(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, role=VIEWER) as page:
        page.wait_for_selector('.row[data-id="letter-42"]')
        assert page.locator(".row .buttons button").count() == 0
        page.keyboard.press("j")
        for key in "aAbRrpcFne":
            page.keyboard.press(key)
        assert page.locator("dialog[open]").count() == 0
        page.keyboard.press("Enter")
        expect(page.locator("aside h1")).to_contain_text(rows(page, "needs")[0])
        assert page.locator("aside .buttons button").count() == 0
        for view in ("queue", "flight", "approvals", f"item?item={rows(page, 'needs')[0]}"):
            page.goto(re.sub("#.*", f"#{view}", page.url))
            page.wait_for_selector(CONTENT.get(view, "main > article.item h1"))
            page.keyboard.press("j")
            page.keyboard.press("x")
            names = page.locator("main button:visible").all_inner_texts()
            assert not [name for name in names if ACTING.search(name)], (view, names)
            assert "decides" not in page.locator("main").inner_text(), "who decides nothing is not told about it"
        status = page.evaluate(
            "fetch('/v1/items/letter-42/approve', {method: 'POST', headers: {'Content-Type': 'application/json'},"
            " body: '{}'}).then(answer => answer.status)"
        )
        assert status == 403


def test_an_agent_may_park_but_not_approve(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue?q=status:ready", role=AGENT) as page:
        page.wait_for_selector(".rows.queue .row[data-id]")
        page.keyboard.press("j")
        item = page.locator(".row[data-cursor]").get_attribute("data-id")
        assert item is not None
        page.keyboard.press("c")
        assert page.locator("dialog[open]").count() == 0
        page.keyboard.press("p")
        await_true(page, lambda: shop.board.get(item).item.status == "parked", "it is not parked")


def test_rows_do_not_move_under_the_cursor(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser, "queue") as page:
        page.wait_for_selector(".rows.queue .row[data-id]")
        page.keyboard.press("j")
        page.keyboard.press("j")
        before = rows(page, "queue")
        shop.board.add("Better than all", id="better", priority=1_000)
        shop.board.add("As good", id="as-good", priority=1_000)
        expect(page.locator(".news")).to_have_text("2 new")
        assert rows(page, "queue") == before
        shop.board.cancel(before[1])
        expect(page.locator(f'.row[data-id="{before[1]}"]')).to_have_class(re.compile("gone"))
        assert rows(page, "queue") == before
        page.locator(".news").click()
        expect(page.locator(".row[data-id]").first).to_contain_text("Better than all")


def test_keys_can_be_switched_off(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        page.keyboard.press("?")
        page.locator("dialog[open] label", has_text="keys").locator("select").select_option("off")
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("q")
        assert "#queue" not in page.url
        page.reload()
        live(page)
        page.keyboard.press("?")
        assert page.locator("dialog[open]").count() == 0, "the choice is remembered"


def test_an_item_whose_blocker_failed_can_be_edited_where_it_is_listed(shop: Shop, browser: Browser) -> None:
    with opened(shop, browser) as page:
        row = page.locator('.row[data-id="release-2"]')
        expect(row).to_contain_text("needs plan-release, which failed")
        row.get_by_role("button", name="edit release-2").click()
        page.locator("dialog[open] [name=depends_on]").fill("")
        page.locator("dialog[open] button.main").click()
        await_true(page, lambda: shop.board.get("release-2").item.status == "ready", "it is still blocked")
