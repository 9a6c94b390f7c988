"""tasks.json of the session-task design: taken over once, and kept as the board is while others go on writing to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.shop import Shop
from tests.kit.waiting import PATIENCE_SECONDS, until

TASKS: list[dict[str, Any]] = [
    {"id": "phase3", "title": "Phase 3", "status": "completed"},
    {
        "id": "phase4",
        "title": "Phase 4: Delegation Metrics",
        "status": "in_progress",
        "phase": "implementation",
        "priority": "high",
        "dependencies": ["phase3"],
        "estimate": {"hours": 3},
    },
    {"id": "phase5", "title": "Phase 5", "status": "pending", "dependencies": ["phase4"], "tags": ["ui"]},
]
#: Another program that reads, changes its own field and writes: by a new file, or into the file as it is.
WRITERS = {
    "by renaming": "os.rename(new, path)",
    "in place": "open(path, 'w').write(open(new).read())",
}
WRITER = """
import json, os, sys, time
path, new = sys.argv[1], sys.argv[1] + ".mine"
for number in range(1, int(sys.argv[2]) + 1):
    end = time.monotonic() + 10
    while True:
        try:
            document = json.load(open(path))
        except ValueError:
            continue
        if document["count"] == number - 1:
            break
        # Between two renames of the mirror an older text may be there for an instant; it does not stay.
        assert time.monotonic() < end, f"{number - 1} was written, {document['count']} is there"
    document["count"] = number
    with open(new, "w") as file:
        json.dump(document, file, indent=2)
    WRITE
print("ok")
"""
ROUNDS = 150


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    assert shop.type("dibs init").returncode == 0
    return shop


@pytest.fixture
def tasks(shop: Shop) -> Path:
    path = shop.folder / "tasks.json"
    path.write_text(json.dumps({"tasks": TASKS, "count": 0}, indent=4) + "\n")
    return path


@pytest.fixture
def mirror(shop: Shop, tasks: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = str(Path(sys.executable).parent / "dibs")
    with subprocess.Popen([program, "mirror", "tasks.json"], cwd=shop.folder, stdout=subprocess.DEVNULL) as running:
        yield running
        running.terminate()
        running.wait(PATIENCE_SECONDS)


def of(path: Path, id: str) -> dict[str, Any]:
    try:
        return next(task for task in json.loads(path.read_text())["tasks"] if task["id"] == id)
    except ValueError:  # it is being written in place
        return {}


def test_its_tasks_become_items(shop: Shop, tasks: Path) -> None:
    tried = shop.answer("dibs import --from tasks tasks.json --dry-run")
    assert (tried["added"], tried["over"], shop.answer("dibs list")["items"]) == (["phase4", "phase5"], 1, [])
    assert shop.answer("dibs import --from tasks tasks.json")["added"] == ["phase4", "phase5"]
    (first, second) = shop.answer("dibs list")["items"]
    assert (first["id"], first["status"], first["phase"], first["priority"]) == (
        *("phase4", "ready", "implementation", 8),
    )
    assert (first["depends_on"], first["payload"]) == ([], {"estimate": {"hours": 3}})
    assert (second["status"], second["depends_on"], second["labels"]) == ("blocked", ["phase4"], ["ui"])


def test_taken_over_again_nothing_changes(shop: Shop, tasks: Path) -> None:
    shop.answer("dibs import --from tasks tasks.json")
    shop.answer("dibs edit phase4 --title 'Phase 4, changed here'")
    again = shop.answer("dibs import --from tasks tasks.json")
    assert (again["added"], again["existed"]) == ([], ["phase4", "phase5"])
    assert shop.answer("dibs show phase4")["item"]["title"] == "Phase 4, changed here"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ('{"jobs": []}', '{"tasks": [...]}'),
        ('[{"id": "../x", "title": "no"}]', "task 1: "),
        ('[{"id": "a", "title": "A", "dependencies": ["nowhere"]}]', "nowhere, which is neither"),
        ('[{"id": "a", "title": "A"}, {"id": "b", "title": "B", "priority": "soonish"}]', "task 2: "),
    ],
)
def test_a_file_that_is_wrong_adds_nothing(shop: Shop, tasks: Path, text: str, complaint: str) -> None:
    tasks.write_text(text)
    done = shop.type("dibs import --from tasks tasks.json")
    assert done.returncode == 1
    assert complaint in done.stdout
    assert shop.answer("dibs list")["items"] == []


def test_status_and_claim_are_kept_as_the_source_has_them(shop: Shop, tasks: Path) -> None:
    shop.answer("dibs import --from tasks tasks.json")
    me = "DIBS_SESSION=session-abc-123 DIBS_AGENT=coder"
    assert shop.answer("dibs mirror tasks.json --once")["written"]
    assert (of(tasks, "phase4")["status"], of(tasks, "phase5")["status"]) == ("pending", "blocked")
    shop.type(f"{me} dibs claim phase4")
    shop.answer("dibs mirror tasks.json --once")
    claimed = of(tasks, "phase4")
    assert claimed["status"] == "in_progress"
    assert claimed["claim"].keys() == {"sessionId", "claimedAt", "expiresAt", "lastHeartbeat", "agentType"}
    assert claimed["claim"]["sessionId"] == "session-abc-123"
    assert claimed["estimate"] == {"hours": 3}
    assert tasks.read_text().startswith('{\n    "tasks"'), "indented as it was"
    shop.type(f"{me} dibs done phase4")
    shop.answer("dibs mirror tasks.json --once")
    assert (of(tasks, "phase4")["status"], "claim" in of(tasks, "phase4")) == ("completed", False)
    assert of(tasks, "phase3") == TASKS[0], "what the board does not know stays as it is"
    assert shop.answer("dibs mirror tasks.json --once") == {"file": "tasks.json", "written": False}
    assert sorted(os.listdir(shop.folder)) == [".git", "tasks.json"]


@pytest.mark.parametrize("how", WRITERS)
def test_no_write_of_another_program_is_lost(
    shop: Shop, tasks: Path, mirror: subprocess.Popen[bytes], how: str
) -> None:
    shop.answer("dibs import --from tasks tasks.json")
    until(lambda: of(tasks, "phase5").get("status") == "blocked")
    over = threading.Event()
    done = 0

    def work() -> None:
        nonlocal done
        from dibs.board import connect

        with connect(str(shop.folder / ".git" / "dibs" / "board.db")) as board:
            me = board.start_session("coder").id
            while not over.is_set():
                board.claim("phase4", session=me)
                board.release("phase4", session=me)
                done += 1
                time.sleep(0.002)

    working = threading.Thread(target=work)
    working.start()
    try:
        program = WRITER.replace("WRITE", WRITERS[how])
        words = [sys.executable, "-c", program, str(tasks), str(ROUNDS)]
        ran = subprocess.run(words, capture_output=True, check=False, text=True)
        assert ran.stdout == "ok\n", ran.stderr
    finally:
        over.set()
        working.join()
    assert mirror.poll() is None
    assert done > 0
    until(lambda: of(tasks, "phase4").get("status") == "pending" and "claim" not in of(tasks, "phase4"))
    assert json.loads(tasks.read_text())["count"] == ROUNDS
