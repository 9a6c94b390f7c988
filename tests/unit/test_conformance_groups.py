"""The groups of the conformance suite: found in their package, and run on every store."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from dibs.testing import conformance

STORES = ("sqlite", "postgres", "vault", "vault_synced", "http_sqlite", "http_postgres")
SOURCES = sorted(path for path in Path(conformance.__file__).parent.glob("*.py") if path.stem != "__init__")


def test_every_test_of_the_package_is_one_of_a_group() -> None:
    classes: Counter[str] = Counter()
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        groups = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]
        tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        assert (path.stem in conformance.GROUPS) == bool(groups) == bool(tests), path.stem
        assert {one.name for one in tests} == {one.name for group in groups for one in group.body if one in tests}
        classes.update(group.name for group in groups)
    assert classes == Counter(name for name in conformance.__all__ if name != "GROUPS"), "two of one name hide a group"


@pytest.mark.parametrize("store", STORES)
def test_every_group_runs_on_every_store(store: str) -> None:
    module = importlib.import_module(f"tests.conformance.test_{store}")
    missing = [name for name in conformance.__all__ if getattr(module, name, None) is not getattr(conformance, name)]
    assert missing == []
