"""Workers over HTTP while the network fails and the server is killed: nothing acknowledged is lost, nothing is doubled,
and an answer that got lost is never taken for a refusal."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs import api_keys
from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.store.http.store import HttpStore
from dibs.testing import sizes
from dibs.testing.conformance.asking import added
from dibs.testing.harness import Harness
from tests.kit import postgres, sqlite
from tests.kit.chaos import FATES, ChaosProxy
from tests.kit.http import Host, open_board
from tests.kit.outage_workers import Troupe, assert_nothing_lost
from tests.kit.postgres_server import PostgresServer
from tests.kit.soak import in_a_soak

WORKERS, ITEMS = 4, 24
#: Enough for each of the fates to befall somebody.
CHAOS_ROUNDS, KILLS = 25, 6
CALM_SECONDS_MAX = 0.3
#: Answers come at once or not at all: a silent connection is given up after this long.
SETTINGS = {"lock_wait_seconds": 1.0}


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest, folder: Path) -> Iterator[Harness]:
    if request.param == "sqlite":
        made: Harness = sqlite.harness(folder)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made = postgres.harness(server, folder)
    with made:
        yield made


def recipe(servers: list[tuple[str, str]]) -> dict[str, object]:
    return {"call": "tests.kit.http:open_board", "kwargs": {"servers": servers, "settings": SETTINGS}}


@pytest.mark.parametrize("harness", ["sqlite", *in_a_soak("postgres")], indirect=True)
def test_a_failing_network_doubles_nothing_and_loses_nothing(harness: Harness, http_host: Host) -> None:
    seed = sizes.seed()
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    with ChaosProxy(seed) as proxy:
        url, key = http_host.serve(harness.recipe(), hosts=[proxy.host])
        proxy.target = int(url.rpartition(":")[2])
        with Troupe(recipe([(f"http://{proxy.host}", key)]), harness.folder, WORKERS, seed) as troupe:
            for _ in range(sizes.times(CHAOS_ROUNDS)):
                troupe.await_answers()
            counts, calls = troupe.stop(), troupe.calls()
        fired = dict(proxy.fired)
        http_host.stop(url)
    print(f"seed {seed}: {fired}; {dict(counts)}; {len(calls)} calls")
    assert all(fired.get(fate) for fate in FATES), f"seed {seed}: not everything happened: {fired}"
    assert counts["reconnects"] > 0, f"seed {seed}: nothing was asked again: {dict(counts)}"
    for code in ("NOT_CLAIM_OWNER", "TASK_NOT_CLAIMED", "CLAIM_EXPIRED", "INVALID"):
        assert not counts[code], f"seed {seed}: {counts[code]} answers that got lost were taken for {code}"
    assert_nothing_lost(calls, board, f"seed {seed}:")


def test_an_end_whose_answer_was_lost_is_asked_for_again(harness: Harness, http_host: Host) -> None:
    board = harness.board()
    added(board, "held", "soft", "kept")
    me = board.start_session("coder", id="me").id
    board.claim("held", session=board.start_session("other").id)
    board.claim("kept", session=me)
    board.wait("held", session=me)
    board.soft_claim("soft", session=me)
    viewer = board.create_key("viewer")[0].id
    with through_chaos(harness, http_host) as (proxy, remote, _):
        answers = {
            verb: lost(proxy, remote, ask)
            for verb, ask in {
                "leave": lambda: remote.leave("held", session=me),
                "soft_release": lambda: remote.soft_release("soft", session=me),
                "end_session": lambda: remote.end_session(me, reason="lunch"),
                "revoke_key": lambda: remote.revoke_key(viewer),
                "create_key": lambda: remote.create_key("agent", agent="coder", seconds=60),
            }.items()
        }
    assert answers["leave"].ticket.reason == "it was given up"
    assert answers["soft_release"].item == "soft"
    assert (answers["end_session"].released, answers["end_session"].session.end_reason) == (("kept",), "lunch")
    assert answers["revoke_key"].revoked_at is not None
    key, secret = answers["create_key"]
    there = board.keys()
    assert [one.digest for one in there if one.id == key.id] == [api_keys.digest(secret)]


def test_who_revokes_the_own_key_cannot_ask_what_became_of_it(harness: Harness, http_host: Host) -> None:
    board = harness.board()
    with through_chaos(harness, http_host) as (proxy, remote, key):
        own = api_keys.id_of(key)
        assert own is not None
        with pytest.raises(StoreUnavailable) as refusal:
            lost(proxy, remote, lambda: remote.revoke_key(own))
    assert refusal.value.facts["outcome"] == "unknown"
    assert board.store.find_key(own) is None


@contextmanager
def through_chaos(harness: Harness, http_host: Host) -> Iterator[tuple[ChaosProxy, Board, str]]:
    """A calm proxy, a board behind it, and the key of that."""
    with ChaosProxy(sizes.seed()) as proxy:
        proxy.calm = True
        url, key = http_host.serve(harness.recipe(), hosts=[proxy.host])
        proxy.target = int(url.rpartition(":")[2])
        try:
            with open_board(servers=[(f"http://{proxy.host}", key)], settings=SETTINGS) as remote:
                yield proxy, remote, key
        finally:
            http_host.stop(url)


def lost(proxy: ChaosProxy, remote: Board, ask: Callable[[], Any]) -> Any:
    """What is answered when the first answer is lost, after all of it was done."""
    store = remote.store
    assert isinstance(store, HttpStore)
    before, again = proxy.fired["cut after"], store.reconnects
    proxy.doomed = ["cut after"]
    answer = ask()
    assert (proxy.fired["cut after"], store.reconnects) == (before + 1, again + 1)
    return answer


@pytest.mark.parametrize("harness", [*in_a_soak("sqlite"), "postgres"], indirect=True)
def test_a_server_killed_under_load_loses_nothing_that_was_acknowledged(harness: Harness) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    host = Host()
    try:
        url, key = host.serve(harness.recipe())
        with Troupe(recipe([(url, key)]), harness.folder, WORKERS, seed) as troupe:
            for _ in range(sizes.times(KILLS)):
                # The moment is what is random here; nothing is waited for.
                time.sleep(draw.random() * CALM_SECONDS_MAX)
                host.close()
                host = Host()
                host.serve(harness.recipe(), port=int(url.rpartition(":")[2]))
                troupe.await_answers()
            counts, calls = troupe.stop(), troupe.calls()
    finally:
        host.close()
    print(f"seed {seed}: {dict(counts)}; {len(calls)} calls")
    assert counts["reconnects"] > 0, f"seed {seed}: nobody noticed: {dict(counts)}"
    assert_nothing_lost(calls, board, f"seed {seed}:")
