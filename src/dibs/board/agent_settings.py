"""Checks the settings of an agent, from a verb or from a table of a `dibs.toml`."""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid
from dibs.model import Agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT_MAX = 10**6

SETTINGS = tuple(name for name in Agent._fields if name not in ("name", "created_at", "updated_at"))
_CHECKS: dict[str, Callable[[Any, str], Any]] = check.KINDS | {
    "Count": lambda given, field: check.whole(given, field, low=1, high=LIMIT_MAX),
    "Number": lambda given, field: check.number(given, field, low=0.001, high=LIMIT_MAX),
}


def checked(name: str, given: dict[str, Any]) -> Agent:
    found = {}
    for field, value in given.items():
        if field not in SETTINGS:
            raise Invalid(f"an agent has no setting {field!r}; choose one of {', '.join(SETTINGS)}", field=field)
        # None is no limit.
        if value is not None or not Agent._hints[field].endswith("None"):
            found[field] = _CHECKS[Agent._kinds[field]](value, field)
    return Agent(name=check.agent_name(name, "name"), **found)
