"""Values on the wire and in words: whatever goes out comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs import model
from dibs.errors import Invalid
from dibs.text import json_text, priorities, times, wire

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, plain, max_size=3)
#: From the epoch to the year 9999, in milliseconds.
instants = st.integers(0, 253_402_300_799_999)
#: Facts that the board itself writes into events and answers: its own fields, instants among them.
facts = st.dictionaries(st.sampled_from(["reason", "strikes", "note", "session"]), names, max_size=3)
timed_facts = st.builds(lambda some, at: {**some, "deadline_at": at}, facts, instants)


def parsed(parse: Callable[[], float]) -> float | str:
    """What it gives, or the field that it refuses."""
    try:
        return parse()
    except Invalid as refusal:
        return str(refusal.facts["field"])


@given(timed_facts, instants)
def test_instants_within_an_event_come_back_as_they_were(data: dict[str, Any], at: int) -> None:
    event = model.Event(item="x", number=1, kind="claimed", at=at, status="ready", token=1, actor="a", data=data)
    assert wire.decode(model.Event, json.loads(json.dumps(wire.encode(event)))) == event


@given(instants)
def test_an_instant_survives_its_iso_form(at: int) -> None:
    assert times.parse_instant(times.iso(at)) == at


@given(objects)
def test_a_callers_own_json_is_left_alone(payload: dict[str, Any]) -> None:
    mine = {**payload, "created_at": 5, "labels": [1]}
    item = model.NewItem(id="x", title="t", payload=mine)
    assert wire.encode(item)["payload"] == mine


@given(st.integers(0, 99), st.sampled_from(sorted(times.UNITS)))
def test_a_number_and_a_unit_is_a_duration(number: int, unit: str) -> None:
    assert times.parse_duration(f"{number}{unit}") == pytest.approx(number * times.UNITS[unit])


@given(st.floats(0, 1e8))
def test_a_bare_number_is_seconds(seconds: float) -> None:
    assert times.parse_duration(str(seconds)) == seconds


@given(st.integers(0, 10_000_000))
def test_a_span_reads_back_as_nearly_the_same(seconds: int) -> None:
    said = times.span(seconds)
    back = times.parse_duration(said.replace(" ", ""))
    assert abs(seconds - back) <= 0.06 * seconds, f"{seconds} was said as {said}"
    assert said not in ("60s", "60m", "24h"), f"{seconds} was said as {said}, which is one of the next unit"


@given(st.text(max_size=10))
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    found = parsed(lambda: times.parse_duration(text, field="ttl"))
    assert found == "ttl" or 0 <= float(found) < 1e9


@given(st.integers(-priorities.LIMIT, priorities.LIMIT))
def test_a_priority_is_the_same_as_number_and_as_text(number: int) -> None:
    assert priorities.parse(number) == priorities.parse(str(number)) == number
    name = priorities.name(number)
    assert priorities.parse(name) <= max(number, 1)
    assert priorities.name(priorities.parse(name)) == name


@given(st.text(max_size=8))
def test_any_text_is_a_priority_or_refused(text: str) -> None:
    found = parsed(lambda: priorities.parse(text))
    assert found == "priority" or abs(int(found)) <= priorities.LIMIT


anything = st.text(st.characters(), max_size=20)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
)


@given(any_json)
def test_our_json_says_what_the_librarys_does(data: Any) -> None:
    assert json.loads(json_text.dumps(data)) == json.loads(json.dumps(data))
    assert json_text.loads(json_text.dumps(data)) == json.loads(json.dumps(data))


@given(any_json)
def test_a_line_of_json_is_one_printable_line_of_ascii(data: Any) -> None:
    line = json_text.line(data)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == json.loads(json.dumps(data))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), {1: "x"}, {"x": object()}, b"bytes"])
def test_what_is_no_json_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_text.dumps(wrong)
