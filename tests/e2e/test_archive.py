"""Whole boards: prune and its floors, backup under load and restore, export and import without loss."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Dibs, exported
from tests.e2e.terminal import Terminal

STRIDE = 1_000_000


def test_an_export_gives_the_same_board_again(worked: Dibs) -> None:
    text = exported(worked)
    records = [json.loads(line) for line in text.splitlines()]
    assert {tuple(record) for record in records} == {("record", "value")}
    kinds = {record["record"] for record in records}
    assert kinds >= {"board", "agent", "session", "item", "claim", "soft_claim", "ticket", "run", "event", "activity"}
    assert text.isascii()
    assert worked.json("export", "board.jsonl")["exported"] == len(records)
    assert (worked.folder / "board.jsonl").read_text() == text
    new = str(worked.folder / "new.db")
    worked.ok("init", "--store", new)
    assert worked.json("import", "board.jsonl", "--store", new) == {"imported": len(records)}
    assert exported(worked, new) == text
    for words in (("list", "--all"), ("show", "b"), ("log", "a"), ("agent", "list"), ("sessions",)):
        assert worked.json(*words, "--store", new) == worked.json(*words)
    assert worked.json("doctor", "--store", new)["sound"]
    assert worked.json("done", "b", "--token", "1", "--store", new)["run"]["token"] == 1
    # Asked again under its request id, it is answered and not done again, there as here.
    assert worked.json("claim", "a", "--request-id", "r1", "--store", new)["claim"]["token"] == 1


def test_a_pipe_carries_a_board(worked: Dibs) -> None:
    worked.ok("init", "--store", "new.db")
    done = worked.shell("dibs export | dibs import - --store new.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(worked, "new.db") == exported(worked)


def test_an_export_does_not_overwrite_and_an_import_wants_an_empty_board(worked: Dibs) -> None:
    worked.ok("export", "board.jsonl")
    before = (worked.folder / "board.jsonl").read_text()
    assert worked.refused("export", "board.jsonl")[1]["field"] == "file"
    assert worked.refused("import", "board.jsonl")[1]["field"] == "store"
    assert worked.refused("import", "nowhere.jsonl")[1]["field"] == "file"
    assert (worked.folder / "board.jsonl").read_text() == before
    assert exported(worked) == before


BAD_RECORDS = {
    "no JSON": b"{nope",
    "no object": b"[1]",
    "no record": b'{"value": {}}',
    "no value": b'{"record": "item", "value": 5}',
    "an unknown kind": b'{"record": "nonsense", "value": {}}',
    "an item that is not whole": b'{"record": "item", "value": {"id": "q"}}',
    "a board that is not whole": b'{"record": "board", "value": {"format": 1}}',
    "another format": b'{"record": "board", "value": {"format": 99}}',
    "no UTF-8": b'{"record": "caf\xe9", "value": {}}',
}


@pytest.mark.parametrize("bad", BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_a_bad_line_is_named_and_nothing_is_kept(worked: Dibs, bad: bytes) -> None:
    lines = exported(worked).encode().splitlines()
    worked.ok("init", "--store", "new.db")
    done = worked("import", "-", "--store", "new.db", "--json", input=b"\n".join([*lines[:9], bad, *lines[9:]]) + b"\n")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["line"]) == (1, "INVALID", 10)
    assert error["message"].startswith("line 10: ")
    assert error["message"].endswith("; nothing was imported")
    assert worked.json("list", "--all", "--store", "new.db") == {"items": []}
    worked.ok("import", "-", "--store", "new.db", input=b"\n".join(lines))


def test_an_invalid_line_of_the_log_is_left_out_of_every_format(worked: Dibs) -> None:
    value = {"id": 99, "at": 1, "item": "a", "session": "s", "agent": "no name", "action": "claim", "code": "X"}
    record = json.dumps({"record": "activity", "value": {**value, "details": {}}})
    (worked.folder / "bad.jsonl").write_text(exported(worked) + record + "\n")
    worked.ok("backup", "bad.db")
    connection = sqlite3.connect(worked.folder / "bad.db")
    connection.execute("INSERT INTO activity VALUES (:id, :at, :item, :session, :agent, :action, :code, '{}')", value)
    connection.commit()
    connection.close()
    for file in ("bad.jsonl", "bad.db"):
        for verb in (("restore", file, "--yes"), ("import", file)):
            new = f"{verb[0]}-{file}.db"
            worked.ok("init", "--store", new)
            worked.ok(*verb, "--store", new)
            assert worked.json("list", "--all", "--store", new)["items"], verb
            assert worked.json("doctor", "--store", new)["sound"], verb


def test_a_long_export_shows_its_progress_on_a_terminal(dibs: Dibs) -> None:
    dibs.ok("add", "--file", "-", input='{"title": "t"}\n' * 500)
    said = dibs.terminal("dibs export out.jsonl && dibs init --store new.db && dibs import out.jsonl --store new.db")
    assert re.search(r"exported 1,000 of about 1,\d\d\d records, \d\d%", said)
    assert re.search(r"imported [\d,]+ of [\d,]+ bytes, \d\d%", said)
    assert re.search(r"imported\S* 1501 records", said)


def test_prune_forgets_what_ended_and_raises_the_floors(dibs: Dibs) -> None:
    for id in ("old", "failed", "needs-it", "open"):
        dibs.ok("add", "t", "--id", id, *(("--needs", "failed") if id == "needs-it" else ()))
    for id, end in (("old", "release"), ("old", "done"), ("failed", "fail")):
        dibs.ok("claim", id)
        dibs.ok(end, id)
    latest = dibs.json("events", "--limit", "1")["events"][0]["id"]
    assert dibs("prune", "--older-than", "30d", "--yes").stdout.startswith("deleted 0 items")
    pruned = dibs.json("prune", "--older-than", "0s", "--yes")
    assert (pruned["items"], pruned["token_floor"]) == (1, 2)
    assert pruned["event_floor"] < latest
    assert dibs.refused("show", "old")[0] == 5
    # What something still waits for stays, however long it has been over.
    assert {item["id"] for item in dibs.json("list", "--all")["items"]} == {"failed", "needs-it", "open"}
    code, error = dibs.refused("events", "--after", "0")
    assert (code, error["event_floor"]) == (1, pruned["event_floor"])
    assert len(dibs.json("events")["events"]) > 0
    dibs.ok("add", "t", "--id", "old")
    assert dibs.json("claim", "old")["claim"]["token"] == 3
    assert dibs.json("doctor")["sound"]


@pytest.mark.parametrize("words", [("prune", "--older-than", "0s"), ("restore", "b.db")], ids=" ".join)
def test_what_cannot_be_taken_back_needs_a_yes(dibs: Dibs, words: tuple[str, ...]) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("cancel", "x")
    dibs.ok("backup", "b.db")
    dibs.ok("add", "t", "--id", "y")
    before = exported(dibs)
    code, error = dibs.refused(*words)
    assert (code, error["field"]) == (2, "yes")
    script = f"dibs {' '.join(words)}; echo left with $?"
    a_persons = dibs.environment | {"DIBS_AGENT": ""}
    with Terminal(script, dibs.folder, a_persons) as terminal:
        terminal.read_until("? [y/N] ")
        terminal.type("n\n")
        terminal.read_until("left with 1")
    assert exported(dibs) == before
    with Terminal(script, dibs.folder, a_persons) as terminal:
        terminal.read_until("? [y/N] ")
        terminal.type("y\n")
        terminal.read_until("left with 0")
    assert exported(dibs) != before


def test_a_backup_under_load_restores_to_a_sound_board_that_refuses_old_tokens(
    dibs: Dibs, other: Dibs, busy: Callable[[], None]
) -> None:
    dibs.ok("add", "t", "--id", "before", "--type", "ours")
    token = dibs.json("claim", "before")["claim"]["token"]
    backup = dibs.json("backup", "b.db")
    assert (backup["backup"], os.path.getsize(dibs.folder / "b.db")) == (str(dibs.folder / "b.db"), backup["bytes"])
    dibs.ok("add", "t", "--id", "after")
    busy()
    assert dibs.json("doctor") == {"sound": True, "findings": []}
    highest = max(item["token"] for item in dibs.json("list", "--all")["items"])
    restored = dibs.json("restore", "b.db", "--yes", "--actor", "alice")
    assert restored["items"] > 0
    assert dibs.json("doctor") == {"sound": True, "findings": []}
    assert dibs.refused("show", "after")[0] == 5
    for words in (("done", "before"), ("heartbeat", "before"), ("release", "before"), ("progress", "before", "n")):
        code, error = dibs.refused(*words, "--token", str(token))
        assert (code, error["code"]) == (4, "TASK_NOT_CLAIMED")
    shown = dibs.json("show", "before")
    assert (shown["claim"], shown["runs"][0]["outcome"]) == (None, "restored")
    assert "restored" in dibs.ok("log", "before").splitlines()[-2]
    assert other.json("claim", "before")["claim"]["token"] > highest + STRIDE
    assert dibs.json("add", "t", "--id", "new")["item"]["token"] >= highest + STRIDE


def test_restore_says_what_it_did(worked: Dibs) -> None:
    worked.ok("backup", "b.db")
    said = worked.ok("restore", "b.db", "--yes")
    assert f"restored from {worked.folder / 'b.db'}" in said
    assert "all earlier tokens are void" in said
    assert worked.json("doctor")["sound"]


def test_a_backup_does_not_overwrite(worked: Dibs) -> None:
    worked.ok("backup", "b.db")
    before = (worked.folder / "b.db").read_bytes()
    assert worked.refused("backup", "b.db")[1]["field"] == "path"
    assert (worked.folder / "b.db").read_bytes() == before
    assert worked.refused("restore", "nowhere.db", "--yes")[1]["field"] == "path"


def test_a_backup_is_a_board_of_its_own(worked: Dibs) -> None:
    worked.ok("backup", "b.db")
    assert exported(worked, "b.db") == exported(worked)
    shutil.rmtree(worked.folder / ".dibs")
    worked.ok("init")
    worked.ok("restore", "b.db", "--yes")
    assert {item["id"] for item in worked.json("list", "--all")["items"]} == {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize("words", [("backup", "nowhere/b.db"), ("restore", "text", "--yes")])
def test_a_file_that_cannot_be_is_told_in_one_line(worked: Dibs, words: tuple[str, ...]) -> None:
    (worked.folder / "text").write_text("this is no backup" * 1000)
    before = exported(worked)
    code, error = worked.refused(*words)
    assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
    assert exported(worked) == before


def test_events_go_on_above_the_floor_after_an_import(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("cancel", "x")
    floor = dibs.json("prune", "--older-than", "0s", "--yes")["event_floor"]
    dibs.ok("init", "--store", "new.db")
    dibs.ok("import", "-", "--store", "new.db", input=exported(dibs))
    dibs.ok("add", "t", "--id", "y", "--store", "new.db")
    assert dibs.json("events", "--store", "new.db")["events"][0]["id"] > floor


def test_a_nightly_backup_of_a_damaged_board_leaves_that_of_last_week(worked: Dibs) -> None:
    nightly = "dibs backup nightly.new && mv nightly.new nightly.db"
    assert worked.shell(nightly).returncode == 0
    good = (worked.folder / "nightly.db").read_bytes()
    with open(worked.folder / ".dibs/board.db", "r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\x5a" * 20 * 4096)
    done = worked.shell(nightly)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert (worked.folder / "nightly.db").read_bytes() == good
    assert [path.name for path in worked.folder.iterdir() if path.name.startswith("nightly")] == ["nightly.db"]
    worked.ok("init", "--store", "new.db")
    worked.ok("restore", "nightly.db", "--yes", "--store", "new.db")
