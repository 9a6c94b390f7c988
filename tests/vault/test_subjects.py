"""Subjects in the files of a vault, and between clones: who claims is decided by the hub, two of a subject are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.errors import ItemAlreadyClaimed
from dibs.maintenance import doctor
from tests.vault.clones import on_hub, put
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from pathlib import Path

ISSUE = "github:acme/shop#12"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_of_two_clones_that_claim_a_new_subject_one_adds_it(pair: Pair) -> None:
    grant = pair.a.claim_subject(ISSUE, session=pair.alice, title="Fix login")
    with pytest.raises(ItemAlreadyClaimed) as refused:
        pair.b.claim_subject(ISSUE, session=pair.bob, title="Login is broken")
    assert (refused.value.facts["item"], refused.value.facts["holder"]["agent"]) == (grant.item.id, "alice")
    (path,) = [path for path in on_hub(pair.folder) if grant.item.id in path]
    assert path == f"In_Progress/alice/{grant.item.id}.md"
    assert f'subject: "{ISSUE}"' in on_hub(pair.folder)[path]
    assert [item.id for item in pair.b.list(subject=ISSUE)] == [grant.item.id]
    pair.forget()
    assert pair.a.get(grant.item.id).item.subject == ISSUE, "the files alone tell it"
    assert pair.sound()


def test_of_two_items_of_a_subject_every_clone_means_the_older_one(pair: Pair) -> None:
    first = pair.a.add("Fix login", id="zzz", subject=ISSUE)
    second = pair.b.add("Login is broken", id="aaa", subject=ISSUE)
    assert first.created_at < second.created_at
    for board in (pair.a, pair.b, pair.a):
        board.sync()
    for board, session in ((pair.b, pair.bob), (pair.a, pair.alice)):
        assert {item.id for item in board.list(subject=ISSUE)} == {"zzz", "aaa"}
        findings = [one for one in doctor.examine(board) if "subject" in one.what]
        assert [(one.item, one.advice) for one in findings] == [("aaa", "dibs edit aaa --subject ''")]
        grant = board.claim_subject(ISSUE, session=session)
        assert grant.item.id == "zzz"
        board.release("zzz", session=session)
    pair.a.edit("aaa", subject=None)
    assert not [one for one in doctor.examine(pair.a) if "subject" in one.what]


def test_a_subject_that_another_item_has_is_not_taken_over_from_a_file(pair: Pair) -> None:
    pair.a.add("Fix login", id="first", subject=ISSUE)
    pair.a.add("Another", id="second")
    put(pair.here, "Needs_Action/second.md", f'---\nsubject: "{ISSUE}"\n---\n# Another\n')
    assert pair.a.get("second").item.subject is None
    assert any("has the subject" in one.what for one in doctor.examine(pair.a))
