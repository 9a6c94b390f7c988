"""Priorities: integers, higher first, with names for people."""

from __future__ import annotations

from dibs.errors import Invalid

NAMES = {
    "critical": 10,
    "critical_bug": 10,
    "security": 9,
    "security_issue": 9,
    "high": 8,
    "bug": 8,
    "medium": 5,
    "feature": 5,
    "docs": 3,
    "documentation": 3,
    "low": 1,
    "refactoring": 1,
    # The scale of the issue tracker beads: P0 is the highest, P4 the backlog.
    "p0": 10,
    "p1": 8,
    "p2": 5,
    "p3": 1,
    "p4": 0,
}
#: The name that is shown for each number.
_BY_NUMBER = ((10, "critical"), (9, "security"), (8, "high"), (5, "medium"), (3, "docs"), (1, "low"))
LIMIT = 1_000_000


def parse(given: str | int) -> int:
    """`high`, `8` and 8 are the same priority."""
    if isinstance(given, str):
        name = given.strip().lower()
        if name.replace("-", "_") in NAMES:
            return NAMES[name.replace("-", "_")]
        digits = name[1:] if name[:1] in "+-" else name
        if not (digits.isascii() and digits.isdigit() and len(digits) < 9):
            known = ", ".join(name for _, name in _BY_NUMBER)
            raise Invalid(f"priority {given!r} is neither a number nor one of {known}", field="priority")
        given = int(name)
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) > LIMIT:
        raise Invalid(f"priority must be a whole number between -{LIMIT} and {LIMIT}", field="priority")
    return given


def name(priority: int) -> str:
    """The name of the nearest named priority at or below; below all of them, the lowest."""
    for number, name in _BY_NUMBER:
        if priority >= number:
            return name
    return "low"
