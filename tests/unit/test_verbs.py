"""The tables of verbs: each function has the parameters that the contract gives to its verb."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import dibs
from dibs.store.contract import Store
from dibs.store.http.store import HttpStore, WrittenVerbs
from dibs.store.postgres.claim_path import ClaimPath
from dibs.store.postgres.store import PostgresStore
from dibs.store.sql.dispatch import SqlVerbs, function_of
from dibs.store.sqlite.store import SqliteStore
from dibs.store.vault.store import VaultStore
from dibs.verbs import BY_NAME
from tests.kit.contract import Contract

PACKAGE = Path(dibs.__file__).parent
#: What a function takes that is not from the caller: the transaction, the end of the feed.
FROM_STORE = {"t", "until"}
#: What only other functions of the store pass.
INTERNAL = {("claim", "unless_after"), ("edit", "allow_missing")}


def parameters(function: object, without: set[str]) -> dict[str, tuple[object, object]]:
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {one.name: (one.kind, one.default) for one in found if one.name not in without}


@pytest.mark.parametrize("verb", [name for name in dir(SqliteStore) if hasattr(getattr(SqliteStore, name), "function")])
def test_a_function_has_the_parameters_of_its_verb(verb: str) -> None:
    method = getattr(SqliteStore, verb)
    internal = {name for of, name in INTERNAL if of == verb}
    contract = parameters(getattr(Contract, verb), {"self", "request"})
    assert parameters(function_of(*method.function), FROM_STORE | internal) == contract
    assert method.__name__ == verb


def test_the_feed_has_the_parameters_of_its_verb() -> None:
    given = parameters(function_of("dibs.store.sql.views", "events"), FROM_STORE)
    assert given == parameters(Contract.events, {"self"})


def test_every_verb_of_the_table_is_one_of_the_contract() -> None:
    tables = {name for name in vars(SqlVerbs) if not name.startswith("_")} - {"feed_end"}
    assert tables <= set(dir(Contract))
    assert BY_NAME.keys() - set(dir(SqliteStore)) == {"add_many", "log"}


@pytest.mark.parametrize("store", [SqliteStore, PostgresStore, VaultStore, HttpStore])
def test_a_store_has_every_verb_of_the_contract(store: type) -> None:
    assert Contract.__abstractmethods__ <= set(dir(store))


def test_what_the_client_of_a_server_does_not_write_out_comes_from_the_table() -> None:
    assert Contract.__abstractmethods__ - set(dir(WrittenVerbs)) <= BY_NAME.keys()
    answered_here = [name for name in BY_NAME if getattr(HttpStore, name) is getattr(Contract, name, None)]
    assert answered_here == [], "what the contract says for stores without a server hides the verb"


def with_abstract_methods() -> list[type]:
    """The classes of dibs that leave a method to a subclass."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "@abstractmethod" in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
            classes = inspect.getmembers(importlib.import_module(name), inspect.isclass)
            found |= {cls for _, cls in classes if any(map(_is_abstract, vars(cls).values()))}
    return sorted(found, key=lambda cls: cls.__qualname__)


def _is_abstract(member: object) -> bool:
    return bool(getattr(member, "__isabstractmethod__", False))


def test_what_leaves_a_method_to_a_subclass_cannot_be_made_without_it() -> None:
    found = with_abstract_methods()
    assert {"ClaimPath", "Store", "Transaction", "Sender"} <= {cls.__name__ for cls in found}
    for cls in found:
        incomplete = type("Incomplete", (cls,), {"__init__": lambda self: None})
        with pytest.raises(TypeError, match="abstract"):
            incomplete()


def test_a_store_without_a_part_of_it_cannot_be_made() -> None:
    """Of `PostgresStore` the claim path leaves two methods to the store."""
    incomplete = type("Incomplete", (ClaimPath, SqlVerbs, Store), {"__init__": lambda self: None})
    assert {"call", "notify"} <= incomplete.__abstractmethods__  # type: ignore[attr-defined]
