"""Durations, instants and priorities, in and out of words."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from dibs import check
from dibs.errors import Invalid
from dibs.text import priorities, times


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1d", 86400),
        ("1w", 604800),
        ("90", 90),
        ("1.5h", 5400),
        (" 5M ", 300),
        ("0", 0),
    ],
)
def test_a_duration_is_seconds(said: str, seconds: float) -> None:
    assert times.parse_duration(said) == seconds


@pytest.mark.parametrize(
    "said",
    [
        "",
        " ",
        "m",
        "5x",
        "-5",
        "-5m",
        "1..5h",
        "5m-",
        "nan",
        "inf",
        "1e10",
        "1_0",
        "٣",
        "5 m x",
        ".",
        "99999999999w",
    ],
)
def test_what_is_no_duration_says_what_would_be(said: str) -> None:
    with pytest.raises(Invalid, match="30m"):
        times.parse_duration(said)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (-5, "0s"),
        (0.4, "0s"),
        (59.4, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (599, "9m 59s"),
        (600, "10m"),
        (3540, "59m"),
        (3599, "1h"),
        (3600, "1h"),
        (7500, "2h 5m"),
        (82800, "23h"),
        (86399, "1d"),
        (86400, "1d"),
        (3 * 86400 + 7200, "3d 2h"),
        (40 * 86400, "40d"),
    ],
)
def test_a_span_is_what_people_say(seconds: float, said: str) -> None:
    assert times.span(seconds) == said


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-15T09:30:00.123Z", 1794735000123),
        ("2026-11-15T09:30:00", 1794735000000),
        ("2026-11-15T10:30:00+01:00", 1794735000000),
        ("2026-11-15", 1794700800000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_an_instant_is_milliseconds(said: str, at: int) -> None:
    assert times.parse_instant(said) == at


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is an hour ahead of UTC, and two in summer."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-11-15T09:30:00", "2026-11-15T08:30:00.000Z"),
        ("2026-07-15 09:30", "2026-07-15T07:30:00.000Z"),
        ("2026-11-15", "2026-11-14T23:00:00.000Z"),
        ("2026-11-15T09:30Z", "2026-11-15T09:30:00.000Z"),
        ("2026-10-25T02:45+02:00", "2026-10-25T00:45:00.000Z"),
    ],
)
def test_a_person_means_the_clock_of_the_machine(berlin: None, said: str, meant: str) -> None:
    assert times.iso(times.parse_clock_time(said, "not_before")) == meant


@pytest.mark.parametrize(
    ("said", "forms"),
    [
        ("2026-10-25 02:45", "write 2026-10-25T02:45:00+02:00 or 2026-10-25T02:45:00+01:00"),
        ("2026-03-29 02:45", "write 2026-03-29T02:45:00+01:00 or 2026-03-29T02:45:00+02:00"),
        ("0001-01-01", "outside"),
    ],
)
def test_a_time_that_the_clock_shows_twice_or_never_is_refused(berlin: None, said: str, forms: str) -> None:
    with pytest.raises(Invalid, match=re.escape(forms)) as caught:
        times.parse_clock_time(said, "not_before")
    assert caught.value.facts["field"] == "not_before"


def test_a_program_says_which_offset_it_means() -> None:
    assert check.instant("2026-11-15T10:30:00+01:00", "from") == check.instant("2026-11-15T09:30Z", "from")
    for said, right in (("2026-11-15T09:30", "2026-11-15T09:30:00Z"), ("2026-11-15", "2026-11-15T00:00:00Z")):
        with pytest.raises(Invalid, match=f"no offset; write {right} ") as caught:
            check.instant(said, "from")
        assert caught.value.facts["field"] == "from"


@pytest.mark.parametrize("said", ["", "now", "15.11.2026", "2026-13-01"])
def test_what_is_no_instant_is_refused(said: str) -> None:
    with pytest.raises(Invalid, match="ISO 8601"):
        times.parse_instant(said, field="not_before")


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("critical", 10),
        ("critical_bug", 10),
        ("critical-bug", 10),
        ("Security", 9),
        ("security_issue", 9),
        ("high", 8),
        ("bug", 8),
        ("medium", 5),
        ("feature", 5),
        ("docs", 3),
        ("documentation", 3),
        ("low", 1),
        ("refactoring", 1),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        (7, 7),
        (-1_000_000, -1_000_000),
    ],
)
def test_a_priority_has_names_and_any_whole_number(said: str | int, number: int) -> None:
    assert priorities.parse(said) == number


@pytest.mark.parametrize(
    "said", ["", "urgent", "1.5", "--1", "1_000", "٣", "9" * 30, 1.5, True, None, 10**7, "10000000"]
)
def test_what_is_no_priority_is_refused(said: object) -> None:
    with pytest.raises(Invalid):
        priorities.parse(said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "name"), [(99, "critical"), (10, "critical"), (9, "security"), (7, "medium"), (4, "docs"), (0, "low")]
)
def test_a_number_is_named_after_the_nearest_at_or_below(number: int, name: str) -> None:
    assert priorities.name(number) == name
