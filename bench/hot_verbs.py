"""The verbs that a fleet calls all day, over HTTP by 32 clients: requests a second, and how long an answer takes.

    python -m bench hot_verbs --rounds 1 --seconds 2

The server is a `dibs serve` of its own, the key one of an agent. `next + done` is one request that ends an item and
claims the next; `next; done` are two. Beside them, in the same run, a route of FastAPI and one of Starlette that answer
with a constant on the same HTTP server: the limit. Rounds take turns; figures are medians, times in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench import servers
from bench.http_load import Client, Outcome, Served, closed_loop, cpu_seconds, request, served
from dibs.board import Board, connect

CLIENTS = 32
ITEMS_PER_SECOND = 4_000
BATCH = 1000
GRANT = re.compile(rb'"claim":\{"item":"([^"]+)","token":(\d+)')

#: Makes what `closed_loop` asks for requests.
Load = Callable[[Served], Callable[[int, "bytes | None"], bytes]]


class Measured(NamedTuple):
    """`cpu_microseconds` is how long the server computed for a request."""

    outcome: Outcome
    cpu_microseconds: float


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench hot_verbs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--stores", default="SQLite,PostgreSQL")
    parser.add_argument("--verbs", default=",".join(LOADS))
    asked = parser.parse_args(arguments)
    found: dict[tuple[str, str], list[Measured]] = {}
    for _ in range(asked.rounds):
        for kind in asked.stores.split(","):
            if kind == "PostgreSQL" and not servers.is_there():
                continue
            for verb in asked.verbs.split(","):
                with place(kind, int(asked.seconds * ITEMS_PER_SECOND)) as url, served(url) as server:
                    found.setdefault((kind, verb), []).append(measured(server, LOADS[verb], asked.seconds))
        for framework in FRAMEWORKS:
            with hello(framework) as server:
                found.setdefault((framework, "constant"), []).append(measured(server, _constant, asked.seconds))
    rows = [_row(kind, verb, outcomes) for (kind, verb), outcomes in found.items()]
    return f"Hot verbs over HTTP by {CLIENTS} clients", rows


def _row(kind: str, verb: str, found: list[Measured]) -> dict[str, object]:
    assert not any(one.outcome.refused for one in found), f"{kind}, {verb}: requests were refused"
    return {
        "server": kind,
        "request": verb,
        "per second": statistics.median(one.outcome.per_second for one in found),
        "p50": statistics.median(one.outcome.share(0.5) for one in found),
        "p99": statistics.median(one.outcome.share(0.99) for one in found),
        "worst": max(one.outcome.share(1.0) for one in found),
        "CPU us": statistics.median(one.cpu_microseconds for one in found),
    }


def measured(server: Served, load: Load, seconds: float) -> Measured:
    following = load(server)
    before = cpu_seconds(server.pid)
    outcome = closed_loop(server.url, CLIENTS, seconds, following)
    return Measured(outcome, 1e6 * (cpu_seconds(server.pid) - before) / len(outcome.seconds))


@contextlib.contextmanager
def place(kind: str, items: int) -> Iterator[str]:
    """A durable board with enough to do."""
    with contextlib.ExitStack() as stack:
        if kind == "SQLite":
            url = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "board.db")
        else:
            server = stack.enter_context(servers.durable_server())
            server.create_database("board")
            url = server.url("board")
        with connect(url, create=True, seeded=False) as board:
            fill(board, items)
        yield url


def fill(board: Board, items: int) -> None:
    for start in range(0, items, BATCH):
        board.add_many({"id": f"item-{start + n}", "title": "x"} for n in range(BATCH))


def start_sessions(server: Served, count: int) -> list[str]:
    """Sessions belong to the key that starts them."""
    client = Client(server.url)
    start = request(server, "/v1/sessions", {"agent": "coder"})
    return [str(json.loads(client.ask(start).partition(b"\r\n\r\n")[2])["id"]) for _ in range(count)]


def _heartbeat(server: Served) -> Callable[[int, bytes | None], bytes]:
    """Each session holds a claim, which each heartbeat renews."""
    sessions = start_sessions(server, CLIENTS)
    made = [request(server, "/v1/heartbeat", {"session": session}) for session in sessions]
    client = Client(server.url)
    for session in sessions:
        client.ask(request(server, "/v1/next", {"session": session}))
    return lambda number, _: made[number]


def _next_and_done(server: Served) -> Callable[[int, bytes | None], bytes]:
    sessions = start_sessions(server, CLIENTS)

    def following(number: int, answer: bytes | None) -> bytes:
        body: dict[str, object] = {"session": sessions[number]}
        if answer is not None:
            item, token = claim_of(answer)
            body["done"] = {item: token}
        return request(server, "/v1/next", body)

    return following


def _next_then_done(server: Served) -> Callable[[int, bytes | None], bytes]:
    sessions = start_sessions(server, CLIENTS)
    holds: list[tuple[str, int] | None] = [None] * len(sessions)

    def following(number: int, answer: bytes | None) -> bytes:
        held = holds[number]
        if answer is None or held is not None:
            holds[number] = None
            return request(server, "/v1/next", {"session": sessions[number]})
        holds[number] = item, token = claim_of(answer)
        return request(server, f"/v1/items/{item}/done", {"session": sessions[number], "token": token})

    return following


def _constant(server: Served) -> Callable[[int, bytes | None], bytes]:
    made = request(server, "/", {})
    return lambda *_: made


def claim_of(answer: bytes) -> tuple[str, int]:
    found = GRANT.search(answer)
    assert found is not None, answer
    return found[1].decode(), int(found[2])


LOADS: dict[str, Load] = {"heartbeat": _heartbeat, "next + done": _next_and_done, "next; done": _next_then_done}

_STARLETTE = """
from starlette.applications import Starlette as App
from starlette.responses import JSONResponse
from starlette.routing import Route
async def hello(request):
    return JSONResponse({"hello": "world"})
app = App(routes=[Route("/", hello, methods=["POST"])])
"""
_FASTAPI = """
from fastapi import FastAPI
app = FastAPI()
@app.post("/")
async def hello(): return {"hello": "world"}
"""
_RUN = """
import socket, sys, uvicorn
listener = socket.socket(proto=socket.IPPROTO_TCP); listener.bind(("127.0.0.1", 0)); listener.listen()
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, log_config=None, access_log=False, http="httptools", loop="asyncio")
uvicorn.Server(config).run(sockets=[listener])
"""
FRAMEWORKS = {"FastAPI": _FASTAPI, "Starlette": _STARLETTE}


@contextlib.contextmanager
def hello(framework: str) -> Iterator[Served]:
    with subprocess.Popen([sys.executable, "-c", FRAMEWORKS[framework] + _RUN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Served(f"http://127.0.0.1:{port}", "none", process.pid)
        finally:
            process.terminate()
