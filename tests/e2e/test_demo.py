"""`dibs demo`: a real fleet, and only claims that the record bears out."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from dibs.board import make
from dibs.cli.demo.processes import Processes
from dibs.cli.demo.story import WORKERS
from tests.e2e.conftest import Dibs, until
from tests.kit.processes import children, left_after

CHECKS = 7


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
    demo = bare.start("demo")
    assert demo.stdout is not None
    while "The fleet takes" not in demo.stdout.readline():
        assert demo.poll() is None
    pids = children(demo.pid)
    assert len(pids) > len(WORKERS), "a server, the workers"
    demo.send_signal(number)
    _, stderr = demo.communicate(timeout=10)
    assert (demo.returncode, stderr) == (code, "")
    assert not left_after(10, pids)
    until(lambda: not list(tmp_path.glob("dibs-demo-*")))


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.cli.demo.processes.PATIENCE_SECONDS", 0.5)
    make(str(tmp_path / "board.db"))
    (tmp_path / "sitecustomize.py").write_text("import sys, time\n'serve' in sys.orig_argv and time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Processes(str(tmp_path)) as processes:
        assert processes.serve() == {"url": None, "error": "it did not start"}


def test_the_demo_answers_programs_too(bare: Dibs) -> None:
    answer = json.loads(bare.ok("demo", "--json"))
    assert answer["shown"]
    assert len(answer["checks"]) == CHECKS
