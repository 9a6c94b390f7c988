"""Pictures of every view on the board of a busy fleet: `make screenshots`, or `python -m tests.dashboard.screenshots`.

They go to `screenshots/`, which git ignores: light and dark, on a wide and a narrow
screen, and on a phone. Those that the documents show are taken
again, too, into `docs/images/`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.dashboard.driving import PHONE, VIEWS, WIDE, Shop, opened, shop_of
from tests.dashboard.fleet import Fleet
from tests.dashboard.test_views import CONTENT
from tests.kit import browser as kit

ROOT = Path(__file__).parents[2]
FOLDER, IMAGES = ROOT / "screenshots", ROOT / "docs" / "images"
#: A view by its address, and what it shows once it has its data.
PICTURES = {view: (view, CONTENT[view]) for view in VIEWS} | {
    "timeline": ("timeline?hours=4", CONTENT["timeline"]),
    "metrics": ("metrics?hours=4", CONTENT["metrics"]),
    "item": ("queue?item=letter-42", "article.item h1"),
}
#: What a view shows after its content, since it asks for that apart.
LATER = {
    "now": (
        ".today-lines",
        ".events li:nth-child(3)",
        ".fleet-box [aria-label*='sessions worked']:not([aria-label^='0 '])",
    ),
    "timeline": (".bar-top .count:text-matches('^[1-9].* runs')",),
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "wide": {"color_scheme": "light", "viewport": {"width": 1600, "height": 900}},
    "narrow": {"color_scheme": "dark", "viewport": {"width": 1024, "height": 768}},
    "phone": {"color_scheme": "light", "viewport": PHONE, "has_touch": True, "is_mobile": True},
}
#: The pictures of the documents, and their looks. They are smaller, because git keeps every version of them.
SHOWN = {"now": "light", "timeline": "dark", "sessions": "light"}
SHOWN_SIZE = {"width": 1120, "height": 630}


def fill(fleet: Fleet) -> None:
    fleet.add(1_400)
    fleet.start(42)
    # Four hours in which somebody does something every few seconds, and each session falls silent now and then.
    for minute in range(240):
        resting = minute // 8 % len(fleet.sessions)
        fleet.act(11, but=fleet.sessions[resting : resting + 5])
        fleet.clock.advance(60)
        if minute % 5 == 4:
            fleet.collide(1)
            fleet.board.sweep()
    fleet.settle()
    fleet.act(12)


def take(shop: Shop, browser: Browser, picture: str, path: Path, **options: Any) -> None:
    address, content = PICTURES[picture]
    with opened(shop, browser, address, **{"viewport": WIDE, "reduced_motion": "reduce", **options}) as page:
        page.wait_for_selector(content)
        if picture == "now":
            shop.fleet.act(9)
        for later in LATER.get(picture, ()):
            page.wait_for_selector(later)
        page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1000} kB", flush=True)


def main() -> None:
    program, why_not = kit.find()
    if program is None:
        sys.exit(why_not)
    for folder in (FOLDER, IMAGES):
        folder.mkdir(exist_ok=True)
    with shop_of("screenshots", fill) as shop, kit.launched(program) as browser:
        for look, options in LOOKS.items():
            for picture in PICTURES:
                take(shop, browser, picture, FOLDER / f"{picture}-{look}.png", **options)
        for picture, look in SHOWN.items():
            path = IMAGES / f"dashboard-{picture}.png"
            take(shop, browser, picture, path, **LOOKS[look] | {"viewport": SHOWN_SIZE})


if __name__ == "__main__":
    main()
