"""Validation of the checks of a run: what builds and reviews elsewhere found out about its work."""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def checked(given: object, bytes_max: int = check.NOTE_BYTES_MAX) -> dict[str, Any]:
    """Checks by name, each an object with a `state` and optionally a `url`, or only the text of the state."""
    found = check.json_object(given, "checks", bytes_max)
    return {_line(one, check.NAME_LENGTH_MAX): _check(one, value) for one, value in found.items()}


def _check(name: str, given: object) -> dict[str, str]:
    found = {"state": given} if isinstance(given, str) else given
    if not isinstance(found, dict) or not {"state"} <= found.keys() <= {"state", "url"}:
        raise Invalid(f"the check {name[:60]!r} must be a state, or have a state and optionally a url", field="checks")
    most = {"state": check.NAME_LENGTH_MAX, "url": check.TITLE_LENGTH_MAX}
    return {field: _line(value, most[field]) for field, value in found.items()}


def _line(given: object, length_max: int) -> str:
    if not isinstance(given, str) or not given or not given.isprintable() or len(given) > length_max:
        raise Invalid(
            f"the name, the state and the url of a check must each be one line of 1 to {length_max} characters",
            field="checks",
        )
    return given
