"""Pictures of every view with a busy fleet, light, dark and phone: `python -m tests.dashboard.screenshots FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.dashboard.driving import PHONE, VIEWS, WIDE, Shop, board_of, found, opened
from tests.dashboard.fleet import Fleet
from tests.kit import browser as kit
from tests.kit.http import Host

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": WIDE},
    "dark": {"color_scheme": "dark", "viewport": WIDE},
    "phone": {
        "color_scheme": "light",
        "viewport": PHONE,
        "is_mobile": True,
        "has_touch": True,
        "device_scale_factor": 2,
    },
}
PAGES = {**{view: view for view in VIEWS}, "item": "flight?item={held}"}
ITEMS, SESSIONS, ROUNDS = 2_500, 60, 60
#: Charts and lanes are drawn after their data came.
DRAWING_MS = 1_200


def _fill(fleet: Fleet) -> None:
    fleet.add(ITEMS)
    fleet.start(SESSIONS)
    fleet.play(ROUNDS)
    fleet.settle()


@contextmanager
def shop_of(name: str, fill: Callable[[Fleet], None] = _fill) -> Iterator[Shop]:
    """A shop of its own, outside of any test."""
    host = Host()
    try:
        with tempfile.TemporaryDirectory(prefix="dibs-dashboard-") as made:
            folder = Path(made) / "board"
            folder.mkdir()
            harness, fleet = board_of(folder, Path(made), name, fill)
            with harness:
                yield Shop(host, harness, fleet)
    finally:
        host.close()


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with shop_of("pictures") as shop, kit.launched(found()) as browser:
        held = sorted(item for item, _ in shop.fleet.held.values())[0]
        for look, options in LOOKS.items():
            for name, address in PAGES.items():
                with opened(shop, browser, address.format(held=held), **options) as page:
                    shop.fleet.act(20)
                    page.wait_for_timeout(DRAWING_MS)
                    page.screenshot(path=folder / f"{name}-{look}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
