"""How much of the dashboard a browser loads, in compressed bytes."""

from __future__ import annotations

import re

from dibs.server import pages


def first_load() -> int:
    return _compressed(_loaded(pages.INDEX))


def charts() -> int:
    """What the first chart adds to the first load."""
    (metrics,) = (name for name in pages.assets() if re.fullmatch(r"metrics-\w+\.js", name))
    return _compressed(_loaded(metrics) - _loaded(pages.INDEX))


def _compressed(names: set[str]) -> int:
    return sum(len(pages.assets()[name].compressed) for name in names)


def _loaded(name: str) -> set[str]:
    """The files that a file loads at once, and itself."""
    found, rest = set(), {name}
    while rest:
        one = rest.pop()
        found.add(one)
        text = pages.assets()[one].content.decode()
        rest |= set(re.findall(r'(?:="/assets/|(?:from|import)"\./)([\w.-]+)"', text)) - found
    return found
