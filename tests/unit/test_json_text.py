"""`json_text.loads` answers as the library does, and without importing it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dibs.text import json_text

VALID = [' {"a": [1, -2.5, null, true, "x\\u00e9\\n"], "b": {}}\n', "[]", '"a"', "1e400", "-0", "[Infinity, -Infinity]"]
INVALID = ["", " ", "{", '{"a":1}x', "[1,]", "\ufeff{}", "nul", '{"a": "\n"}', "[" * 100_000]


@pytest.mark.parametrize("text", VALID)
def test_a_text_is_parsed_as_by_the_library(text: str) -> None:
    assert json_text.loads(text) == json.loads(text)


@pytest.mark.parametrize("text", INVALID, ids=range(len(INVALID)))
def test_a_text_that_is_not_json_is_refused_as_by_the_library(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as expected:
        json.loads(text)
    with pytest.raises(expected.type):
        json_text.loads(text)


def test_the_library_is_not_imported() -> None:
    parse = "from dibs.text.json_text import loads; loads('{\"a\": [1]}'); sys.exit('json' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {parse}"], check=False)
    assert done.returncode == 0
