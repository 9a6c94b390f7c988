"""Files that are named anew or duplicated in one clone: which item they are in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.errors import ItemAlreadyClaimed
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import move, places
from tests.vault.test_git_store import Pair


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.a.close()
    pair.b.close()


def test_a_file_that_is_named_anew_here_is_the_same_item_there(pair: Pair) -> None:
    move(pair.here, "Needs_Action/x.md", "Needs_Action/Call Bob.md")
    pair.a.sync()
    pair.b.sync()
    for board in (pair.a, pair.b):
        assert {item.id: item.status for item in board.list()} == {"x": "ready", "y": "ready"}
    assert pair.b.claim("x", session=pair.bob).claim.token == 1
    assert "In_Progress/bob/Call Bob.md" in places(pair.there)
    pair.a.sync()
    assert pair.a.get("x").item.status == "in_progress"
    assert pair.sound()


def test_a_held_file_that_is_named_anew_here_is_held_there_too(pair: Pair) -> None:
    grant = pair.a.claim("x", session=pair.alice)
    move(pair.here, "In_Progress/alice/x.md", "In_Progress/alice/z.md")
    pair.a.sync()
    pair.b.sync()
    claim = pair.b.get("x").claim
    assert claim is not None
    assert (claim.session, claim.token) == (pair.alice, grant.claim.token)
    assert pair.a.done("x", session=pair.alice, token=grant.claim.token).item.status == "done"
    pair.b.sync()
    assert pair.b.get("x").item.status == "done"
    assert {item.id for item in pair.b.list()} == {"x", "y"}
    for board in (pair.a, pair.b):
        assert_sound(board)


def test_a_duplicate_of_a_held_file_is_held_by_nobody_anywhere(pair: Pair) -> None:
    pair.a.claim("x", session=pair.alice)
    text = (pair.here / "In_Progress/alice/x.md").read_bytes()
    (pair.here / "In_Progress/alice/x 1.md").write_bytes(text)
    pair.a.sync()
    pair.b.sync()
    for board in (pair.a, pair.b):
        assert sorted(item.status for item in board.list()) == ["in_progress", "ready", "ready"]
        assert_sound(board)
    assert {item.id for item in pair.a.list()} == {item.id for item in pair.b.list()}


def test_what_is_claimed_there_while_it_is_named_anew_here_is_given_once(pair: Pair) -> None:
    move(pair.here, "Needs_Action/x.md", "Needs_Action/Call Bob.md")
    assert pair.a.get("x").item.status == "ready"
    grant = pair.b.claim("x", session=pair.bob)
    with pytest.raises(ItemAlreadyClaimed):
        pair.a.claim("x", session=pair.alice)
    pair.a.sync()
    claim = pair.a.get("x").claim
    assert claim is not None
    assert (claim.session, claim.token) == (pair.bob, grant.claim.token)
    assert places(pair.here) == ["In_Progress/bob/x.md", "Needs_Action/Call Bob.md", "Needs_Action/y.md"]
    pair.b.sync()
    for board in (pair.a, pair.b):
        assert sorted(item.status for item in board.list()) == ["in_progress", "ready", "ready"]
        assert_sound(board)
    assert {item.id for item in pair.a.list()} == {item.id for item in pair.b.list()}
    assert pair.b.done("x", session=pair.bob, token=grant.claim.token).item.status == "done"
    pair.a.sync()
    assert pair.a.get("x").item.status == "done"
    assert pair.sound()
