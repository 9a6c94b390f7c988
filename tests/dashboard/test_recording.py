"""The recording of `dibs demo` in a browser: what is on the screen at which time."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from dibs.cli.demo import svg
from dibs.cli.render import Paint

#: A line every half second, more of them than the screen has rows.
LINES = svg.ROWS + 8
SECONDS = 0.5
#: The lines that are in the picture and not below the cover.
SHOWN = """() => {
    const cover = document.querySelector(".cover").getBoundingClientRect().top;
    const paper = document.querySelector(".paper").getBoundingClientRect();
    const screen = {top: paper.top + MARGIN, bottom: paper.bottom - MARGIN};
    const middle = text => text.getBoundingClientRect().top + text.getBoundingClientRect().height / 2;
    const all = [...document.querySelectorAll("text")];
    return all.filter(text => middle(text) > screen.top && middle(text) < Math.min(cover, screen.bottom))
              .map(text => Number(text.textContent.split(" ")[1]));
}""".replace("MARGIN", str(svg.MARGIN))


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    paint = Paint(True)
    lines = [(SECONDS * number, f"line {number} {paint('<&>', 'bold', 'red')}") for number in range(LINES)]
    path = tmp_path_factory.mktemp("recording") / "story.svg"
    path.write_text(svg.render(lines), encoding="utf-8")
    return path


def test_lines_appear_at_their_times_and_scroll(browser: Browser, picture: Path) -> None:
    page = browser.new_page()
    page.goto(picture.as_uri())
    for seconds, last in ((0.1, 0), (2.1, 4), (SECONDS * (svg.ROWS + 2) + 0.1, svg.ROWS + 2)):
        assert _shown_at(page, seconds) == list(range(max(0, last + 1 - svg.ROWS), last + 1))
    assert page.text_content("tspan.bold.red") == "<&>"
    page.close()


@pytest.mark.parametrize(("motion", "fragment"), [("reduce", ""), ("no-preference", f"#{svg.STILL}")])
def test_the_last_screen_is_shown_without_motion(
    browser: Browser, picture: Path, motion: Literal["reduce", "no-preference"], fragment: str
) -> None:
    context = browser.new_context(reduced_motion=motion)
    page = context.new_page()
    page.goto(picture.as_uri() + fragment)
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate(SHOWN) == list(range(LINES - svg.ROWS, LINES))
    context.close()


def test_a_dark_system_gets_a_dark_picture(browser: Browser, picture: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(picture.as_uri())
        colours.append(page.evaluate("getComputedStyle(document.querySelector('.paper')).fill"))
        page.close()
    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def _shown_at(page: Page, seconds: float) -> list[int]:
    page.evaluate(
        "ms => document.getAnimations().forEach(one => { one.pause(); one.currentTime = ms })", seconds * 1000
    )
    shown: list[int] = page.evaluate(SHOWN)
    return shown
