"""`dibs demo`: a real fleet, and only claims that the record bears out."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.e2e.conftest import Dibs, until

CHECKS = 7


def test_the_demo_shows_what_it_says_and_leaves_nothing_behind(bare: Dibs, tmp_path: Path) -> None:
    said = bare.ok("demo", environment={"TMPDIR": str(tmp_path)})
    for act in (
        *("Two go for the same item", "One is killed", "One is frozen", "The frozen one comes back"),
        "One may only draft",
    ):
        assert act in said
    for word in ("TASK_ALREADY_CLAIMED", "owner died", "expired", "CLAIM_EXPIRED", "submitted", "approved"):
        assert word in said
    assert "and a server before it, for cleo and dan  http://127.0.0.1:" in said
    assert said.count("✓") == CHECKS
    assert "✗" not in said
    assert not list(tmp_path.glob("dibs-demo-*"))
    assert not (bare.folder / ".local").exists(), "no server has left a note of itself"


def test_without_a_server_it_is_shown_on_the_file_alone(bare: Dibs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["fastapi"] = None\n')
    said = bare.ok("demo", environment={"PYTHONPATH": str(tmp_path)})
    assert "no server: a server needs FastAPI and uvicorn" in said
    assert said.count("✓") == CHECKS


def test_an_interrupted_demo_ends_its_workers(bare: Dibs, tmp_path: Path) -> None:
    bare.environment = bare.environment | {"TMPDIR": str(tmp_path)}
    demo = bare.start("demo")
    assert demo.stdout is not None
    while "The fleet takes" not in demo.stdout.readline():
        pass
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children")
    pids = children.read_text().split() if children.exists() else []
    demo.send_signal(signal.SIGINT)
    _, stderr = demo.communicate(timeout=10)
    assert (demo.returncode, stderr) == (130, "")
    assert not list(tmp_path.glob("dibs-demo-*"))
    until(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()])


def test_the_demo_answers_programs_too(bare: Dibs) -> None:
    answer = json.loads(bare.ok("demo", "--json"))
    assert answer["shown"]
    assert len(answer["checks"]) == CHECKS
