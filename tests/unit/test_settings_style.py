"""What setup adds to a client's settings looks like the lines around it."""

from __future__ import annotations

import pytest

from dibs.agents.setup.edit import insert
from dibs.agents.setup.json_edit import JsonEdit


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "g": {"k": true}}'),
        ('{"g": {}}\n', '{"g": {\n  "k": true\n}}\n'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"g": {\n\t\t"k": true\n\t}\n}'),
        ('{\r\n "a": 1\r\n}', '{\r\n "a": 1,\r\n "g": {\r\n  "k": true\r\n }\r\n}'),
        ('{\n  "a": 1 // one\n}\n', '{\n  "a": 1, // one\n  "g": {\n    "k": true\n  }\n}\n'),
        ('{\n  "a": 1,\n}\n', '{\n  "a": 1,\n  "g": {\n    "k": true\n  },\n}\n'),
        ('{ "a": 1 // one\n}', '{ "a": 1, // one\n"g": {\n  "k": true\n}\n}'),
    ],
)
def test_entries_are_in_the_style_of_their_file(before: str, after: str) -> None:
    edit = JsonEdit("settings.json", {"g": {"k": True}})
    assert insert(before, edit.insertions(before)) == after
    assert edit.is_complete(after)
    assert edit.theirs(edit.stripped(after)) == edit.theirs(before)
