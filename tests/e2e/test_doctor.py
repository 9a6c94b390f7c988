"""`dibs doctor`: silent on a board in full use, and a finding with what to do for every kind of damage."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from dibs.board import connect
from dibs.maintenance.doctor import Examination, examine
from tests.e2e.conftest import Dibs

PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def template(shared: Dibs) -> Dibs:
    """done is over; src is held by s1 and waited for by s3, lib held by s2; the others are what they are called."""
    dibs = shared
    given: list[dict[str, Any]] = [
        {"id": "done"},
        {"id": "src", "resources": ["src"]},
        {"id": "lib", "resources": ["lib"]},
        {"id": "ready"},
        {"id": "blocked", "depends_on": ["ready"]},
        {"id": "scheduled", "not_before": "2099-01-01T00:00:00Z"},
    ]
    dibs.ok("add", "--file", "-", input="".join(json.dumps({"title": "t", **one}) + "\n" for one in given))
    dibs.ok("claim", "done")
    dibs.ok("done", "done")
    dibs.ok("claim", "src")
    for words in (("claim", "lib", "--session", "s2"), ("wait", "src", "--session", "s3")):
        dibs.ok(*words, "--agent", "reviewer")
    dibs.ok("claim", "ready", "--soft")
    assert dibs.json("doctor") == {"sound": True, "findings": []}
    return dibs


@pytest.fixture
def damaged(template: Dibs, dibs: Dibs) -> Callable[..., Dibs]:
    """The template's board with something wrong in it, written behind its back."""

    def damage(*statements: str) -> Dibs:
        shutil.copytree(template.folder, dibs.folder, dirs_exist_ok=True)
        database = apsw.Connection(str(dibs.folder / ".dibs" / "board.db"))
        for statement in statements:
            database.execute(statement).fetchall()
        database.close()
        return dibs

    return damage


def findings(dibs: Dibs) -> list[dict[str, Any]]:
    done = dibs("doctor", "--json")
    answer = json.loads(done.stdout)
    wrong = [one for one in answer["findings"] if not one["late"]]
    assert (done.returncode, answer["sound"]) == (1 if wrong else 0, not wrong), "what is only overdue is no fault"
    found: list[dict[str, Any]] = answer["findings"]
    return found


WAIT_FOR_DONE = (
    "INSERT INTO tickets (item, session, agent, since_at, expires_at, ttl_seconds) "
    "VALUES ('done', 's2', 'reviewer', 1, 9999999999999, 60)"
)
RESTORE = "dibs restore"
#: What is done to the board, the item it is about, a part of what is found, and of what is said to help.
DAMAGE: dict[str, tuple[str, str | None, str, str]] = {
    "a forged row": (
        "UPDATE items SET title = 'Forged' WHERE id = 'ready'",
        "ready",
        "ready differs from its history in: title",
        RESTORE,
    ),
    "a gap in a history": ("DELETE FROM events WHERE item = 'done' AND number = 2", "done", "has a gap", RESTORE),
    "an end that is missing": ("DELETE FROM events WHERE item = 'done' AND number = 4", "done", "has a gap", RESTORE),
    "a row behind its history": ("UPDATE items SET revision = 3 WHERE id = 'done'", "done", "has a gap", RESTORE),
    "a history without its item": ("DELETE FROM items WHERE id = 'done'", "done", "but no such item", RESTORE),
    "a claim of what is not in progress": (
        "UPDATE items SET status = 'ready' WHERE id = 'src'",
        "src",
        "src is ready, and session s1 has a claim of it",
        RESTORE,
    ),
    "in progress without a claim": (
        "DELETE FROM claims WHERE item = 'src'",
        "src",
        "src is in_progress, and has no claim",
        RESTORE,
    ),
    "a claim whose item is gone": ("DELETE FROM items WHERE id = 'src'", "src", "which does not exist", RESTORE),
    "a claim whose run has ended": (
        "UPDATE runs SET outcome = 'done', ended_at = 1 WHERE item = 'src'",
        "src",
        "does not match its run and its row",
        RESTORE,
    ),
    "a claim of another session than its run's": (
        "UPDATE claims SET session = 's2' WHERE item = 'src'",
        "src",
        "does not match its run and its row",
        RESTORE,
    ),
    "a claim beyond its deadline": (
        "UPDATE claims SET expires_at = deadline_at + 1 WHERE item = 'src'",
        "src",
        "beyond its deadline",
        RESTORE,
    ),
    "a run that never ended": (
        "UPDATE runs SET outcome = NULL, ended_at = NULL WHERE item = 'done'",
        "done",
        "done has no claim, and its run under token 1 never ended",
        RESTORE,
    ),
    "a run that is missing": (
        "DELETE FROM runs WHERE item = 'done'",
        "done",
        "has 1 claims, and the item has 0 runs",
        RESTORE,
    ),
    "a token nobody was given": (
        "UPDATE items SET token = 9 WHERE id = 'ready'",
        "ready",
        "the latest token of ready is 0 by its history, 9 by its row",
        RESTORE,
    ),
    "a holder whose session ended": (
        "UPDATE sessions SET ended_at = 1 WHERE id = 's2'",
        "lib",
        "session s2 holds lib, and is not a live session",
        "dibs force-release lib",
    ),
    "a holder whose session is gone": (
        "DELETE FROM sessions WHERE id = 's2'",
        "lib",
        "session s2 holds lib, and is not a live session",
        "dibs force-release lib",
    ),
    "a child whose parent ended": (
        "UPDATE sessions SET parent = 's9' WHERE id = 's3'",
        None,
        "session s3 is live, and its parent session s9 has ended",
        "dibs session end s3",
    ),
    "a claim that lapsed": (
        "UPDATE claims SET expires_at = 1 WHERE item = 'src'",
        "src",
        "its claim has expired",
        "dibs sweep",
    ),
    "a queue for what is over": (
        WAIT_FOR_DONE,
        "done",
        "done is done, and session s2 still waits for it",
        "dibs leave done --session s2",
    ),
    "an offer of what is not ready": (
        "UPDATE items SET offered_to = 's3', offer_expires_at = 9999999999999 WHERE id = 'scheduled'",
        "scheduled",
        "scheduled is scheduled, and offered to s3",
        RESTORE,
    ),
    "an offer to nobody who waits": (
        "UPDATE items SET offered_to = 's2', offer_expires_at = 9999999999999 WHERE id = 'ready'",
        "ready",
        "ready is offered to session s2, which does not wait for it",
        "dibs sweep",
    ),
    "an offer that lapsed": (
        "UPDATE items SET offered_to = 's2', offer_expires_at = 1 WHERE id = 'ready'",
        "ready",
        "which did not accept it in time",
        "dibs sweep",
    ),
    "blocked by nothing": (
        "UPDATE items SET status = 'blocked' WHERE id = 'ready'",
        "ready",
        "ready is blocked, and should be ready",
        "dibs park ready, then dibs unpark ready",
    ),
    "ready too early": (
        "UPDATE items SET status = 'ready' WHERE id = 'blocked'",
        "blocked",
        "blocked is ready, and should be blocked: ready is not done",
        "dibs park blocked, then dibs unpark blocked",
    ),
    "a time that has come": (
        "UPDATE items SET not_before = 1 WHERE id = 'scheduled'",
        "scheduled",
        "is scheduled, and is due",
        "dibs sweep",
    ),
    "a circle": (
        "UPDATE items SET depends_on = '[\"blocked\"]' WHERE id = 'ready';"
        "INSERT INTO dependencies (item, needs) VALUES ('ready', 'blocked')",
        "blocked",
        "blocked, ready depend on each other in a cycle",
        "dibs edit blocked --no-needs",
    ),
    "a need that got lost": (
        "DELETE FROM dependencies WHERE item = 'blocked'",
        "blocked",
        "the dependencies of blocked are recorded differently in two places: ready",
        RESTORE,
    ),
    "a need that nobody named": (
        "INSERT INTO dependencies (item, needs) VALUES ('ready', 'src')",
        "ready",
        "the dependencies of ready are recorded differently in two places: src",
        RESTORE,
    ),
    "one resource in two hands": (
        "UPDATE items SET resources = '[\"src/x\"]' WHERE id = 'lib'",
        "src",
        "src and lib both touch src/x",
        "dibs force-release src",
    ),
    "a reason that is too long": (
        "UPDATE runs SET reason = hex(zeroblob(500001)) WHERE item = 'done'",
        "done",
        "a record (run) is not valid, and no restore would take it: reason has 1000002 bytes",
        "dibs restore FILE",
    ),
    "a name that is none": (
        "UPDATE soft_claims SET session = 'a b'",
        "ready",
        "a record (soft_claim) is not valid",
        "dibs restore FILE",
    ),
    "a session without its agent": (
        "INSERT INTO sessions (id, agent, kind, host, meta, started_at, seen_at, ended_at)"
        " VALUES ('s9', 'nobody', 'cli', '', '{}', 1, 1, 1)",
        None,
        "the session s9 is of agent nobody, which does not exist",
        "dibs restore FILE",
    ),
    "a line of the log that is none": (
        "INSERT INTO activity (at, item, session, agent, action, code, details)"
        " VALUES (1, 'my item', 's', 'coder', 'claim_failed', 'CODE', '{}')",
        None,
        "a record (activity) is not valid",
        "dibs backup FILE, then dibs restore FILE",
    ),
    "a token above the floor": (
        "UPDATE events SET token = 5 WHERE item = 'ready' AND kind = 'added'",
        "ready",
        "above the floor 0",
        "dibs backup FILE, then dibs restore FILE",
    ),
    "a soft claim of nobody": (
        "UPDATE soft_claims SET session = 'gone'",
        "ready",
        "session gone has a soft claim of ready",
        "lapses by itself",
    ),
}


@pytest.mark.parametrize(("statement", "item", "what", "advice"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_found_with_what_to_do(
    damaged: Callable[..., Dibs], statement: str, item: str | None, what: str, advice: str
) -> None:
    found = findings(damaged(statement))
    assert [one for one in found if one["item"] == item and what in one["what"] and advice in one["advice"]], found
    assert all(one["advice"] for one in found)


@pytest.mark.parametrize(
    ("statement", "commands"),
    [
        ("UPDATE claims SET expires_at = 1 WHERE item = 'src'", ["sweep"]),
        ("UPDATE sessions SET ended_at = 1 WHERE id = 's2'", ["force-release lib --reason gone"]),
        ("PRAGMA journal_mode = DELETE", ["init"]),
        (
            WAIT_FOR_DONE,
            ["leave done --session s2"],
        ),
    ],
)
def test_what_is_said_to_help_helps(damaged: Callable[..., Dibs], statement: str, commands: list[str]) -> None:
    board = damaged(statement)
    assert len(findings(board)) == 1
    for command in commands:
        board.ok(*command.split())
    assert findings(board) == []


def test_a_floor_that_fell_is_lifted_by_a_restore(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "a")
    dibs.ok("claim", "a")
    dibs.ok("done", "a")
    dibs.ok("prune", "--older-than", "0s", "--yes")
    dibs.ok("add", "t", "--id", "b")
    database = apsw.Connection(str(dibs.folder / ".dibs" / "board.db"))
    database.execute("UPDATE meta SET value = 0 WHERE name = 'token_floor'").fetchall()
    database.close()
    (finding,) = findings(dibs)
    assert "above the floor 0" in finding["what"]
    dibs.ok("backup", "b.db")
    dibs.ok("restore", "b.db", "--yes")
    assert findings(dibs) == []


def test_a_restore_leaves_out_what_is_no_line_of_the_log(damaged: Callable[..., Dibs]) -> None:
    """As doctor says: nothing depends on that log."""
    columns = "at, session, agent, action, code, details, item"
    line = f"INSERT INTO activity ({columns}) SELECT 1, 's', 'a', 'claim_failed', 'CODE', '{{}}', "
    dibs = damaged(f"{line} 'my item'", f"{line} 'src'")
    assert len(findings(dibs)) == 1
    dibs.ok("backup", "b.db")
    dibs.ok("restore", "b.db", "--yes")
    assert findings(dibs) == []
    records = [json.loads(line) for line in dibs.ok("export").splitlines()]
    assert [one["value"]["item"] for one in records if one["record"] == "activity"] == ["src"]


def test_what_was_pruned_and_added_again_blocks_nobody(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "a")
    dibs.ok("add", "t", "--id", "b", "--needs", "a", "--not-before", "2099-01-01")
    dibs.ok("claim", "a")
    dibs.ok("done", "a")
    dibs.ok("prune", "--older-than", "0s", "--yes")
    dibs.ok("add", "t", "--id", "a")
    assert dibs.json("show", "b")["item"]["status"] == "scheduled"
    assert findings(dibs) == []


def test_two_claims_of_one_item_are_found(template: Dibs) -> None:
    """A store's own keys make that hard to seed, so it is told to doctor as an export."""
    with connect(str(template.folder / ".dibs" / "board.db")) as board:
        records = list(board.store.histories())
    claim = next(value for kind, value in records if kind == "claim" and value.item == "lib")
    at = records.index(("claim", claim))
    forged = [*records[: at + 1], ("claim", claim.replace(session="s1", agent="coder")), *records[at + 1 :]]
    assert "lib has two claims: s2, s1" in [finding.what for finding in Examination(0).of(forged)]


def test_a_damaged_file_comes_first(damaged: Callable[..., Dibs], tmp_path: Path) -> None:
    dibs = damaged("PRAGMA wal_checkpoint(TRUNCATE)")
    path = dibs.folder / ".dibs" / "board.db"
    database = apsw.Connection(str(path))
    page: Any
    ((page,),) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'claims_agent'").fetchall()
    database.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xff" * PAGE_BYTES)
    found = findings(dibs)
    assert "damaged" in found[0]["what"]
    assert RESTORE in found[0]["advice"]
    said = dibs("doctor")
    assert (said.returncode, said.stderr) == (1, "")
    assert "  what to do: keep a copy" in said.stdout


def test_it_is_silent_on_a_board_in_full_use(dibs: Dibs, busy: Callable[[], None]) -> None:
    before = dibs.json("events", "--limit", "1")["events"][0]["id"]
    for _ in range(5):
        assert findings(dibs) == []
    assert dibs.json("events", "--limit", "1")["events"][0]["id"] > before + 20
    busy()
    assert dibs.ok("doctor") == "✓ the board is sound\n"


def test_ended_items_fill_no_memory(tmp_path: Path) -> None:
    with connect(str(tmp_path / "board.db"), create=True) as board:
        me = board.start_session("coder").id
        peaks = []
        for count in (200, 2000):
            items = [{"title": "t", "id": f"{count}-{n}", "body": "text " * 200} for n in range(count)]
            for start in range(0, count, 1000):
                board.add_many(items[start : start + 1000])
            while grants := board.next(session=me, n=100):
                board.done_many({grant.item.id: grant.claim.token for grant in grants}, session=me)
            tracemalloc.start()
            assert list(examine(board)) == []
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0], peaks
