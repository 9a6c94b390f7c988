"""Long answers: they hold up nobody who works, and none of them is larger than it may be."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dibs.config import DEFAULTS
from dibs.errors import Invalid
from dibs.model import AGENT, VIEWER
from dibs.server.api.responses import ANSWER_BYTES_MAX
from dibs.server.api.verb_routes import PAGE_RECORDS, WHOLE_RECORDS
from dibs.server.compat import wire_format
from dibs.server.service import Service
from dibs.store.http.store import PAGE_BYTES
from dibs.testing import sizes
from tests.kit import sqlite
from tests.server.attacking import Caller
from tests.server.process import Background, Serving, board_of, serving

BODY, ID = "b" * 64_000, b'"id":"item-'
CONTROLS = "\x01" * 700_000
#: What the readers read, each of them: more than an answer may have, and in a soak a great deal.
BYTES = 180_000_000 if sizes.FACTOR > 1 else 20_000_000
READERS = 3
HEARTBEAT_SECONDS_MAX = 1.0
#: On a busy machine one look says little.
ROUNDS = 4


def fill(board: Any) -> int:
    count = BYTES // len(BODY)
    for start in range(0, count, 100):
        numbers = range(start, min(count, start + 100))
        board.add_many([{"id": f"item-{number:05}", "title": "T", "body": BODY} for number in numbers])
    return count


def slowest_heartbeat(caller: Caller, readers: list[Background]) -> float:
    """While somebody reads."""
    longest, beats = 0.0, 0
    while any(reader.is_running for reader in readers) or beats < 3:
        began = time.perf_counter()
        assert caller.ok("POST", "/v1/heartbeat", {"session": "me"})["renewed"]
        longest, beats = max(longest, time.perf_counter() - began), beats + 1
    return longest


def test_heartbeats_go_on_beside_those_who_read_everything(tmp_path: Path) -> None:
    with serving(tmp_path, "--quiet") as server, board_of(server) as board:
        count = fill(board)
        agent = Caller(server.url, board.create_key(AGENT, agent="coder")[1])
        viewer = board.create_key(VIEWER)[1]
        agent.ok("POST", "/v1/sessions", {"agent": "coder", "id": "me"})
        agent.ok("POST", "/v1/items/item-00000/claim", {"session": "me"})
        whole_is_refused(server, viewer)
        longest = []
        for _ in range(ROUNDS):
            readers = [Background(lambda: read_all(server, viewer)) for _ in range(READERS)]
            longest.append(slowest_heartbeat(agent, readers))
            assert [reader.result() for reader in readers] == [count] * READERS
            if longest[-1] < HEARTBEAT_SECONDS_MAX:
                break
        assert min(longest) < HEARTBEAT_SECONDS_MAX, longest


def read_all(server: Serving, key: str) -> int:
    """Page by page, as our own client does it, but without looking at them: that would hold up the heartbeats here."""
    caller, count, after = Caller(server.url, key), 0, ""
    while True:
        answer = caller("GET", f"/v1/items?limit=100000&bytes_max={PAGE_BYTES}{after}")
        count += answer.body.count(ID)
        if answer.status == 200:
            return count
        assert answer.status == 206
        at = answer.body.rindex(ID) + len(ID)
        after = f"&after=item-{answer.body[at : at + 5].decode()}"


def whole_is_refused(server: Serving, key: str) -> None:
    """Whoever does not ask for pages does not take the first for all there is."""
    caller = Caller(server.url, key)
    answer = caller("GET", "/v1/items?limit=10000")
    assert (answer.status, answer.code, answer.json["facts"]["field"]) == (422, "INVALID", "limit")
    fit = answer.json["facts"]["fit"]
    assert caller("GET", f"/v1/items?limit={fit}").status == 200
    page = caller("GET", "/v1/items?limit=100000&bytes_max=1000000000")
    assert page.status == 206
    assert ANSWER_BYTES_MAX - 2 * len(BODY) < len(page.body) <= ANSWER_BYTES_MAX + len(b"[]")
    last = page.json[-1]["id"]
    assert caller.ok("GET", f"/v1/items?limit=1&after={last}")[0]["id"] > last


def test_what_is_long_comes_in_pages_and_our_own_clients_get_all_of_it(tmp_path: Path) -> None:
    count = PAGE_RECORDS + 3
    with serving(tmp_path, "--quiet") as server, board_of(server) as board:
        for start in range(0, count, 1000):
            board.add_many([{"id": f"item-{n:05}", "title": "T"} for n in range(start, min(count, start + 1000))])
        caller = Caller(server.url, board.create_key(VIEWER)[1])
        for path in ("/v1/items", "/v1/events", "/v1/runs"):
            whole = caller("GET", f"{path}?limit={WHOLE_RECORDS + 1}")
            assert (whole.status, whole.code, whole.json["facts"]["field"]) == (422, "INVALID", "limit"), path
            assert str(WHOLE_RECORDS) in whole.json["detail"], path
            assert caller("GET", f"{path}?limit={WHOLE_RECORDS}").status == 200, path
        page = caller("GET", "/v1/items?limit=100000&bytes_max=16000000")
        assert (page.status, len(page.json)) == (206, PAGE_RECORDS)
        rest = caller("GET", f"/v1/items?limit=100000&bytes_max=16000000&after={page.json[-1]['id']}")
        assert (rest.status, len(rest.json)) == (200, 3)
        assert caller("GET", "/v1/events?limit=100000&newest=true").status == 200, "the end of the feed has no pages"
        listed = json.loads(server.dibs("list", "--json", "--limit", "100000").stdout)["items"]
        assert len({item["id"] for item in listed}) == count
        told = json.loads(server.dibs("events", "--json", "--after", "0", "--limit", "100000").stdout)["events"]
        assert [event["id"] for event in told] == [event.id for event in board.events(limit=100_000)]


def test_a_history_and_texts_that_grow_in_json_are_bounded_like_everything(tmp_path: Path) -> None:
    """A control character is one character in the store and six bytes in an answer."""
    with serving(tmp_path, "--quiet") as server, board_of(server) as board:
        board.add("T", id="big")
        for number in range(4):
            board.edit("big", body=CONTROLS + str(number))
        board.add_many([{"id": f"item-{number}", "title": "T", "body": CONTROLS} for number in range(4)])
        caller = Caller(server.url, board.create_key(VIEWER)[1])
        for path in ("/v1/items/big/log", "/v1/items", "/v1/events"):
            whole = caller("GET", path)
            assert (whole.status, whole.code, len(whole.body) < 1000) == (422, "INVALID", True), path
            page = caller("GET", f"{path}?bytes_max=100000000")
            assert (page.status, len(page.body) <= ANSWER_BYTES_MAX + len(b"[]")) == (206, True), path
            last = page.json[-1]["id"]
            rest = caller("GET", f"{path}?bytes_max=100000000&after={last}").json
            assert rest, path
            assert last not in [one["id"] for one in rest], path
        newest = caller("GET", "/v1/events?newest=true&bytes_max=100000000")
        assert (newest.status, len(newest.body) <= ANSWER_BYTES_MAX + len(b"[]")) == (206, True)
        assert newest.json[-1]["id"] == board.events(newest=True, limit=1)[0].id


def test_long_answers_of_the_other_contracts_are_read_beside_the_verbs_and_bounded(tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        service = Service(harness.board().store, DEFAULTS)
        threads = []

        def long() -> dict[str, Any]:
            threads.append(threading.current_thread().name)
            return {"a": "b" * ANSWER_BYTES_MAX}

        with pytest.raises(Invalid):
            asyncio.run(wire_format.read(service, long))
        assert threads[0].startswith("read")
