"""`dibs work` and `dibs serve` on a vault: files that come and go by hand while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Dibs
from tests.kit.processes import left_after
from tests.kit.waiting import until
from tests.server.process import Serving

Keep = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
#: How soon what was done by hand is noticed; each is tried a few times, since others use the machine.
NOTICED_SECONDS, TRIES = 1.0, 5
#: Says that it began, and goes on until it is ended.
ENDLESS = "echo $$ >>$VAULT/pids; sleep 600 & echo $! >>$VAULT/pids; wait"
LEFT_SECONDS = 10.0
CALM_SECONDS = 0.3


@pytest.fixture
def vault(bare: Dibs, settings: Callable[..., None]) -> Dibs:
    """An empty vault, as session s1 of coder; workers soon hear of what was taken away from them."""
    settings(heartbeat_seconds=0.3)
    bare.ok("vault", "init", ".")
    there = {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder", "VAULT": str(bare.folder)}
    return Dibs(bare.folder, bare.environment | there)


def drop(vault: Dibs, name: str) -> Path:
    """As an editor saves a new file."""
    draft = vault.folder / "Needs_Action" / f".{name}.tmp"
    draft.write_text(f"# {name}\n\nby hand\n")
    file = draft.with_name(f"{name}.md")
    draft.rename(file)
    return file


def files(vault: Dibs, name: str) -> list[str]:
    return sorted(str(file.relative_to(vault.folder)) for file in vault.folder.glob(f"*/**/{name}.md"))


def events(worker: subprocess.Popen[str], kind: str) -> dict[str, Any]:
    """The next event of that kind that a worker tells of."""
    assert worker.stdout is not None
    while (event := json.loads(worker.stdout.readline()))["event"] != kind:
        pass
    return dict(event)


@pytest.fixture
def worker(vault: Dibs, ended: Keep) -> Callable[..., subprocess.Popen[str]]:
    """Starts one; it is killed in the end, and its command with it."""

    def start(*command: str) -> subprocess.Popen[str]:
        return ended(vault.start("work", "--agent", "cloud", "--json", "--", *command))

    return start


def assert_noticed(vault: Dibs, worker: subprocess.Popen[str]) -> None:
    """It takes what is dropped within a second, and does it."""
    drop(vault, "warm-up")
    events(worker, "done")
    seconds = []
    for number in range(TRIES):
        # Time in which it looks in vain and begins to wait: a file that comes sooner is found without being noticed.
        time.sleep(CALM_SECONDS)
        begun = time.monotonic()
        drop(vault, f"task-{number}")
        assert events(worker, "claimed")["item"] == f"task-{number}"
        seconds.append(time.monotonic() - begun)
        assert events(worker, "done")["item"] == f"task-{number}"
        assert files(vault, f"task-{number}") == [f"Done/task-{number}.md"]
        assert "\n\nby hand\n" in (vault.folder / f"Done/task-{number}.md").read_text()
    print(f"noticed after {sorted(seconds)} s")
    assert sorted(seconds)[TRIES // 2] < NOTICED_SECONDS


def test_a_worker_notices_dropped_files_within_a_second(
    vault: Dibs, worker: Callable[..., subprocess.Popen[str]]
) -> None:
    assert_noticed(vault, worker("sh", "-c", 'test -f "$VAULT/In_Progress/cloud/$DIBS_ITEM.md"'))


def test_a_server_notices_dropped_files_within_a_second(
    vault: Dibs, ended: Keep, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Serving(tmp_path_factory.mktemp("server"), store=f"vault:{vault.folder}") as serving:
        assert serving.told["key_file"] == str(vault.folder / ".dibs" / "server-key.json"), "beside the index"
        far = Dibs(serving.folder, serving.environment | {"DIBS_STORE": serving.url, "VAULT": str(vault.folder)})
        command = 'test -f "$VAULT/In_Progress/cloud/$DIBS_ITEM.md"'
        worker = ended(far.start("work", "--agent", "cloud", "--json", "--", "sh", "-c", command))
        assert_noticed(vault, worker)


def test_a_command_finds_the_vault_from_another_folder(vault: Dibs) -> None:
    drop(vault, "x")
    words = f"cd / && {sys.executable} -m dibs.cli.main progress x half"
    outside = vault.folder.parent
    near = f"vault:{vault.folder.name}"
    vault.ok("work", "--store", near, "--agent", "cloud", "--once", "--", "sh", "-c", words, folder=outside)
    assert "half" in (vault.folder / "Done/x.md").read_text()


@pytest.mark.parametrize("to", ["In_Progress/local", "Parked", "Cancelled"])
def test_a_file_that_is_moved_away_ends_the_command_of_its_worker(
    vault: Dibs, worker: Callable[..., subprocess.Popen[str]], to: str
) -> None:
    drop(vault, "x")
    process = worker("sh", "-c", ENDLESS)
    pids = until(lambda: _two(vault.folder / "pids"))
    (vault.folder / to).mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    os.rename(vault.folder / "In_Progress/cloud/x.md", vault.folder / to / "x.md")
    assert events(process, "lost")["item"] == "x"
    print(f"lost after {time.monotonic() - begun:.2f} s")
    assert left_after(LEFT_SECONDS, pids) == [], "its processes are ended"
    assert files(vault, "x") == [f"{to}/x.md"], "the file stays where it was put"
    assert "**Claimed By**: cloud\n" in (vault.folder / to / "x.md").read_text()


def test_a_file_that_is_moved_back_is_worked_on_anew(vault: Dibs, worker: Callable[..., subprocess.Popen[str]]) -> None:
    drop(vault, "x")
    process = worker("sh", "-c", ENDLESS)
    first = until(lambda: _two(vault.folder / "pids"))
    os.rename(vault.folder / "In_Progress/cloud/x.md", vault.folder / "Needs_Action/x.md")
    assert events(process, "lost")["token"] == 1
    assert events(process, "claimed")["token"] == 2
    assert left_after(LEFT_SECONDS, first) == []
    assert files(vault, "x") == ["In_Progress/cloud/x.md"]


def _two(path: Path) -> list[int]:
    """The pids that a command wrote down, once there are two."""
    found = [int(word) for word in path.read_text().split()] if path.exists() else []
    return found if len(found) == 2 else []
