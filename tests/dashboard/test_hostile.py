"""Text that anybody may write onto a board: it is shown as text, and breaks nothing."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.dashboard.driving import BROKEN, PHONE, VIEWS, WIDE, Shop, opened
from tests.dashboard.test_views import CONTENT

CORPUS = (
    "<script>window.attacked = 1</script>",
    "<img src=x onerror='window.attacked = 1'>",
    '"><svg onload=window.attacked=1>',
    "javascript:window.attacked=1",
    "\u202etxet sdrawkcab\u202c",
    "שלום עולם, and back",
    "w" * 4_000,
    "a\u0301" * 300,
    "🧨" * 200,
    "line\nbreak\r\nand\ttab",
    "{{constructor.constructor('window.attacked=1')()}}",
)


def test_no_script_runs_and_no_layout_breaks(shop: Shop, browser: Browser) -> None:
    session = shop.fleet.sessions[3]
    for number, text in enumerate(CORPUS):
        name = f"hostile-{number}"
        shop.board.add(" ".join(text.split())[:500], id=name, body=text, priority=20)
        shop.board.claim(name, session=session)
        shop.board.progress(name, text, session=session)
        if number % 3 == 0:
            links = {"log": text[:200], "page": "javascript:window.attacked=1"}
            shop.board.submit(name, session=session, draft=text, links=links)
        elif number % 3 == 1:
            shop.board.fail(name, session=session, reason=text)
    for size in (WIDE, PHONE):
        with opened(shop, browser, viewport=size) as page:
            for view in (*VIEWS, "queue?item=hostile-0", "item?item=hostile-3"):
                page.goto(re.sub("#.*", f"#{view}", page.url))
                page.wait_for_selector(CONTENT.get(view, "article.item .runs td"))
                assert page.evaluate(BROKEN) == [], (view, size)
            expect(page.locator("article.item h1")).to_contain_text("javascript:")
            assert page.locator("article.item a[href^=javascript]").count() == 0
            page.goto(re.sub("#.*", "#queue?q=hostile", page.url))
            first = page.locator('.row[data-id="hostile-0"]')
            expect(first).to_contain_text(CORPUS[0])
            heights = page.eval_on_selector_all(".row[data-id]", "rows => rows.map(row => row.offsetHeight)")
            assert len(set(heights)) == 1, "every row has the same height"
            assert page.evaluate("window.attacked") is None


def test_costs_links_and_sessions_are_text_of_the_board_too(shop: Shop, browser: Browser) -> None:
    backwards = "\u202edsu"
    shop.board.add("Paid for", id="paid")
    shop.board.claim("paid", session=shop.fleet.sessions[3])
    cost = {backwards: 3, "tokens": {"in": 5}}
    shop.board.done("paid", session=shop.fleet.sessions[3], cost=cost, links={"of": {"a": 1}})
    with opened(shop, browser, "item?item=paid") as page:
        cell = page.locator("table.runs td").last
        expect(cell.locator("bdi", has_text="\ufffddsu")).to_have_text("3 \ufffddsu")
        expect(cell).to_contain_text('{"in":5} tokens')
        expect(cell).to_contain_text('of {"a":1}')
        assert page.locator("article option:not([dir=auto])").count() == 0


#: Each of these would let a text read as another one.
REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
#: What a page shows or says: its texts, and the attributes that people read.
SHOWN = """() => {
    const texts = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) texts.push(walk.currentNode.data);
    const read = ["title", "aria-label", "alt", "placeholder", "label"];
    for (const one of document.querySelectorAll("*"))
        for (const name of read) texts.push(one.getAttribute(name) ?? "");
    return [document.title, ...texts].join(" ");
}"""


def test_nothing_that_reorders_text_is_shown(shop: Shop, browser: Browser) -> None:
    """Neither in texts nor in tooltips; a form has it, since it sends the text back."""
    text = f"pay \u202eynapmoc rehtona\u202c {REORDERING} marked"
    session = shop.fleet.sessions[3]
    shop.board.add(text, id="reordered", body=text, priority=20, needs_approval=True)
    shop.board.add(text, id="held", body=text, priority=20)
    shop.board.claim("held", session=session)
    shop.board.progress("held", text, session=session)
    shop.board.add(text, id="drafted", body=text, priority=20)
    shop.board.claim("drafted", session=session)
    shop.board.submit("drafted", session=session, draft=text, note=text, links={text: text}, cost={text: 1})
    seen = 0
    with opened(shop, browser) as page:
        for view in (*VIEWS, "queue?item=held", "item?item=held", "item?item=drafted", "approvals?item=drafted"):
            page.goto(re.sub("#.*", f"#{view}", page.url))
            page.wait_for_selector(CONTENT.get(view, "article.item .runs td, main"))
            shown = page.evaluate(SHOWN)
            assert re.findall(f".{{0,40}}[{REORDERING}]", shown) == [], view
            seen += "marked" in shown
        assert seen > 3, "the texts are on these pages"
        page.goto(re.sub("#.*", "#item?item=reordered", page.url))
        expect(page.locator("article.item h1")).to_contain_text("\ufffdynapmoc rehtona\ufffd")
        page.get_by_title("edit (e)").click()
        expect(page.locator("dialog [name=title]")).to_have_value(text)
