"""Data of other versions: unknown fields of a newer server are ignored, missing ones of an older one have defaults."""

from __future__ import annotations

from dibs.board import base
from dibs.model import Approval, Heartbeat, NewItem, Note, Renewal, Sweep
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
    found = wire.decode(Heartbeat, BEAT)
    assert isinstance(found.renewed[0], Renewal)
    assert (found.renewed[0].item, found.event) == ("x", None)


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


def test_a_request_is_the_same_however_its_parameters_are_ordered_and_whatever_was_left_out() -> None:
    """The next version passes another parameter, or passes them in another order."""
    first = base.request("r", "ann", "done", "x", token=1, links={"pr": 1})
    assert base.request("r", "ann", "done", "x", links={"pr": 1}, token=1) == first
    assert base.request("r", "ann", "done", "x", token=1, links={"pr": 1}, later=None, flag=False, names=()) == first
    others = [
        base.request("r", "ann", "fail", "x", token=1, links={"pr": 1}),
        base.request("r", "ann", "done", "y", token=1, links={"pr": 1}),
        base.request("r", "ann", "done", "x", token=2, links={"pr": 1}),
        base.request("r", "ann", "done", "x", token=1, cost={"pr": 1}),
        base.request("r", "ann", "done", "x", token=1, links={"pr": 1}, note=""),
        base.request("r", "ann", "done", "x", token=1, links={"pr": 1}, count=0),
    ]
    assert first.fingerprint not in {other.fingerprint for other in others}


def test_what_the_functions_of_a_newer_schema_answer_besides_is_passed_over() -> None:
    run = {"item": "x", "token": 1, "session": "s", "agent": "ann", "started_at": 0}
    previous = answers._previous({"run": run, "notes": [{"at": 1, "note": "n", "later": 1}], "comment": None})
    assert previous is not None
    assert previous.notes == (Note(at=1, note="n"),)
    approval = answers._approval({"actor": "ann", "at": 1, "comment": None, "run": None, "later": 1})
    assert approval == Approval(actor="ann", at=1)
    swept = {"expired": ["x"], "owner_died": [], "failed": [], "more": True, "later": ["y"]}
    assert answers.sweep(swept) == Sweep(expired=("x",), owner_died=(), failed=(), more=True)
