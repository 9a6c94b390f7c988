"""A key that is good no more: what waits under it ends with 401, and is given nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.errors import Unauthenticated
from dibs.model import AGENT
from dibs.server.api.verb_routes import release_if_revoked
from dibs.server.service import Service
from dibs.testing.conformance.asking import kinds
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.attacking import Answer, Served, served
from tests.server.process import Background
from tests.server.test_waiting import Asking

#: What is asked under the key and stays open. The last takes a place in a queue, which is seen on the board.
PENDING = (
    ("GET", "/v1/watch?after=1000000&wait=60", None),
    ("POST", "/v1/next?wait=60", {"session": "me", "projects": ["p"]}),
    ("POST", "/v1/items/held/wait?wait=60", {"session": "also-me"}),
    ("POST", "/v1/items/held/claim?wait=60", {"session": "me"}),
)


@pytest.fixture
def shop(http_host: Host, tmp_path: Path) -> Iterator[Served]:
    with served(http_host, tmp_path) as found:
        found.board.add("Held", id="held")
        found.board.start_session("holder", id="holder")
        found.board.claim("held", session="holder")
        yield found


def by_this_server(shop: Served, key: str) -> None:
    shop.admin.ok("POST", f"/v1/keys/{key}/revoke")


def elsewhere(shop: Served, key: str) -> None:
    shop.board.revoke_key(key)


def by_time(shop: Served, key: str) -> None:
    shop.harness.clock.advance(301)


@pytest.mark.parametrize("end", [by_this_server, elsewhere, by_time])
def test_what_waits_under_a_key_ends_with_it_and_is_given_nothing(
    shop: Served, end: Callable[[Served, str], None]
) -> None:
    caller = shop.caller(AGENT, "coder", seconds=300)
    key = caller.ok("GET", "/v1/me")["key"]
    for session in ("me", "also-me"):
        caller.ok("POST", "/v1/sessions", {"agent": "coder", "id": session})
    pending = [Background(lambda asked=asked: caller(*asked)) for asked in PENDING]
    after = 0
    for _ in range(PATIENCE_SECONDS):
        if len(shop.board.get("held").waiters) == 2:
            break
        after = shop.admin.ok("GET", f"/v1/watch?after={after}&wait=1")["event"]
    end(shop, key)
    # What comes right then is somebody else's.
    shop.board.add("Free", id="free", project="p")
    shop.board.release("held", session="holder")
    for one, asked in zip(pending, PENDING, strict=True):
        answer: Answer = one.result()
        assert (answer.status, answer.code) == (401, "UNAUTHENTICATED"), (asked, answer.body)
    assert "claimed" not in kinds(shop.board, "free")
    assert kinds(shop.board, "held").count("claimed") == 1


def test_what_was_given_to_a_key_that_was_revoked_meanwhile_is_taken_back(tmp_path: Path) -> None:
    """The last look at the key was before the store's lock was waited for."""
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        service = Service(board.store, board.settings, sweeps=False)
        key, secret = board.create_key(AGENT)
        request = Asking((key, secret)).request
        board.start_session("coder", id="me")
        for id in ("x", "y", "mine"):
            board.add(id, id=id)
        mine = board.claim("mine", session="me")
        release_if_revoked(service, request, (mine,))
        assert board.get("mine").claim is not None, "its key is good"
        given = board.next(session="me", n=2)
        board.revoke_key(key.id)
        for found in (given, board.claim("mine", session="me")):
            with pytest.raises(Unauthenticated):
                release_if_revoked(service, request, found)
        assert {id: board.get(id).item.status for id in ("x", "y", "mine")} == {
            "x": "ready",
            "y": "ready",
            "mine": "in_progress",
        }
        assert board.get("x").runs[0].reason == "its key had been revoked when the claim was granted"
        service.close()
