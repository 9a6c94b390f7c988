"""Statements by name: the files of a store share one namespace, and are read one after another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import dibs.store
from dibs.store.sql.queries import FILES

STORES = Path(dibs.store.__file__).parent


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(store: str) -> None:
    texts = [(STORES / store / name).read_text() for name in FILES]
    names = Counter(line for text in texts for line in text.splitlines() if line.startswith("-- name: "))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []
