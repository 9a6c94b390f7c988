"""What doctor checks in passing is refused as by the check of a restore, also after it has seen good records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dibs.board import connect
from dibs.errors import Invalid
from dibs.store.sql import record_check, records
from dibs.testing.conformance.exporting import STRANGE
from dibs.value import Value

#: More than the strange values of the conformance suite: what the fast ways look at.
MORE: list[tuple[str, str, Any]] = [
    ("event", "data", {"reason": "nul \0"}),
    ("event", "data", {"reason": "lone \ud800"}),
    ("event", "data", {"reason": float("nan")}),
    ("event", "data", {"reason": float("inf")}),
    ("event", "data", {"reason": "A" * 9_000_000}),
    ("event", "number", 0),
    ("event", "at", -1),
    ("event", "actor", "A" * 64_001),
    ("event", "session", "a b"),
    ("event", "session", ""),
    ("item", "created_by", "A" * 64_001),
    ("item", "body", "A" * 1_000_001),
    ("item", "payload", {"a": "\0"}),
    ("run", "token", 0),
    ("run", "cost", {"a": float("nan")}),
    ("run", "reason", "A" * 1_000_001),
    ("claim", "expires_at", 2**62),
    ("ticket", "id", -1),
    ("soft_claim", "session", ""),
]


def good_records(folder: Path) -> dict[str, Value]:
    with connect(str(folder / "board.db"), create=True) as board:
        me, other = (board.start_session("coder").id for _ in range(2))
        for id in ("done", "held"):
            board.add("Fix login", id=id)
            board.claim(id, session=me)
        board.done("done", session=me, cost={"usd": 1.5})
        board.wait("held", session=other)
        board.add("Later", id="soft")
        board.soft_claim("soft", session=other)
        return {
            kind: value for kind, value in board.store.histories() if isinstance(value, Value) and kind != "session"
        }


def refuses(value: Value) -> bool:
    try:
        records.check_value(value)
    except (Invalid, TypeError, ValueError, AttributeError):
        return True
    return False


def test_what_was_checked_before_hides_nothing(tmp_path: Path) -> None:
    good = good_records(tmp_path)
    assert good.keys() == {"item", "claim", "soft_claim", "ticket", "run", "event"}
    checks = record_check.RecordCheck()
    for _ in range(2):
        assert [checks.why_invalid(value) for value in good.values()] == [None] * len(good)
    tried = 0
    for kind, field, strange in [*STRANGE, *MORE]:
        if kind in good and isinstance(getattr(good[kind], field), type(strange)):
            value = good[kind].replace(**{field: strange})
            assert (checks.why_invalid(value) is not None) == refuses(value), (kind, field, str(strange)[:60])
            tried += refuses(value)
    assert tried > 30
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    assert checks.why_invalid(good["event"].replace(data=deep)) is not None
    assert [checks.why_invalid(value) for value in good.values()] == [None] * len(good)
