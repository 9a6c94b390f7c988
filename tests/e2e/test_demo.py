"""`dibs demo`: a real fleet, and only claims that the record bears out."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dibs.board import Board, connect, make
from dibs.cli.demo.processes import Processes
from dibs.cli.demo.story import WORKERS
from dibs.errors import ItemNotClaimed
from tests.e2e.conftest import Dibs
from tests.kit.processes import children, left_after
from tests.kit.waiting import PATIENCE_SECONDS, until

CHECKS = 7
PICTURE_BYTES_MAX = 100_000
#: Of a live fleet: a server, four with sessions, one that keeps the folder, one that outlives the others.
PROCESSES = 7
START_SECONDS_MAX = 60


def test_the_demo_shows_what_it_says_and_leaves_nothing_behind(bare: Dibs, tmp_path: Path) -> None:
    said = bare.ok("demo", environment={"TMPDIR": str(tmp_path)})
    for act in (
        *("Two claim the same item", "One is killed", "One is stopped", "The stopped one continues"),
        "One may only draft",
    ):
        assert act in said
    for word in ("TASK_ALREADY_CLAIMED", "owner died", "expired", "CLAIM_EXPIRED", "submitted", "approved"):
        assert word in said
    assert "with a server in front of it, for cleo and dan  http://127.0.0.1:" in said
    assert said.count("✓") == CHECKS
    assert "✗" not in said
    assert not list(tmp_path.glob("dibs-demo-*"))
    assert not (bare.folder / ".local").exists(), "no server has left a note of itself"


def test_without_a_server_it_is_shown_on_the_file_alone(bare: Dibs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["fastapi"] = None\n')
    said = bare.ok("demo", environment={"PYTHONPATH": str(tmp_path)})
    assert "no server: dibs serve needs FastAPI and uvicorn" in said
    assert said.count("✓") == CHECKS


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_demo_that_is_stopped_ends_its_server_and_its_workers(
    bare: Dibs, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    bare.environment = bare.environment | {"TMPDIR": str(tmp_path)}
    demo = bare.start("demo", "--record", "story.svg")
    assert demo.stdout is not None
    while "The fleet takes" not in demo.stdout.readline():
        assert demo.poll() is None
    pids = children(demo.pid)
    assert len(pids) > len(WORKERS), "a server, the workers"
    demo.send_signal(number)
    _, stderr = demo.communicate(timeout=PATIENCE_SECONDS)
    assert (demo.returncode, stderr) == (code, "")
    assert not left_after(10, pids)
    until(lambda: not list(tmp_path.glob("dibs-demo-*")))
    assert not list(bare.folder.glob("*.svg*"))


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.cli.demo.processes.PATIENCE_SECONDS", 0.5)
    make(str(tmp_path / "board.db"))
    (tmp_path / "sitecustomize.py").write_text("import sys, time\n'serve' in sys.orig_argv and time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Processes(str(tmp_path)) as processes:
        assert processes.serve() == {"url": None, "error": "it did not start"}


def test_a_recorded_story_is_one_small_picture_without_scripts(bare: Dibs) -> None:
    answer = json.loads(bare.ok("demo", "--json", "--record", "story.svg"))
    assert answer["shown"]
    assert len(answer["checks"]) == CHECKS
    picture = (bare.folder / "story.svg").read_text()
    assert len(picture.encode()) < PICTURE_BYTES_MAX
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
    assert names == {"svg", "title", "desc", "style", "rect", "g", "text", "tspan"}
    assert "\x1b" not in picture
    for text in ("kill -9, holding", "CLAIM_EXPIRED", "replaying the history of every item gives its state"):
        assert text in picture


def test_a_recording_overwrites_nothing_and_is_refused_before_the_story(bare: Dibs) -> None:
    (bare.folder / "mine.svg").write_text("mine")
    code, error = bare.refused("demo", "--record", "mine.svg")
    assert (code, error["code"], error["field"]) == (1, "INVALID", "record")
    assert (bare.folder / "mine.svg").read_text() == "mine"
    for name in ("missing/story.svg", "", "."):
        code, error = bare.refused("demo", "--record", name)
        assert (code, error["code"], error["field"]) == (1, "INVALID", "record")
    assert {path.name for path in bare.folder.iterdir()} == {"mine.svg"}


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--agents", "8"), "open"),
        (("--for", "1m"), "open"),
        (("--open", "--record", "x.svg"), "record"),
        (("--open", "--agents", "0"), "agents"),
        (("--open", "--for", "0s"), "for"),
    ],
)
def test_options_that_do_not_fit_are_refused(bare: Dibs, words: tuple[str, ...], field: str) -> None:
    code, error = bare.refused("demo", *words)
    assert code in (1, 2)
    assert error["field"] == field


def test_a_live_fleet_meets_a_crash_a_stall_and_you_and_leaves_nothing_behind(
    bare: Dibs, tmp_path: Path, ended: Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
) -> None:
    bare.environment = bare.environment | {"TMPDIR": str(tmp_path)}
    demo = ended(bare.start("demo", "--open", "--agents", "8", "--for", "8s"))
    assert demo.stdout is not None
    said = ""
    for line in demo.stdout:
        said += line
        if "another link" in line:
            pids = children(demo.pid)
            board = _visited(line.split()[-1], tmp_path)
        elif "SIGSTOP" in line:
            _meddle(board, stopped=line.partition(" holding ")[2].strip().split(", "))
    stderr = demo.communicate(timeout=60)[1]
    assert (demo.returncode, stderr, "✗" in said) == (0, "", False), said
    for sentence in (
        "no item was held twice",
        r"[1-9]\d* claims? of killed processes came",
        r"claims? of stopped sessions expired",
    ):
        assert re.search(sentence, said), said
    assert not left_after(10, pids)
    assert not list(tmp_path.glob("dibs-demo-*"))
    url = re.search(r"http://\S+:\d+", said)
    assert url is not None
    assert not _listens(url[0])
    assert not (bare.folder / ".local").exists()


def _visited(file: str, folder: Path) -> Board:
    """The board, with an item of yours that a session has taken."""
    board = connect(file, folder=str(folder), actor="you")
    board.add("Mine", id="mine", priority=10)
    until(lambda: board.get("mine").runs)
    return board


def _meddle(board: Board, stopped: list[str]) -> None:
    """Do what the dashboard offers, with the items of a stopped session and with all others."""
    with board:
        for item in stopped:
            with suppress(ItemNotClaimed):  # it has expired already
                board.force_release(item, reason="it is silent")
        board.edit("staging", title="Other", labels=["seen"])
        for verb, status, args in (
            *(("park", "ready", {}), ("unpark", "parked", {}), ("cancel", "blocked", {}), ("retry", "failed", {})),
            *(("send_back", "pending_approval", {"comment": "shorter"}), ("approve", "pending_approval", {})),
        ):
            found = [{"id": item.id} for item in board.list(statuses=[status])]
            if found:
                board.bulk(verb, items=found[1:] or found, args=args)
        board.cancel("staging")
        latest = max(int(item.id.rpartition("-")[2]) for item in board.list() if item.id[-1].isdigit())
        board.add_many([{"title": "Taken", "id": f"letter-{latest + n}"} for n in range(1, 40)])


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, marks=pytest.mark.soak),
        signal.SIGKILL,
    ],
)
def test_a_live_fleet_whose_process_group_is_ended_leaves_nothing_behind(
    bare: Dibs, tmp_path: Path, number: signal.Signals
) -> None:
    bare.environment = bare.environment | {"TMPDIR": str(tmp_path)}
    demo = bare.start("demo", "--open", "--agents", "5", "--json")
    opened = _opened(demo)
    pids = children(demo.pid)
    assert len(pids) >= PROCESSES
    os.killpg(demo.pid, number)
    _, stderr = demo.communicate(timeout=20)
    assert stderr == ""
    assert not left_after(20, pids)
    until(lambda: not list(tmp_path.glob("dibs-demo-*")), seconds=20)
    assert not _listens(opened["url"])


def _opened(demo: subprocess.Popen[str]) -> dict[str, Any]:
    assert demo.stdout is not None
    ready, _, _ = select.select([demo.stdout], [], [], START_SECONDS_MAX)
    if not ready or not (line := demo.stdout.readline()):
        demo.kill()
        raise AssertionError(demo.communicate())
    opened: dict[str, Any] = json.loads(line)
    return opened


def _listens(url: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0
