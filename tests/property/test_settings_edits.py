"""Edits of settings, on files of any content and style: what was inserted can be taken back, to the byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.agents.setup.edit import insert, take_back
from dibs.agents.setup.json_edit import JsonEdit

HOOK = {"command": "sh /x/dibs-hook.sh Stop"}
ENTRIES = {"version": 1, "hooks": {"Stop": [HOOK], "SessionEnd": [HOOK]}, "plugins": {"dibs@dibs": True}}
EDIT = JsonEdit("settings.json", ENTRIES)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
groups = st.dictionaries(st.sampled_from(["Stop", "Other"]), st.lists(values, max_size=2), max_size=2)
#: What a person may have: anything, and in our groups lists of other hooks.
files = st.dictionaries(st.text(max_size=3), values, max_size=3).flatmap(
    lambda rest: st.fixed_dictionaries({}, optional={"hooks": groups, "plugins": st.just({})}).map(
        lambda own: rest | own
    )
)
styles = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 1, 4, "\t"]), "ensure_ascii": st.booleans(), "sort_keys": st.booleans()}
)


@settings(max_examples=100, deadline=None)
@given(data=files, style=styles, end=st.sampled_from(["", "\n", " \n\n"]), style_since=styles)
def test_insertions_can_be_taken_back(data: Any, style: Any, end: str, style_since: Any) -> None:
    before = json.dumps(data, **style) + end
    insertions = EDIT.insertions(before)
    after = insert(before, insertions)
    assert EDIT.is_complete(after)
    assert EDIT.insertions(after) == []
    assert EDIT.theirs(after) == EDIT.theirs(before)
    assert take_back(after, insertions) == before
    rewritten = json.dumps(json.loads(after), **style_since)
    assert EDIT.is_complete(rewritten)
    stripped = EDIT.stripped(rewritten)
    assert EDIT.theirs(stripped) == EDIT.theirs(before)
    assert "dibs" not in stripped
