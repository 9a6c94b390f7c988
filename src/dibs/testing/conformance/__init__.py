"""The conformance suite: what every store has to show, group by group. See `dibs.testing` for how to run it.

A module of this package with classes of tests is a group; each test takes the fixture `harness` and nothing else. A
store's test module takes them all with `from dibs.testing.conformance import *`.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

_MODULES = [f"{__name__}.{found.name}" for found in pkgutil.iter_modules(__path__)]
# Before they are imported: their asserts are to be as readable as a test module's own.
pytest.register_assert_rewrite(*_MODULES)
_TESTS = {
    name: one
    for module in map(importlib.import_module, _MODULES)
    for name, one in vars(module).items()
    if name.startswith("Test") and getattr(one, "__module__", None) == module.__name__
}
globals().update(_TESTS)

GROUPS = tuple(sorted({one.__module__.rpartition(".")[2] for one in _TESTS.values()}))

__all__ = ["GROUPS", *_TESTS]
