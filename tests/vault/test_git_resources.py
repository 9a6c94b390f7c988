"""Resources that a holder adds in one clone hold in all of them, as soon as they are acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.errors import ResourceBusy, StoreUnavailable
from tests.vault.clones import files, on_hub, put
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path)
    pair.a.claim("x", session=pair.alice)
    pair.b.claim("y", session=pair.bob)
    return pair


def test_what_one_clone_adds_no_other_can_add_or_claim(pair: Pair) -> None:
    assert pair.a.edit("x", add_resources=["src"], session=pair.alice).resources == ("src",)
    assert 'resources: ["src"]' in on_hub(pair.folder)["In_Progress/alice/x.md"]
    pair.b.add("three", id="z", resources=["src/web"])
    with pytest.raises(ResourceBusy) as refused:
        pair.b.edit("y", add_resources=["src/api"], session=pair.bob)
    assert (refused.value.facts["held_for"], refused.value.facts["holder"]["agent"]) == ("x", "alice")
    with pytest.raises(ResourceBusy):
        pair.b.claim("z", session=pair.bob)
    assert pair.b.get("x").item.resources == ("src",)
    assert pair.b.get("y").item.resources == ()
    pair.forget()
    pair.a.sync()
    assert pair.a.get("x").item.resources == ("src",)
    assert pair.sound()


def test_what_was_added_before_the_claim_ended_is_known_elsewhere(pair: Pair) -> None:
    pair.b.sync()
    pair.a.edit("x", add_resources=["src"], session=pair.alice)
    pair.a.release("x", session=pair.alice)
    pair.b.sync()
    grant = pair.b.claim("x", session=pair.bob)
    assert grant.item.resources == ("src",)
    assert pair.sound()


def test_while_the_hub_is_away_nothing_is_added(pair: Pair) -> None:
    before = files(pair.here)
    pair.away()
    with pytest.raises(StoreUnavailable):
        pair.a.edit("x", add_resources=["src"], session=pair.alice)
    assert (files(pair.here), pair.a.get("x").item.resources) == (before, ())
    pair.back()
    assert pair.a.edit("x", add_resources=["src"], session=pair.alice).resources == ("src",)
    assert pair.sound()


def test_a_line_that_a_person_writes_into_a_held_file_reserves_nothing(pair: Pair) -> None:
    path = "In_Progress/alice/x.md"
    put(pair.here, path, files(pair.here)[path].replace("---\n", "---\nresources: [src]\n", 1))
    pair.a.sync()
    pair.b.sync()
    assert pair.b.edit("y", add_resources=["src"], session=pair.bob).resources == ("src",)
