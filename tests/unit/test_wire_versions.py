"""Data of other versions: unknown fields of a newer server are ignored, missing ones of an older one have defaults."""

from __future__ import annotations

import pytest

from dibs.model import Heartbeat, NewItem, Renewal
from dibs.rules import items
from dibs.rules.decision import State
from dibs.store.postgres import answers
from dibs.text import wire

RENEWAL = {
    "item": "x",
    "token": 1,
    "expires_at": "2026-11-15T12:00:00.000Z",
    "remaining_seconds": 60.0,
    "heartbeat_count": 1,
    "warning": None,
    "heartbeat_seconds": 20.0,
    "news": 1,
}
BEAT = {"session": "s", "renewed": [RENEWAL], "lost": [], "forgotten": [], "heartbeat_seconds": 20.0, "more_news": {}}


def test_a_client_passes_over_what_a_newer_server_says() -> None:
    found = wire.decode(Heartbeat, BEAT, lenient=True)
    assert isinstance(found.renewed[0], Renewal)
    assert (found.renewed[0].item, found.event) == ("x", None)


def test_an_import_does_not() -> None:
    with pytest.raises(TypeError):
        wire.decode(Heartbeat, BEAT)


def test_an_answer_that_an_older_version_kept_has_the_defaults_of_later_fields() -> None:
    row = {"item": "x", "token": 1, "session": "s", "agent": "ann", "started_at": 0, "outcome": "done", "seq": 7}
    run = answers.run(row)
    assert (run.outcome, run.links, run.checks) == ("done", {}, {})


def test_an_item_that_an_older_version_added_is_the_same_item_when_it_is_added_again() -> None:
    new = NewItem(id="x", title="x", labels=("a",))
    added = items.add(0, new, actor="ann", token_floor=0)
    edited = items.edit(1, State(item=added.item), {"priority": 9}, actor="ann")
    assert edited is not None
    older = added.event.replace(data={name: value for name, value in added.event.data.items() if name != "retries"})
    assert items.is_same(new, edited.item, older)
    assert not items.is_same(new.replace(retries=1), edited.item, older)
