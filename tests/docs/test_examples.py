"""examples/: each is run as its header says, on a board of its own, and judged by the board's record."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board, connect, make
from tests.docs.markdown import read
from tests.kit.waiting import PATIENCE_SECONDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Place:
    """A folder with a board, where examples and commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # `dibs`, as the scripts call it.
        binaries = folder / "bin"
        binaries.mkdir()
        (binaries / "dibs").write_text(f'#!/bin/sh\nexec {sys.executable} -m dibs.cli.main "$@"\n')
        (binaries / "dibs").chmod(0o755)
        self.environment = {"PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(folder), "LOGNAME": "alice"}
        make(str(folder / ".dibs" / "board.db"), folder=str(folder))
        self.board: Board = connect(str(folder / ".dibs" / "board.db"), folder=str(folder))

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            start_new_session=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def once(self, example: str) -> dict[str, int]:
        found: dict[str, int] = ast.literal_eval(self.run(sys.executable, str(EXAMPLES / example), "--once"))
        return found

    def dibs(self, line: str) -> str:
        return self.run("dibs", *line.split())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_function_worker(place: Place) -> None:
    (place.folder / "README.md").write_text("one\ntwo\n")
    board = place.board
    board.add("there", id="there", type="count", payload={"file": "README.md"})
    board.add("missing", id="missing", type="count", payload={"file": "nowhere"})
    board.add("odd", id="odd", type="spell", body="what a naïve façade")
    board.add("other", id="other", type="bug")
    assert place.once("counter.py") == {"done": 2, "failed": 1}
    runs = {run.item: run for run in board.runs()}
    assert (runs["there"].outcome, runs["there"].reason) == ("done", "2 lines")
    assert (runs["missing"].outcome, "FileNotFoundError" in (runs["missing"].reason or "")) == ("failed", True)
    assert runs["odd"].links == {"words": ["naïve", "façade"]}
    assert board.get("other").item.status == "ready"
    assert "counter done there" in (place.folder / "agent-counter.log").read_text()


def test_a_command_worker(place: Place) -> None:
    (place.folder / "README.md").write_text("one\n")
    place.board.add("README.md", id="there", type="checksum")
    place.board.add("$(touch ran); nowhere", id="nasty", type="checksum")
    place.run("sh", str(EXAMPLES / "command.sh"), "--once")
    outcomes = {run.item: run.outcome for run in place.board.runs()}
    assert outcomes == {"there": "done", "nasty": "failed"}
    assert not (place.folder / "ran").exists()


def test_a_cloud_agent_drafts_a_person_approves_and_a_local_one_carries_it_out(place: Place) -> None:
    board, outbox = place.board, place.folder / "outbox.txt"
    place.dibs("agent set cloud --sensitive send")
    place.dibs("agent set local --allow send --sensitive send")
    board.add("Sorry for the delay", id="sorry", action="send")
    board.add("Pay them", id="pay", action="pay")
    assert place.once("cloud.py") == {"submitted": 1}
    assert (place.once("local.py"), outbox.exists()) == ({}, False), "nothing is done before somebody says yes"
    place.dibs("send-back sorry --comment kindly")
    assert place.once("cloud.py") == {"submitted": 1}
    read = json.loads(place.dibs("show sorry --json"))["runs"][0]
    place.dibs(f"approve sorry --token {read['token']}")
    assert place.once("cloud.py") == {}, "what was approved is not for who drafts"
    assert place.once("local.py") == {"done": 1}
    assert outbox.read_text() == read["draft"] == "Dear customer,\n\nSorry for the delay.\n\n(kindly)\n"
    assert [event.kind for event in board.log("sorry") if event.kind not in ("claimable", "claimed")] == [
        *("added", "submitted", "sent_back", "submitted", "approved", "done"),
    ]
    assert board.get("sorry").runs[0].reason == "sent, as alice approved it"
    assert board.get("pay").item.status == "ready", "what neither may do is handed to neither"


def test_a_draft_that_is_rejected_is_sent_by_nobody(place: Place) -> None:
    place.dibs("agent set cloud --sensitive send")
    place.dibs("agent set local --allow send --sensitive send")
    place.board.add("Sorry", id="sorry", action="send")
    place.once("cloud.py")
    place.dibs("reject sorry --reason never")
    assert place.once("local.py") == {}
    assert place.board.get("sorry").item.status == "rejected"


def test_the_local_agent_does_nothing_of_its_own(place: Place) -> None:
    place.dibs("agent set local --allow send --sensitive send")
    place.board.add("Sorry", id="sorry", action="send")
    place.board.add("Thanks", id="thanks", action="send", needs_approval=True)
    place.dibs("approve thanks")
    assert place.once("local.py") == {"released": 1}
    assert not (place.folder / "outbox.txt").exists()
    assert place.board.get("sorry").item.status == "ready", "it was not handed to it"
    assert place.board.get("thanks").item.status == "parked"


def test_an_async_agent(place: Place) -> None:
    count = 8
    with socket.create_server(("127.0.0.1", 0), backlog=count) as listener:
        serving = threading.Thread(target=answering(listener, count), daemon=True)
        serving.start()
        port = listener.getsockname()[1]
        for number in range(count):
            place.board.add("up?", id=f"up-{number}", type="fetch", payload={"host": "127.0.0.1", "port": port})
        assert place.once("fetcher.py") == {"done": count}
        serving.join(PATIENCE_SECONDS)
    assert {run.reason for run in place.board.runs()} == {"HTTP/1.0 200 OK"}


def answering(listener: socket.socket, count: int) -> Callable[[], None]:
    """Answers nobody before all have asked: one after the other would wait for ever."""

    def answer() -> None:
        clients = [listener.accept()[0] for _ in range(count)]
        for client in clients:
            with client:
                client.recv(1000)
                client.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    return answer


def test_every_example_is_told_of_and_run_here() -> None:
    told = read("examples/README.md")
    here = Path(__file__).read_text()
    for example in EXAMPLES.iterdir():
        if example.suffix in (".py", ".sh"):
            assert f"[{example.name}]({example.name})" in told
            assert f'"{example.name}"' in here
