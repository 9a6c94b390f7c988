"""A field says what it is, once: every codec follows its kind, whatever the name of the field."""

from __future__ import annotations

import ast
import json
import sqlite3 as database
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from dibs import check
from dibs.errors import DibsError, StoreUnusable
from dibs.model import Agent, Claim, Item, NewItem, Run
from dibs.rules import items
from dibs.store.postgres import answers, queries
from dibs.store.sql import archive, rows
from dibs.store.sql import records as record_checks
from dibs.store.vault.taskfile import task_text
from dibs.text import record_lines, wire
from dibs.value import Value
from tests.kit import postgres, sqlite
from tests.kit.values import KINDS, MODEL, OF_KIND, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import Flag, Instant, Json, Names, Text

SOURCE = Path(check.__file__).parent
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


class Undone(DibsError):
    pass


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
    row = database.connect(":memory:").execute(f"SELECT {', '.join('?' * len(columns))}", columns).fetchone()
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


@pytest.mark.parametrize("kind", archive.KINDS)
def test_every_record_comes_back_from_a_backup(kind: str) -> None:
    def there_and_back(value: Value) -> Value:
        (_, data) = next(iter(record_lines.read(record_lines.backup([(kind, wire.encode(value))]))))
        found = archive.check_record(kind, data)
        assert isinstance(found, Value)
        return found

    assert_round_trip(archive.KINDS[kind][1], there_and_back)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("board")
    if request.param == "sqlite":
        made: Any = sqlite.harness(folder)
    else:
        made = postgres.harness(request.getfixturevalue("postgres_server"), folder)
    with made as harness:
        yield harness.board().store


@pytest.mark.parametrize("kind", archive.KINDS)
def test_every_record_comes_back_from_a_database(kind: str, store: Any) -> None:
    def there_and_back(value: Value) -> Value:
        found: list[Value] = []

        def put(t: Any) -> None:
            archive._put(t, kind, wire.encode(value))
            found.extend(map(archive.KINDS[kind][2], t.all(archive.KINDS[kind][0])))
            raise Undone("so that the next one finds the table empty")

        with pytest.raises(Undone):
            store.write(put)
        (one,) = found
        return one

    assert_round_trip(archive.KINDS[kind][1], there_and_back)


@pytest.mark.parametrize("kind", [Item, Claim, Run, Agent], ids=lambda kind: kind.__name__)
def test_every_answer_of_a_function_of_postgresql_is_a_value(kind: type[Value]) -> None:
    def there_and_back(value: Value) -> Value:
        row = {name: wire.encode(held) if isinstance(held, float) else held for name, held in value.as_dict().items()}
        found: Value = answers._value(kind, json.loads(json.dumps(row)))
        return found

    assert_round_trip(kind, there_and_back)


@given(values_of(NewItem))
@settings(max_examples=25, deadline=None)
def test_the_content_of_every_item_comes_back_from_its_file(new: NewItem) -> None:
    step = items.add(1_000_000, new, actor="pat", token_floor=0)
    task = task_text.read(task_text.write(None, "x.md", step.item, None, [step], "Needs_Action"), "x.md")
    assert not task.findings
    found = NewItem(id=task.id, **task.content)
    assert exact(found) == exact(new.replace(action=new.action or new.type))


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


def kinds_of(*records: type[Value]) -> set[str]:
    return {word for kind in records for word in kind._kinds.values()} - {"Owner"}


def lists_in(kinds: set[str]) -> set[str]:
    return {kind for kind in kinds if KINDS[kind] == tuple[str, ...]}


def test_each_kind_is_known_to_each_codec() -> None:
    records = [record for _, record, *_ in archive.KINDS.values()]
    structured = {kind for kind in KINDS if KINDS[kind] not in SCALARS}
    content = kinds_of(NewItem)
    assert KINDS.keys() == OF_KIND.keys()
    assert structured - SAME_ON_THE_WIRE <= wire.TURNS.keys() <= KINDS.keys()
    assert structured & kinds_of(*records) <= rows.READ.keys() <= KINDS.keys()
    assert structured & kinds_of(*records) <= queries.JSON | queries.LISTS
    assert lists_in(kinds_of(*records)) <= queries.LISTS
    assert lists_in(kinds_of(Item, Claim, Run, Agent)) <= answers.CONVERT.keys()
    assert {kind for kind in kinds_of(Item, Claim, Run, Agent) if KINDS[kind] is float} <= answers.CONVERT.keys()
    assert kinds_of(*records) - {"Title", "Subject", "Priority"} <= record_checks.CHECKS.keys()
    assert content <= check.KINDS.keys()
    assert lists_in(content) == set(task_text.LISTS)
    assert {kind for kind in content if KINDS[kind] is str} <= set(task_text.TEXTS)


@pytest.mark.parametrize("kind", MODEL, ids=lambda kind: kind.__name__)
def test_a_name_that_looks_like_an_instant_is_one(kind: type[Value]) -> None:
    """So that the rule by name, which untyped data is left with, says the same of a field that is copied there."""
    for name, word in kind._kinds.items():
        assert wire.is_instant(name) == (word == "Instant"), f"{name}: {word}"
        assert name not in wire.OPAQUE or word in ("Json", "Meta", "Costs", "CostColumns"), f"{name}: {word}"
        assert word != "Json" or name in wire.OPAQUE, f"{name}: {word}"


def test_no_class_of_values_has_an_instant_of_another_kind() -> None:
    found = {
        f"{path.name}: {one.name}.{field.target.id}: {ast.unparse(field.annotation)}"
        for path in SOURCE.rglob("*.py")
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.ClassDef) and any(ast.unparse(base) in ("Value", "Item") for base in one.bases)
        for field in one.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if wire.is_instant(field.target.id) != (ast.unparse(field.annotation) in ("Instant", "Instant | None"))
    }
    assert not found


#: The fields that a codec may name: those of untyped data, and the one that is spread over columns.
NAMED = {
    "text/wire.py": {*wire.OPAQUE, "at", "not_before", "code"},
    "store/sql/rows.py": {"owner"},
    "store/postgres/queries.py": {"item"},
    "store/sql/records.py": set(archive.PLAIN["request"][1]) | {"item", "name"},
}


@pytest.mark.parametrize("module", NAMED)
def test_a_codec_names_no_field(module: str) -> None:
    fields = {name for _, record, *_ in archive.KINDS.values() for name in record._fields}
    constants = [
        one.value for one in ast.walk(ast.parse((SOURCE / module).read_text())) if isinstance(one, ast.Constant)
    ]
    assert {text for text in constants if isinstance(text, str)} & fields <= NAMED[module]


def test_the_dashboard_leaves_alone_what_is_a_callers_own() -> None:
    text = (SOURCE.parent.parent / "web/src/state/http.ts").read_text()
    named = set(json.loads(text.partition("const OPAQUE = new Set(")[2].partition(")")[0]))
    assert named == {name for kind in MODEL for name, word in kind._kinds.items() if word in ("Json", "Meta", "Checks")}
