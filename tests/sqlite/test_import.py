"""The import of apsw without `collections`: nobody else may notice the stand-in."""

from __future__ import annotations

import subprocess
import sys

import pytest

AFTERWARDS = """
import dibs.store.sqlite
assert "apsw" in sys.modules and not {"collections", "collections.abc"} & sys.modules.keys()
import collections.abc
assert collections.OrderedDict and collections.abc.Mapping and collections.__file__
"""
#: As if apsw imported more than it does today.
MEANWHILE = """
from dibs.store.sqlite import _Collections
stand_in = sys.modules["collections"] = _Collections("collections")
from collections import namedtuple
import collections
assert collections is sys.modules["collections"] is not stand_in
assert namedtuple is collections.namedtuple is stand_in.namedtuple
"""


@pytest.mark.parametrize("script", [AFTERWARDS, MEANWHILE])
def test_whoever_wants_collections_gets_the_package_itself(script: str) -> None:
    start = f"import sys; sys.path[:] = {sys.path!r}\n"
    subprocess.run([sys.executable, "-S", "-c", start + script], check=True)
