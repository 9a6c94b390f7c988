"""What is learned of a run later stands in its file, survives a lost index, and comes to the other clones."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import DibsError, Invalid
from dibs.store.vault import plan
from dibs.store.vault.index import vault_transaction
from dibs.store.vault.safe_fs import ROOM_BYTES
from dibs.store.vault.store import VaultStore
from dibs.testing.conformance.asking import refused
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import forget_index, put
from tests.vault.test_git_store import Pair

CI = {"ci": {"state": "passed"}}


def finished(board: Board, item: str) -> None:
    session = board.start_session("cloud").id
    board.claim(item, session=session)
    board.submit(item, session=session, draft="a draft\n**Annotated By**: x 2026-01-01T00:00:00.000Z: {}")


def test_an_annotation_is_in_the_file_and_a_new_index_knows_it(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n\nTo Bob.\n")
    finished(board, "mail")
    board.annotate("mail", links={"pr": "https://example.org/7"}, checks=CI, actor="ann")
    board.annotate("mail", checks={"ci": "failed"}, actor="ann")
    board.approve("mail", done=True, actor="ann")
    text = (root / "Done/mail.md").read_text()
    assert text.count("\n**Annotated By**: ann ") == 1
    known = board.get("mail").runs
    assert (known[0].links, known[0].checks) == ({"pr": "https://example.org/7"}, {"ci": {"state": "failed"}})
    assert_sound(board)
    forget_index(root)
    again = harness.board()
    assert again.get("mail").runs == known
    assert (root / "Done/mail.md").read_text() == text
    assert_sound(again)


def test_what_a_holder_annotates_outlives_an_index_and_yields_to_the_end(
    harness: Harness, board: Board, root: Path
) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    session = board.start_session("cloud").id
    board.claim("mail", session=session)
    board.annotate("mail", links={"branch": "a", "base": "main"}, session=session)
    board.progress("mail", "half way", session=session)
    file = root / "In_Progress/cloud/mail.md"
    by_a_person = '\n**Annotated By**: eve 2026-01-01T00:00:00.000Z: {"run": 1, "links": {"base": "evil"}}\n'
    file.write_text(file.read_text() + by_a_person)
    held = board.get("mail").runs
    assert held[0].links == {"branch": "a", "base": "main"}
    forget_index(root)
    again = harness.board()
    assert again.get("mail").runs == held
    again.done("mail", session=session, token=1, links={"branch": "b"})
    done = again.get("mail").runs
    assert done[0].links == {"branch": "b", "base": "main"}
    text = (root / "Done/mail.md").read_text().replace(by_a_person, "")
    (root / "Done/mail.md").write_text(text)
    assert '"branch": "a"' not in text
    forget_index(root)
    third = harness.board()
    assert third.get("mail").runs == done
    assert_sound(third)


def test_what_two_clones_say_of_one_run_both_of_them_know(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.a.claim("x", session=pair.alice)
    pair.a.done("x", session=pair.alice)
    pair.b.sync()
    pair.a.annotate("x", links={"pr": "https://example.org/7"})
    pair.b.annotate("x", checks=CI, actor="bob")
    pair.a.sync()
    assert [event.actor for event in pair.a.log("x") if event.kind == "annotated"][1:] == ["bob"]
    for board in (pair.a, pair.b):
        run = board.get("x").runs[0]
        assert (run.links, run.checks, run.outcome) == ({"pr": "https://example.org/7"}, CI, "done")
        assert_sound(board)
    pair.a.annotate("x", checks={"ci": "failed"})
    for board in (pair.b, pair.a):
        board.sync()
        assert board.get("x").runs[0].checks == {"ci": {"state": "failed"}}
        assert [event.kind for event in board.log("x")].count("annotated") == 3
    assert pair.sound()


def test_a_file_that_says_too_much_or_nonsense_of_a_run_harms_nothing(board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    finished(board, "mail")
    file = root / "Pending_Approval/mail.md"
    line = "\n**Annotated By**: ann 2026-01-01T00:00:00.000Z: "
    large = "".join(f'{line}{{"run": 1, "links": {{"{name}": "{"x" * 600_000}"}}}}' for name in "ab")
    checks = ('"passed"', '{"two\\nlines": "passed"}', '{"ci": {"state": "passed", "more": 1}}')
    wrong = [f'{{"run": 1, "checks": {told}}}' for told in checks]
    told = ('{"run": "1"}', "[]", '{"run": 1, "links": 5}', '{"run": 7}', '{"run": true, "links": {"a": 1}}', *wrong)
    nonsense = [line + one for one in told]
    file.write_text(file.read_text() + large + "".join(nonsense) + "\n")
    run = board.get("mail").runs[0]
    assert ([*run.links], run.checks) == (["a"], {})
    assert board.approve("mail", actor="ann").status == "ready"
    assert_sound(board)


def test_a_late_save_of_an_older_text_takes_back_no_annotation(board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    finished(board, "mail")
    board.annotate("mail", checks={"ci": "pending"}, actor="ann")
    file = root / "Pending_Approval/mail.md"
    older = file.read_text()
    board.annotate("mail", checks={"ci": "passed"}, links={"pr": "7"}, actor="ann")
    newer = file.read_text()
    file.write_text(older.replace("# Mail", "# Letter"))
    run = board.get("mail").runs[0]
    assert (run.checks, run.links) == ({"ci": {"state": "passed"}}, {"pr": "7"})
    assert file.read_text() == newer.replace("# Mail", "# Letter")
    assert [event.kind for event in board.log("mail")].count("annotated") == 2
    assert_sound(board)


def test_what_was_annotated_before_an_approval_comes_to_a_clone_that_learns_of_both_at_once(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.a.claim("x", session=pair.alice)
    pair.a.submit("x", session=pair.alice, draft="a draft")
    pair.b.sync()
    pair.a.annotate("x", checks=CI, actor="ann")
    pair.a.approve("x", actor="boss")
    pair.a.sync()
    pair.b.sync()
    approval = pair.b.claim("x", session=pair.bob).approval
    assert approval is not None
    assert approval.run is not None
    assert approval.run.checks == CI


def test_a_line_in_the_file_changes_nothing_that_was_approved(harness: Harness, board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    finished(board, "mail")
    board.approve("mail", actor="boss")
    file = root / "Needs_Action/mail.md"
    file.write_text(
        file.read_text() + '\n**Annotated By**: x 2026-01-01T00:00:00.000Z: {"run": 1, "links": {"a": 1}}\n'
    )
    before = board.get("mail").item.revision
    approval = board.claim("mail", session=board.start_session("local").id).approval
    assert approval is not None
    assert approval.run is not None
    assert (approval.run.links, board.get("mail").item.revision) == ({}, before + 1)
    assert_sound(board)


def test_annotations_of_a_run_are_one_line_and_leave_room_for_the_next_run(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 150_000
    monkeypatch.setattr(plan, "FILE_BYTES_MAX", room + ROOM_BYTES)
    put(root, "Needs_Action/mail.md", "# Mail\n")
    session = board.start_session("cloud").id
    board.claim("mail", session=session)
    board.release("mail", session=session)
    file = root / "Needs_Action/mail.md"
    for number in range(4):
        board.annotate("mail", links={"log": f"{number}" + "x" * 60_000})
    assert file.stat().st_size < room
    board.annotate("mail", links={"log-1": "x" * 60_000})
    before = file.read_bytes()
    full = refused(Invalid, board.annotate, "mail", links={"log-2": "x" * 60_000})
    assert (full.facts["field"], full.facts["bytes_max"]) == ("links", room)
    assert file.read_bytes() == before
    assert board.get("mail").runs[0].links.keys() == {"log", "log-1"}
    board.claim("mail", session=session)
    assert board.progress("mail", session=session, note="x" * 60_000)


def test_an_annotated_run_by_a_move_gets_a_block_and_outlives_the_index(
    harness: Harness, board: Board, root: Path
) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    board.list()
    (root / "In_Progress/cloud").mkdir(parents=True, exist_ok=True)
    held = (root / "Needs_Action/mail.md").rename(root / "In_Progress/cloud/mail.md")
    board.list()
    held.write_text(held.read_text() + "\n# Claimed Task: mail\n\n**Claimed By**: cloud\n\n## Progress\n")
    held.rename(root / "Done/mail.md")
    assert board.get("mail").item.status == "done"
    assert "**Token**" not in (root / "Done/mail.md").read_text()
    board.annotate("mail", checks=CI, actor="ann")
    known = board.get("mail").runs
    assert known[0].checks == CI
    forget_index(root)
    again = harness.board().get("mail").runs
    assert [(run.token, run.outcome, run.agent, run.checks) for run in again] == [(1, "done", "cloud", CI)]
    assert_sound(harness.board())


def test_an_annotation_without_room_refuses_no_other_write_of_its_group(
    board: Board, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    put(root, "Needs_Action/held.md", "# Held\n")
    put(root, "Needs_Action/free.md", "# Free\n")
    finished(board, "mail")
    one, other = (board.start_session(agent).id for agent in ("cloud", "local"))
    board.claim("held", session=one)
    monkeypatch.setattr(plan, "FILE_BYTES_MAX", 10_000 + ROOM_BYTES)
    store = board.store
    assert isinstance(store, VaultStore)
    may_go_on, found = threading.Event(), {}

    def call(name: str, verb: Any, *given: Any, **named: Any) -> threading.Thread:
        def run() -> None:
            try:
                found[name] = verb(*given, **named)
            except DibsError as error:
                found[name] = error.code

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [call("busy", store.engine.call, lambda: may_go_on.wait(30))]
    while store.engine.queue.others:
        time.sleep(0.001)
    threads.append(call("annotate", board.annotate, "mail", links={"log": "x" * 20_000}))
    threads.append(call("refused", board.claim, "held", session=other))
    threads.append(call("claim", board.claim, "free", session=other))
    while len(store.engine.queue.writes) < 3:
        time.sleep(0.001)
    may_go_on.set()
    for thread in threads:
        thread.join()
    assert (found["annotate"], found["refused"]) == ("INVALID", "TASK_ALREADY_CLAIMED")
    assert found["claim"].claim == board.get("free").claim
    assert board.get("mail").runs[0].links == {}
    assert_sound(board)


def test_an_annotation_of_a_run_that_is_void_is_not_written(board: Board, root: Path) -> None:
    put(root, "Needs_Action/mail.md", "# Mail\n")
    finished(board, "mail")
    board.annotate("mail", checks=CI, actor="ann")
    store = board.store
    assert isinstance(store, VaultStore)
    store.write(lambda t: vault_transaction(t).query("forget_runs_from", item="mail", token=1))
    file = root / "Pending_Approval/mail.md"
    file.write_text(file.read_text().partition("<!-- dibs: runs -->")[0])
    assert board.edit("mail", title="Letter").title == "Letter"
    assert "Annotated" not in file.read_text()
