"""The base of every value: frozen, compared by content, made from keywords only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dibs.github.watch
import dibs.model.dashboard
import dibs.model.webhooks  # noqa: F401  so that their values are among all values
from dibs.text import wire
from dibs.value import Late, LateField, Value


class Point(Value):
    x: int
    y: int = 7
    tags: dict[str, int] = {}


class Parcel(Value):
    to: str
    payload: dict[str, int]


setattr(Parcel, "payload", LateField("payload"))  # noqa: B010


class Other(Value):
    x: int
    y: int = 7
    tags: dict[str, int] = {}


def test_fields_come_from_annotations_and_defaults_from_attributes() -> None:
    assert Point._fields == ("x", "y", "tags")
    assert Point(x=1).as_dict() == {"x": 1, "y": 7, "tags": {}}
    assert repr(Point(x=1)) == "Point(x=1, y=7, tags={})"


def never_changes(held: object) -> bool:
    if isinstance(held, Value):
        return all(never_changes(getattr(held, name)) for name in held._fields)
    return isinstance(held, str | int | float | tuple | frozenset | type | None)


class Bag(Value):
    held: dict[str, int] = {}
    notes: list[str] = []


def test_what_one_value_holds_by_default_is_no_other_values() -> None:
    Bag().held["a"] = 1
    Bag().notes.append("a")
    assert (Bag().held, Bag().notes) == ({}, [])
    assert not hasattr(Bag, "held"), "the class holds one that all values without it would share"


def all_values(kind: type[Value] = Value) -> Iterator[type[Value]]:
    for made in kind.__subclasses__():
        yield made
        yield from all_values(made)


@pytest.mark.parametrize("kind", sorted(set(all_values()), key=repr), ids=lambda kind: kind.__name__)
def test_no_kind_of_value_shares_a_default_that_can_change(kind: type[Value]) -> None:
    required = dict.fromkeys(kind._names - kind.defaults().keys())
    one, other = kind(**required), kind(**required)
    for name in kind.defaults():
        held = getattr(one, name)
        assert held is not getattr(other, name) or never_changes(held), name


def test_a_value_of_a_row_takes_the_first_columns() -> None:
    made = Point.of_row((1, 2, {"a": 3}, "a column of another value"))
    assert made == Point(x=1, y=2, tags={"a": 3})
    assert made.replace(y=4) == Point(x=1, y=4, tags={"a": 3})


def test_a_value_is_frozen() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2  # type: ignore[misc]
    assert point.x == 1


def test_replace_makes_another_value() -> None:
    point = Point(x=1)
    assert point.replace(y=2) == Point(x=1, y=2)
    assert point == Point(x=1)


def test_values_compare_by_content_and_kind() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Other(x=1)
    assert len({Point(x=1), Point(x=1), Point(x=2)}) == 2


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Point(x=1, z=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Point(z=3)  # type: ignore[call-arg]


def test_an_unknown_field_of_replace_is_named() -> None:
    with pytest.raises(TypeError, match="z"):
        Point(x=1).replace(y=2, z=3)


def parcel(made: list[str]) -> Parcel:
    def make(text: str) -> dict[str, int]:
        made.append(text)
        return {text: 1}

    return Parcel.of({"to": "me", "payload": Late(make, "x")})


def test_a_late_field_is_made_once_when_it_is_read() -> None:
    made: list[str] = []
    late = parcel(made)
    assert (late.replace(to="you").to, made) == ("you", [])
    assert late.payload == {"x": 1}
    assert late.payload is late.payload
    assert made == ["x"]
    with pytest.raises(AttributeError, match="frozen"):
        late.payload = {}  # type: ignore[misc]
    assert late.replace(payload={}) == Parcel(to="me", payload={})


def test_a_value_whose_late_field_was_not_read_is_as_any_other() -> None:
    whole = Parcel(to="me", payload={"x": 1})
    assert parcel([]) == whole == parcel([]) == parcel([])
    assert parcel([]) != Parcel(to="me", payload={})
    assert hash(parcel([])) == hash(whole)
    assert parcel([]).as_dict() == whole.as_dict() == wire.encode(parcel([]))
