"""Statements by name: the files of a store share one namespace, and are read one after another."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import dibs.store
from dibs.model.dashboard import Brief
from dibs.store.sql.queries import COLUMNS, FILES, Statements

STORES = Path(dibs.store.__file__).parent


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(store: str) -> None:
    texts = [(STORES / store / name).read_text() for name in FILES]
    names = Counter(line for text in texts for line in text.splitlines() if line.startswith("-- name: "))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


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
    statements = Statements(str(tmp_path))
    assert statements["first"] == "SELECT id, title FROM items"
    assert statements["literal"] == "SELECT '--', 'it''s -- none', title FROM items"
    assert statements["second"] == "SELECT * FROM (SELECT id, title FROM items) AS found"


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_literal_has_spaces_that_a_statement_on_one_line_would_lose(store: str) -> None:
    texts = [re.sub("--[^'\n]*\n", "\n", (STORES / store / name).read_text()) for name in FILES]
    literals = [literal for text in texts for literal in re.findall("'([^'\n]*)'", text)]
    assert len(literals) > 20
    assert [literal for literal in literals if re.search(r"\s\s|\t", literal)] == []


def test_the_columns_of_a_brief_are_its_fields() -> None:
    assert COLUMNS["brief"] == tuple(name for name in Brief._fields if name not in Brief.defaults())
