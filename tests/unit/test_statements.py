"""Statements by name: the files of a database share one namespace, and are read one after another."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dibs.store
from dibs.model.dashboard import Brief
from dibs.store.postgres.queries import STATEMENTS as POSTGRES
from dibs.store.sql.queries import COLUMNS, FILES, SQLITE_REPLACEMENTS, Statements, expand_for_sqlite
from dibs.store.sqlite.transaction import STATEMENTS as SQLITE
from dibs.store.vault.index import STATEMENTS as VAULT

STORES = Path(dibs.store.__file__).parent
DATABASES = {"sqlite": SQLITE, "postgres": POSTGRES}
#: The methods of a transaction whose first argument names a statement. `lock` does so on PostgreSQL only.
METHODS = {"one", "all", "each", "stream", "scalar", "run", "run_one", "put_item"}


def every(statements: Statements) -> dict[str, str]:
    return {name: statements[name] for file in FILES for name in statements.of_file(file)}


def of_folder(folder: str) -> dict[str, str]:
    return every(Statements(expand_for_sqlite, str(STORES / folder)))


def trees(*folders: str) -> Iterator[ast.AST]:
    for folder in folders:
        for path in sorted((STORES / folder).glob("*.py")):
            yield from ast.walk(ast.parse(path.read_text()))


def pattern(name: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else r"\w+" for part in name.values)


@pytest.mark.parametrize("store", DATABASES)
def test_no_two_statements_have_one_name(store: str) -> None:
    texts = [(STORES / folder / name).read_text() for folder in ("sql", store) for name in FILES]
    names = Counter(line for text in texts for line in text.splitlines() if line.startswith("-- name: "))
    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_a_statement_of_both_databases_has_one_home() -> None:
    of_sqlite, of_postgres = of_folder("sqlite"), of_folder("postgres")
    assert len(of_sqlite) > 50
    assert len(of_postgres) > 50
    assert [name for name, sql in of_sqlite.items() if of_postgres.get(name) == sql] == []


def test_a_shared_statement_is_one_of_sqlite_after_the_replacements() -> None:
    shared = of_folder("sql")
    assert len(shared) > 150
    left = ("@", "::", *(postgres for postgres, _ in SQLITE_REPLACEMENTS))
    assert [(name, word) for name, sql in shared.items() for word in left if word in sql] == []


@pytest.mark.parametrize("store", DATABASES)
def test_every_statement_has_a_user(store: str) -> None:
    mentioned, patterns = set[str](), set[str]()
    for node in trees("sql", store, *(["vault"] if store == "sqlite" else [])):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            mentioned.add(node.value)
        elif isinstance(node, ast.JoinedStr) and re.fullmatch(r"\w{5,}", pattern(node).replace(r"\w+", "")):
            patterns.add(pattern(node))
    for folder in ("sql", store):
        mentioned |= {name for file in FILES for name in re.findall(r"@@(\w+)", (STORES / folder / file).read_text())}
    names = every(DATABASES[store]).keys() - mentioned
    assert [name for name in sorted(names) if not any(re.fullmatch(one, name) for one in patterns)] == []


@pytest.mark.parametrize("store", DATABASES)
def test_every_name_that_is_used_is_one_of_a_statement(store: str) -> None:
    known = {*every(DATABASES[store]), *(VAULT.of_file("path.sql") if store == "sqlite" else ())}
    methods = METHODS | ({"lock"} if store == "postgres" else set())
    used = {
        node.args[0].value
        for node in trees("sql", store, *(["vault"] if store == "sqlite" else []))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
        if isinstance(node.func.value, ast.Name) and node.args and isinstance(node.args[0], ast.Constant)
    }
    assert len(used) > 100
    assert used - known == set()


def test_a_statement_is_one_line_without_comments(tmp_path: Path) -> None:
    text = """
-- name: first
SELECT id, -- the first column
       title
FROM items

-- name: literal
SELECT '--', 'it''s -- none', -- it's no comment in a literal, not even --
       title FROM items

-- What the second one is for.
-- name: second
SELECT * FROM (@@first) AS found
"""
    (tmp_path / "path.sql").write_text(text)
    statements = Statements(expand_for_sqlite, str(tmp_path))
    assert statements["first"] == "SELECT id, title FROM items"
    assert statements["literal"] == "SELECT '--', 'it''s -- none', title FROM items"
    assert statements["second"] == "SELECT * FROM (SELECT id, title FROM items) AS found"


@pytest.mark.parametrize("folder", ["sql", *DATABASES])
def test_no_literal_has_spaces_that_a_statement_on_one_line_would_lose(folder: str) -> None:
    texts = [re.sub("--[^'\n]*\n", "\n", (STORES / folder / name).read_text()) for name in FILES]
    literals = [literal for text in texts for literal in re.findall("'([^'\n]*)'", text)]
    assert len(literals) > 20
    assert [literal for literal in literals if re.search(r"\s\s|\t", literal)] == []


def test_the_columns_of_a_brief_are_its_fields() -> None:
    assert COLUMNS["brief"] == tuple(name for name in Brief._fields if name not in Brief.defaults())
