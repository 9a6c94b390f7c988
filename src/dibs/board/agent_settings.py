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

#: How each setting is checked. None is no limit.
_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "types": lambda given: check.names(given, "types"),
    "role": lambda given: check.name(given, "role"),
    "max_claims": lambda given: check.whole(given, "max_claims", low=1, high=LIMIT_MAX),
    "max_claims_total": lambda given: check.whole(given, "max_claims_total", low=1, high=LIMIT_MAX),
    "claims_per_minute": lambda given: check.number(given, "claims_per_minute", low=0.001, high=LIMIT_MAX),
    "claims_burst": lambda given: check.whole(given, "claims_burst", low=1, high=LIMIT_MAX),
    "allowed_actions": lambda given: check.names(given, "allowed_actions"),
    "sensitive_actions": lambda given: check.names(given, "sensitive_actions"),
}


def checked(name: str, given: dict[str, Any]) -> Agent:
    found = {}
    for field, value in given.items():
        if field not in _SETTINGS:
            raise Invalid(f"an agent has no setting {field!r}; choose one of {', '.join(_SETTINGS)}", field=field)
        if value is not None or not Agent._hints[field].endswith("None"):
            found[field] = _SETTINGS[field](value)
    return Agent(name=check.agent_name(name, "name"), **found)
