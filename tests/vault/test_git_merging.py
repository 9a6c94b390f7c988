"""Three trees become one: by item, and so that nothing anybody wrote is gone without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.store.vault.git.merge import BlobChange, Tree, changes, merge, without_reverts
from dibs.store.vault.git.path_policy import case_twins, task_name, why_unfit

READY, ALICE, BOB, DONE = "Needs_Action/x.md", "In_Progress/alice/x.md", "In_Progress/bob/x.md", "Done/x.md"


def test_what_only_the_remote_changed_is_taken() -> None:
    merged = merge([{READY: "1"}], {READY: "1"}, {ALICE: "2"})
    assert merged.tree == {ALICE: "2"}
    assert merged.news == {"x.md"}
    assert not merged.clashes


def test_what_only_we_changed_stays() -> None:
    merged = merge([{READY: "1"}], {ALICE: "2"}, {READY: "1"})
    assert merged.tree == {ALICE: "2"}
    assert not merged.news


def test_two_claims_at_two_paths_are_one_conflict_and_the_remote_has_it() -> None:
    merged = merge([{READY: "1"}], {ALICE: "2"}, {BOB: "3"})
    assert merged.tree == {BOB: "3"}
    assert [(clash.here, clash.local, clash.there, clash.remote, clash.base) for clash in merged.clashes] == [
        (ALICE, "2", BOB, "3", "1")
    ]


def test_two_plain_moves_are_one_conflict_without_a_text_to_lose() -> None:
    merged = merge([{READY: "1"}], {ALICE: "1"}, {BOB: "1"})
    assert merged.tree == {BOB: "1"}
    assert not merged.clashes


def test_of_another_file_the_local_one_stays() -> None:
    merged = merge([{"notes.md": "1"}], {"notes.md": "2"}, {"notes.md": "3"})
    assert merged.tree == {"notes.md": "2"}
    assert [clash.remote for clash in merged.clashes] == ["3"]
    assert not merged.clashes[0].task


@pytest.mark.parametrize(
    ("local", "remote", "kept"),
    [
        ({}, {ALICE: "2"}, {ALICE: "2"}),
        ({ALICE: "2"}, {}, {ALICE: "2"}),
        ({}, {READY: "1"}, {}),
        ({READY: "1"}, {}, {}),
    ],
)
def test_a_removal_gives_way_to_a_change_only(
    local: dict[str, str], remote: dict[str, str], kept: dict[str, str]
) -> None:
    assert merge([{READY: "1"}], local, remote).tree == kept


def test_of_two_bases_a_side_is_unchanged_only_if_it_is_like_both() -> None:
    merged = merge([{READY: "1"}, {READY: "2"}], {READY: "1"}, {READY: "2"})
    assert merged.tree == {READY: "2"}
    assert not merged.clashes, "the local text is in the history"
    assert merge([{"n": "1"}, {"n": "2"}], {"n": "1"}, {"n": "2"}).clashes


def test_without_a_common_past_everything_is_new() -> None:
    merged = merge([], {READY: "1", "a": "1"}, {DONE: "2", "b": "1"})
    assert merged.tree == {DONE: "2", "a": "1", "b": "1"}
    assert [clash.local for clash in merged.clashes] == ["1"]


def test_an_item_of_the_same_name_as_an_archived_one_is_claimed_beside_it() -> None:
    base = {"Archive/x.md": "0", READY: "1"}
    assert merge([base], {"Archive/x.md": "0", ALICE: "2"}, base).tree == {"Archive/x.md": "0", ALICE: "2"}


def test_a_task_that_moved_is_one_change() -> None:
    assert changes({READY: "1", "a": "1", "b": "1"}, {ALICE: "2", "a": "2", "c": "1"}) == [
        BlobChange(path="b", to=None, was="1", now=None),
        BlobChange(path=READY, to=ALICE, was="1", now="2"),
        BlobChange(path="a", to="a", was="1", now="2"),
        BlobChange(path=None, to="c", was=None, now="1"),
    ]


TREES = st.dictionaries(
    st.sampled_from([READY, ALICE, BOB, DONE, "Needs_Action/y.md", "Parked/y.md", "notes.md", "a/b.txt"]),
    st.sampled_from("123"),
)


@given(TREES, TREES, TREES)
def test_every_changed_text_is_in_the_tree_or_told(
    base: dict[str, str], local: dict[str, str], remote: dict[str, str]
) -> None:
    merged = merge([base], local, remote)
    told = {blob for clash in merged.clashes for blob in (clash.local, clash.remote)}
    there = {*merged.tree.values(), *base.values(), *told}
    assert {*local.values(), *remote.values()} <= there


@given(TREES, TREES)
def test_the_changes_lead_from_one_tree_to_the_other(local: dict[str, str], then: dict[str, str]) -> None:
    tree = dict(local)
    for change in changes(local, then):
        if change.path is not None:
            assert tree.pop(change.path) == change.was
        if change.to is not None:
            assert change.to not in tree
            assert change.now is not None
            tree[change.to] = change.now
    assert tree == then


@given(TREES, TREES)
def test_who_changed_nothing_gets_what_the_others_have(base: dict[str, str], changed: dict[str, str]) -> None:
    assert merge([base], base, changed).tree == changed
    assert merge([base], changed, base).tree == changed
    assert merge([base], changed, changed).tree == changed


@pytest.mark.parametrize(
    "path",
    [
        "../x.md",
        "a/../../x.md",
        "/etc/passwd",
        ".git/config",
        "a/.GIT/config",
        ".dibs/vault.db",
        ".g\u200cit/config",
        "git~1/config",
        "Needs_Action/.hidden.md",
        ".obsidian/plugins/x/main.js",
        ".gitattributes",
        "a\nb.md",
        "a\x1b[2J.md",
        "a\\b.md",
        "a/\udcff.md",
        "a//b.md",
        "x" * 300,
        "/".join(["d"] * 50),
        "y/" * 20 + "x" * 1000,
    ],
)
def test_a_path_that_is_not_for_a_vault_is_unfit(path: str) -> None:
    assert why_unfit(path, "100644") is not None


@pytest.mark.parametrize("mode", ["120000", "160000", "040000"])
def test_a_link_a_submodule_and_anything_strange_is_unfit(mode: str) -> None:
    assert why_unfit("Needs_Action/x.md", mode) is not None


@pytest.mark.parametrize("path", ["x.md", "Needs_Action/ä ☃ (1).md", ".dibs-sessions/s.json", ":(top)x"])
def test_other_paths_are_fit(path: str) -> None:
    assert why_unfit(path, "100644") is None


def test_names_that_differ_by_case_are_twins() -> None:
    assert case_twins(["a/X.md", "a/x.md", "b.md", "straße", "STRASSE"]) == {"a/X.md", "a/x.md", "straße", "STRASSE"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Needs_Action/x.md", "x.md"),
        ("In_Progress/a/x.md", "x.md"),
        ("Archive/x.md", "x.md"),
        ("Needs_Action/a/x.md", None),
        ("In_Progress/a/b/x.md", None),
        ("x.md", None),
        ("Needs_Action/x.txt", None),
        ("Conflicts/x.md", None),
    ],
)
def test_a_task_is_known_by_its_place(path: str, name: str | None) -> None:
    assert task_name(path) == name


OLD, NEW, OWN = "1", "2", "3"


@pytest.mark.parametrize(
    ("own", "base", "local", "meant"),
    [
        ({"n.md": OLD}, {"n.md": NEW}, {"n.md": OLD}, {"n.md": NEW}),
        ({"n.md": OLD}, {"n.md": NEW}, {"n.md": OWN}, {"n.md": OWN}),
        ({"n.md": OWN}, {"n.md": NEW}, {"n.md": OWN}, {"n.md": OWN}),
        ({"n.md": NEW}, {"n.md": NEW}, {"n.md": OLD}, {"n.md": OLD}),
        ({"n.md": OLD}, {"n.md": NEW}, {}, {}),
        ({"n.md": OLD}, {}, {"n.md": OLD}, {}),
        ({READY: OLD}, {ALICE: NEW}, {READY: OLD}, {ALICE: NEW}),
        ({READY: OLD}, {ALICE: NEW}, {READY: OLD, ALICE: NEW}, {ALICE: NEW}),
        ({READY: OLD}, {ALICE: NEW}, {READY: NEW}, {READY: NEW}),
    ],
)
def test_only_what_the_remote_had_before_was_put_back(own: Tree, base: Tree, local: Tree, meant: Tree) -> None:
    was = {("n.md", OLD), ("n.md", NEW), (READY, OLD), (ALICE, NEW)}
    assert without_reverts(own, base, local, {}, lambda: was) == meant


@pytest.mark.parametrize(
    ("own", "lost", "meant"),
    [
        ({}, {}, {}),
        ({}, {ALICE: NEW}, {ALICE: NEW}),
        ({READY: OLD}, {ALICE: NEW}, {}),
    ],
)
def test_a_file_that_is_gone_was_put_back_if_the_branch_had_it_and_has_it_no_more(
    own: Tree, lost: Tree, meant: Tree
) -> None:
    assert without_reverts(own, {ALICE: NEW}, {}, lost, lambda: {(READY, OLD), (ALICE, NEW)}) == meant
