"""The calls of the SQL functions: a statement for each, and its parameters as text."""

from __future__ import annotations

from dibs.store.sql.dispatch import REAPS_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from dibs.config import Settings


def call_of(function: str, *types: str) -> str:
    return f"SELECT dibs.{function}({', '.join(f'%s::{type}' for type in types)})"


_FLOAT, _SETTINGS = "double precision", "dibs.settings"
CLAIM = call_of("claim", "text", "text", "text", _FLOAT, "boolean", "bigint", _SETTINGS, "text[]", "boolean")
NEXT = call_of(
    *("next", "text", "text", "text[]", "text[]", "bigint", _FLOAT, "integer[]", "bigint[]", "boolean", _SETTINGS),
    *("text[]", "text[]", "bigint[]", "text[]", "boolean"),
)
HEARTBEAT = call_of("heartbeat", "text", "text[]", "bigint[]", _SETTINGS, "bigint", _FLOAT, "text")
RENEW = call_of("renew", "text", "text", "bigint", _FLOAT, _SETTINGS, _FLOAT)
PROGRESS = call_of("progress", "text", "text", "bigint", "text", "text", _SETTINGS, "text[]")
FINISH = call_of(
    *("finish", "text", "text", "text", "bigint", "text", "boolean", "text", "text", "text", _FLOAT, _SETTINGS),
    "text[]",
)
DONE = call_of("done", "text[]", "bigint[]", "text", "text", "text", "text", "boolean", _SETTINGS, "text[]")
FORCE_RELEASE = call_of("force_release", "text", "text", "text", "bigint", _SETTINGS, "text[]")
SWEEP = call_of("sweep", "json", "bigint", _SETTINGS)


def claim_past_dead_owners(
    claim: Callable[[bool], dict[str, Any]], reap_dead_owners: Callable[[], bool]
) -> dict[str, Any]:
    """The answer of `claim`, which is told whether a session that a claim keeps from accepting its offer keeps the
    offer: as long as that claim may be of a dead owner."""
    answer = claim(True)
    for _ in range(REAPS_MAX):
        if not (answer.get("offer_kept") and reap_dead_owners()):
            break
        answer = claim(True)
    return claim(False) if answer.get("offer_kept") else answer


def texts(parameters: Iterable[object]) -> list[str | None]:
    return [None if value is None else _text(value) for value in parameters]


def _text(value: object) -> str:
    """A parameter as text; the statement casts it. Cheaper than psycopg's adaptation, and always the same prepared
    statement."""
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else _quoted(str(one)) for one in value) + "}"
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def settings_row(settings: Settings) -> str:
    """The settings as a row of type `dibs.settings`."""
    names = (
        "ttl_seconds",
        "ttl_seconds_min",
        "ttl_seconds_max",
        "person_ttl_seconds",
        "person_ttl_seconds_max",
        "max_strikes",
        "accept_seconds",
        "retry_backoff_seconds",
        "retry_backoff_seconds_max",
        "request_kept_seconds",
        "activity_kept",
    )
    return f"({','.join(str(getattr(settings, name)) for name in names)})"
