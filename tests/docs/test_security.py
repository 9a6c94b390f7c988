"""SECURITY.md: what it says a search may find. Every table of `dibs.toml` is there, with what needs trust."""

from __future__ import annotations

from dibs import config
from tests.docs.markdown import ROOT, code, table


def test_the_table_of_what_a_search_may_find_has_every_table_of_dibs_toml() -> None:
    rows = table((ROOT / "SECURITY.md").read_text(encoding="utf-8"), "found", "who can have put it there")
    told = {
        names[1]: set(code(counts)) - {"dibs.toml", "dibs trust", "[board]"}
        for found, _, counts in rows
        if (names := code(found))[:1] == ["dibs.toml"]
    }
    assert told == {one.heading: set(one.needs_trust) for one in config.TABLES.values()}


def test_what_is_found_besides_has_a_row_each() -> None:
    rows = table((ROOT / "SECURITY.md").read_text(encoding="utf-8"), "found", "who can have put it there")
    found = " ".join(row[0] for row in rows)
    for one in ("board in the `.git`", "`.dibs`", "a vault", "hooks of git", "hooks of agents", "trust file"):
        assert one in found, one
