"""A field says what it is, once: every codec follows its kind, whatever the name of the field."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from dibs.errors import StoreUnusable
from dibs.model import Run
from dibs.store.sql import rows
from dibs.text import wire
from dibs.value import Value
from tests.kit.values import KINDS, MODEL, OF_KIND, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import Flag, Instant, Json, Names, Text

#: Types that JSON has.
SCALARS = (str, int, float, bool)
#: The kinds of which a value is on the wire as in a value although it is an object or a list there.
SAME_ON_THE_WIRE = {"Meta", "Checks", "Counts", "Instants", "Costs", "CountsByField", "CostColumns", "Words"}


class Visit(Value):
    """Whose names say something else than its kinds."""

    looked_at: Text
    not_before: Text | None = None
    at: Flag = False
    ready: Names = ()
    payload: Names = ()
    links: Text = ""
    meta: Instant = 0
    labels: Json = {}


def exact(value: Any) -> Any:
    """Data to compare, with the types that `==` takes for equal ones. A float may come back as a whole number."""
    if isinstance(value, Value):
        return {name: exact(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(exact, value))
    return (type(value) if isinstance(value, bool) else None, value)


def on_the_wire(value: Value) -> Value:
    return wire.decode(type(value), json.loads(json.dumps(wire.encode(value))))


def in_a_row(value: Value) -> Value:
    """A value through a row of SQLite, in columns that any value fits."""
    encoded = rows.encode(value)
    columns = [encoded[name] for name in value._fields]
    row = sqlite3.connect(":memory:").execute(f"SELECT {', '.join('?' * len(columns))}", columns).fetchone()
    return rows.reader(type(value))(row)


def has_a_row(kind: type[Value]) -> bool:
    return (
        not kind.nested()
        and {"Rows", "Groups"}.isdisjoint(kind._kinds.values())
        and kind.__module__ == "dibs.model.records"
    )


def assert_round_trip(kind: type[Value], there_and_back: Callable[[Value], Value]) -> None:
    @given(values_of(kind))
    @settings(max_examples=25, deadline=None)
    def round_trip(value: Value) -> None:
        assert exact(there_and_back(value)) == exact(value)

    round_trip()


@pytest.mark.parametrize("kind", [*MODEL, Visit], ids=lambda kind: kind.__name__)
def test_every_value_comes_back_from_the_wire(kind: type[Value]) -> None:
    assert_round_trip(kind, on_the_wire)


@pytest.mark.parametrize("kind", [*filter(has_a_row, MODEL), Visit], ids=lambda kind: kind.__name__)
def test_every_record_comes_back_from_its_row(kind: type[Value]) -> None:
    assert_round_trip(kind, in_a_row)


@pytest.mark.parametrize("count", [1, 300], ids=["short", "long"])
@pytest.mark.parametrize("name", ["links", "cost", "checks"])
def test_a_list_where_a_row_should_have_an_object_is_damage(count: int, name: str) -> None:
    run = rows.encode(Run(item="x", token=1, session="s", agent="a", started_at=1))
    run[name] = json.dumps(["pr", "ci"] * count)
    with pytest.raises(StoreUnusable, match="object"):
        rows.run(tuple(run[name] for name in Run._fields))


def test_each_field_of_the_model_has_a_kind() -> None:
    unknown = {
        f"{kind.__name__}.{name}: {word}"
        for kind in MODEL
        for name, word in kind._kinds.items()
        if word not in KINDS and name not in kind.nested()
    }
    assert not unknown


def test_each_kind_is_known_to_each_codec() -> None:
    assert KINDS.keys() == OF_KIND.keys()
    assert wire.TURNS.keys() | rows.READ.keys() <= KINDS.keys()
    structured = {name for name, kind in KINDS.items() if kind not in SCALARS}
    assert structured - SAME_ON_THE_WIRE <= wire.TURNS.keys()


@pytest.mark.parametrize("kind", MODEL, ids=lambda kind: kind.__name__)
def test_a_name_that_looks_like_an_instant_is_one(kind: type[Value]) -> None:
    """So that the rule by name, which untyped data is left with, says the same of a field that is copied there."""
    for name, word in kind._kinds.items():
        assert wire.is_instant(name) == (word == "Instant"), f"{name}: {word}"
        assert name not in wire.OPAQUE or word in ("Json", "Meta", "Costs", "CostColumns"), f"{name}: {word}"
        assert word != "Json" or name in wire.OPAQUE, f"{name}: {word}"
