"""A command as a handler, with real processes on a real board: how its run ends, what is kept of it, what it is given,
and that nothing of it is left behind."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from urllib.parse import quote

import pytest

from dibs.board import Board, connect
from dibs.check import NOTE_BYTES_MAX, TEXT_BYTES_MAX
from dibs.errors import ClaimExpired, DibsError, Invalid
from dibs.model import Run
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import LiveSession
from dibs.system import token_file
from dibs.worker import guardian, output, process_group, redaction, verdict
from dibs.worker.command import Command
from dibs.worker.guardian import GRACE_SECONDS
from dibs.worker.handler_loop import CannotBegin
from dibs.worker.verdict import Verdict
from dibs.worker.worker import Worker
from tests.kit.processes import alive, left_after
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.sdk.workers import Heard, Ran

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "duration_ms": 2100,
    "duration_api_ms": 1900,
    "num_turns": 3,
    "result": "It was the cookie.",
    "session_id": "8d1c",
    "total_cost_usd": 0.0421,
    "usage": {"input_tokens": 120, "output_tokens": 45},
}


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    (tmp_path / "dibs.toml").write_text("[board]\nheartbeat_seconds = 0.2\n")
    board = connect(str(tmp_path / "board.db"), folder=str(tmp_path), create=True)
    yield board
    board.close()


@pytest.fixture
def session(board: Board) -> Iterator[LiveSession]:
    with board.session("coder") as session:
        yield session


class Bench:
    """Runs commands for items, each for one of its own."""

    def __init__(self, board: Board, session: LiveSession) -> None:
        self.board, self.session = board, session
        self._commands: list[Command] = []

    def claim(self, title: str = "t", **fields: Any) -> ClaimHandle:
        return self.session.claim(self.board.add(title, **fields).id)

    def command(self, *arguments: str, **options: Any) -> Command:
        self._commands.append(Command(arguments, **options))
        return self._commands[-1]

    def run(self, *arguments: str, claim: ClaimHandle | None = None, **options: Any) -> tuple[Verdict, Run]:
        claim = claim or self.claim()
        verdict = self.command(*arguments, **options).run(claim)
        return verdict, self.run_of(claim)

    def sh(self, script: str, **options: Any) -> tuple[Verdict, Run]:
        return self.run("sh", "-c", script, **options)

    def run_of(self, claim: ClaimHandle) -> Run:
        return self.board.runs(item=claim.item.id)[0]

    def close(self) -> None:
        for command in self._commands:
            command.close()


@pytest.fixture
def bench(board: Board, session: LiveSession) -> Iterator[Bench]:
    bench = Bench(board, session)
    yield bench
    bench.close()


def written(path: Path) -> list[int]:
    """The process ids in a file, one a line."""
    return [int(word) for word in path.read_text().split()] if path.exists() else []


class InThread:
    """A command that runs beside the test, and how that ended."""

    def __init__(self, command: Command, claim: ClaimHandle) -> None:
        self.verdict: Verdict | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(command, claim), daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self, command: Command, claim: ClaimHandle) -> None:
        try:
            self.verdict = command.run(claim)
        except BaseException as error:
            self.error = error


# How a run ends


def test_exit_0_is_done_with_what_it_said_as_the_note(bench: Bench) -> None:
    verdict, run = bench.sh("echo all; echo well >&2")
    assert (verdict.exit_code, run.outcome) == (0, "done")
    assert set((run.reason or "").split()) == {"all", "well"}


def test_exit_10_submits_the_draft(bench: Bench) -> None:
    claim = bench.claim()
    verdict, run = bench.sh('printf "Dear customer\\n" >"$DIBS_DRAFT_FILE"; echo checked; exit 10', claim=claim)
    assert (verdict.exit_code, run.outcome, run.reason) == (10, "submitted", "checked")
    assert bench.board.get(claim.item.id).item.status == "pending_approval"
    (event,) = [event for event in bench.board.events(item=claim.item.id) if event.kind == "submitted"]
    assert event.data["draft"] == "Dear customer\n"


@pytest.mark.parametrize(
    ("leaves", "complaint"),
    [
        (":", "is empty"),
        (': >"$DIBS_DRAFT_FILE"', "is empty"),
        ('printf " \\n" >"$DIBS_DRAFT_FILE"', "is empty"),
        ('mkdir "$DIBS_DRAFT_FILE"', "cannot be read"),
        ('mkfifo "$DIBS_DRAFT_FILE"', "not a regular file"),
        ('ln -s /etc/hostname "$DIBS_DRAFT_FILE"', "it is a link"),
        ('echo secret >"$DIBS_LINKS_FILE"; ln "$DIBS_LINKS_FILE" "$DIBS_DRAFT_FILE"', "a hard link"),
        (f'head -c {TEXT_BYTES_MAX + 1} /dev/zero | tr "\\0" x >"$DIBS_DRAFT_FILE"', "has more than"),
    ],
)
def test_exit_10_without_a_draft_is_a_failure_that_says_so(bench: Bench, leaves: str, complaint: str) -> None:
    verdict, run = bench.sh(f"{leaves}; exit 10")
    assert (verdict.exit_code, run.outcome) == (10, "failed")
    assert "DIBS_DRAFT_FILE" in (run.reason or "")
    assert complaint in (run.reason or "")


@pytest.mark.parametrize("name", ["DIBS_COST_FILE", "DIBS_LINKS_FILE"])
def test_a_link_that_a_command_leaves_is_not_followed(bench: Bench, name: str, tmp_path: Path) -> None:
    """The worker may be allowed to read what the command is not."""
    secret = tmp_path / "secret"
    secret.write_text('{"password": "hunter2"}')
    verdict, run = bench.sh(f'ln -s {secret} "${name}"')
    assert (verdict.exit_code, run.outcome) == (0, "done")
    assert (run.cost, run.links) == ({}, {})
    assert "it is a link" in (run.reason or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_draft_of_another_user_is_not_submitted(bench: Bench) -> None:
    verdict, run = bench.sh('echo theirs >"$DIBS_DRAFT_FILE"; chown 12666 "$DIBS_DRAFT_FILE"; exit 10')
    assert (verdict.exit_code, run.outcome) == (10, "failed")
    assert "belongs to uid 12666" in (run.reason or "")


def test_a_token_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("1\n")
    (tmp_path / "claim").symlink_to(precious)
    token_file.append(str(tmp_path / "claim"), 2)
    assert (precious.read_text(), token_file.read(str(tmp_path / "claim"))) == ("1\n", [])


def test_exit_75_releases_for_later(bench: Bench) -> None:
    claim = bench.claim()
    verdict, run = bench.sh("echo rate limited; exit 75", claim=claim)
    assert (verdict.exit_code, run.outcome, run.reason) == (75, "released", "rate limited")
    assert bench.board.get(claim.item.id).item.status == "ready"


def test_another_exit_is_a_failure_with_the_last_lines(bench: Bench) -> None:
    verdict, run = bench.sh("seq 1000; echo no such table >&2; exit 3")
    assert (verdict.exit_code, run.outcome) == (3, "failed")
    reason = run.reason or ""
    assert reason.startswith("exit code 3: ")
    assert reason.endswith("no such table")
    assert len(reason.splitlines()) <= output.LAST_LINES


def test_a_signal_is_a_failure_by_its_name(bench: Bench) -> None:
    verdict, run = bench.sh("kill -SEGV $$")
    assert (verdict.exit_code, run.outcome, run.reason) == (128 + signal.SIGSEGV, "failed", "ended by SIGSEGV")


@pytest.mark.parametrize("name", ["no-such-command", "./no-such-command", "/", "/etc/passwd"])
def test_a_command_that_is_not_there_is_no_failure_of_the_item(bench: Bench, name: str) -> None:
    command, claim = bench.command(name), bench.claim()
    assert not command.is_installed
    with pytest.raises(CannotBegin, match=f"there is no command '{name}' that can be run here"):
        command.run(claim)
    assert bench.run_of(claim).outcome is None
    claim.check()


def test_a_command_that_the_item_names_is_the_items_matter(bench: Bench) -> None:
    command, claim = bench.command("./{id}"), bench.claim()
    assert command.is_installed
    assert command.run(claim).exit_code == 127
    run = bench.run_of(claim)
    assert (run.outcome, run.reason) == ("failed", f"there is no command './{claim.item.id}' that can be run here")


@pytest.mark.parametrize(
    ("content", "why"), [("#!/no/such/interpreter\n", "not found"), ("\x7fELF and no more", "xec format error")]
)
def test_a_program_that_the_system_cannot_run_is_no_failure_of_the_item(
    bench: Bench, tmp_path: Path, content: str, why: str
) -> None:
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(0o755)
    command, claim = bench.command(str(script)), bench.claim()
    with pytest.raises(CannotBegin, match=f"'{script}' could not be started: .*{why}"):
        command.run(claim)
    assert bench.run_of(claim).outcome is None


def test_a_command_that_says_what_a_shell_says_has_begun(bench: Bench) -> None:
    verdict, run = bench.sh("echo 'dibs: 1: exec: x: not found' >&2; exit 127")
    assert (verdict.exit_code, run.outcome) == (127, "failed")


def no_room_for_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "away"))


def no_room_in_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def write(path: str, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dibs.worker.command._write", write)


def no_process(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def start(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", start)


def no_guardian(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Without one, no command begins: nobody would end it."""
    monkeypatch.setattr(sys, "executable", str(folder / "away"))


def no_thread(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def start(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("dibs.worker.command.Output", start)


@pytest.mark.parametrize("trouble", [no_room_for_files, no_room_in_files, no_process, no_guardian, no_thread])
def test_a_machine_in_trouble_costs_no_item_and_is_waited_for(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[pytest.MonkeyPatch, Path], None]
) -> None:
    began, files = tmp_path / "began", tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    board.add("t", id="x")
    command = Command(["sh", "-c", f"echo $$ >>{began}"])
    worker = Worker(board, "coder", tell=(heard := Heard()))
    worker.handles()(command)
    with monkeypatch.context() as patch:
        trouble(patch, tmp_path)
        ran = Ran(worker)
        heard.until("released", times=2)
    heard.until("done")
    ran.stop()
    command.close()
    item = board.get("x")
    assert (item.item.strikes, item.item.status) == (0, "done")
    assert {run.outcome for run in item.runs} == {"done", "released"}
    (said,) = heard.of("waiting")
    assert said.startswith("'sh' could not be started: ")
    assert item.runs[-1].reason == said, "the reason is told"
    # Without a thread to hear it, a command that has begun is ended: it may have come to its first word by then.
    assert len(written(began)) == 1 or trouble is no_thread
    assert not list(files.iterdir())


def test_once_ends_with_what_is_wrong_with_the_machine(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.add("t", id="x")
    command = Command(["true"])
    worker = Worker(board, "coder")
    worker.handles(max_claims=3)(command)
    no_process(monkeypatch, tmp_path)
    with pytest.raises(CannotBegin, match="could not be started: Resource temporarily unavailable"):
        Ran(worker, once=True).join()
    assert board.get("x").item.status == "ready"


@pytest.mark.parametrize("arguments", [[], ["a\0b"]])
def test_a_command_of_no_words_is_refused(arguments: list[str]) -> None:
    with pytest.raises(Invalid):
        Command(arguments)


# What it is given


def test_it_is_given_the_item_and_who_holds_it(bench: Bench, session: LiveSession, tmp_path: Path) -> None:
    claim = bench.claim("Fix — lögin", body="b", payload={"n": [1, 2.5]})
    into = tmp_path / "given"
    script = f'cat >{into}.stdin; cat "$DIBS_ITEM_FILE" >{into}.file; env >{into}.env'
    bench.sh(script, claim=claim, environment={"DIBS_STORE": "/the/board"})
    given = json.loads((tmp_path / "given.stdin").read_text())
    assert given == json.loads((tmp_path / "given.file").read_text())
    assert (given["id"], given["title"], given["payload"]) == (claim.item.id, "Fix — lögin", {"n": [1, 2.5]})
    told = dict(line.split("=", 1) for line in (tmp_path / "given.env").read_text().splitlines() if "=" in line)
    assert told["DIBS_ITEM"] == claim.item.id
    assert told["DIBS_CLAIM_TOKEN"] == str(claim.token)
    assert (told["DIBS_SESSION"], told["DIBS_AGENT"]) == (session.id, "coder")
    assert told["DIBS_STORE"] == "/the/board"
    assert os.path.isabs(told["DIBS_ITEM_FILE"])
    assert not os.path.exists(os.path.dirname(told["DIBS_ITEM_FILE"])), "the folder is gone when it is over"


def test_it_is_given_what_was_approved_and_where_the_last_one_stopped(bench: Bench, tmp_path: Path) -> None:
    draft = "Dear customer — naïve\r\n\nno end of line"
    id = bench.board.add("t", needs_approval=True).id
    bench.board.approve(id, actor="alice")
    script = (
        f"env | grep -c -E '^DIBS_(APPROVED|PREVIOUS)_FILE=' >{tmp_path}/count; "
        f'cat "$DIBS_APPROVED_FILE" >{tmp_path}/approved; cat "$DIBS_PREVIOUS_FILE" >{tmp_path}/previous'
    )
    first = bench.session.claim(id)
    first.progress("half of it")
    first.submit(draft)
    bench.board.approve(id, actor="alice", comment="send it")
    bench.sh(script, claim=bench.session.claim(id))
    assert (tmp_path / "count").read_text() == "2\n"
    assert (tmp_path / "approved").read_bytes() == draft.encode()
    previous = json.loads((tmp_path / "previous").read_text())
    assert (previous["run"]["draft"], [note["note"] for note in previous["notes"]]) == (draft, ["half of it"])


def test_what_there_is_not_is_not_told(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if this worker is itself what another one runs."""
    for name in ("DIBS_APPROVED_FILE", "DIBS_PREVIOUS_FILE"):
        monkeypatch.setenv(name, "/of/another/item")
    bench.sh(f"env >{tmp_path}/env")
    assert "/of/another/item" not in (tmp_path / "env").read_text()


def test_words_of_the_item_are_arguments_and_never_read_by_a_shell(bench: Bench, tmp_path: Path) -> None:
    title = "$(touch hacked); `id` {id} \"'*&|"
    claim = bench.claim(title)
    into = tmp_path / "arguments"
    print_all = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    words = ("{id}", "<{title}>", "{id}{id}", "{body}", "{{id}}", "", "--", "-x")
    bench.run(sys.executable, "-c", print_all, str(into), *words, claim=claim)
    id = claim.item.id
    assert json.loads(into.read_text()) == [id, f"<{title}>", id + id, "{body}", f"{{{id}}}", "", "--", "-x"]


def test_it_runs_where_it_was_called_in_a_session_of_its_own(bench: Bench, tmp_path: Path) -> None:
    script = "import os; print(os.getcwd(), os.getpid() == os.getsid(0) == os.getpgid(0))"
    _, run = bench.run(sys.executable, "-c", script)
    assert run.reason == f"{os.getcwd()} True"


def test_a_command_that_does_not_read_the_item_is_no_problem(bench: Bench) -> None:
    _, run = bench.run("true", claim=bench.claim(body="x" * 900_000))
    assert run.outcome == "done"


def test_what_a_command_left_in_the_folder_beside_its_files_is_not_touched(bench: Bench, tmp_path: Path) -> None:
    _, run = bench.sh('dir=$(dirname "$DIBS_ITEM_FILE"); mkdir "$dir/mine"; echo "$dir"')
    folder = run.reason or ""
    assert folder.startswith(tempfile.gettempdir())
    assert os.listdir(folder) == ["mine"]
    os.rmdir(os.path.join(folder, "mine"))
    os.rmdir(folder)


# What is kept of it


@pytest.mark.parametrize("before", ["", "a line of a log\\n"])
def test_the_cost_and_the_result_of_claude_are_picked_up(bench: Bench, tmp_path: Path, before: str) -> None:
    (tmp_path / "answer").write_text(json.dumps(CLAUDE))
    _, run = bench.sh(f"printf '{before}'; echo warning >&2; cat {tmp_path}/answer")
    assert run.reason == "It was the cookie."
    names = ("total_cost_usd", "usage", "duration_ms", "duration_api_ms", "num_turns", "session_id")
    assert run.cost == {name: CLAUDE[name] for name in names}


def test_the_cost_of_a_failure_counts_too(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps(CLAUDE))
    _, run = bench.sh(f"cat {tmp_path}/answer; exit 1")
    assert (run.outcome, run.reason) == ("failed", "exit code 1: It was the cookie.")
    assert run.cost["total_cost_usd"] == 0.0421


@pytest.mark.parametrize(
    "said",
    ['{"total_cost_usd": NaN}', "[1]", '{"other": 1}', "{", '{"a":' * 5000, "{}" * 3, '{"total_cost_usd": "\\u0000"}'],
)
def test_other_json_is_just_said(bench: Bench, tmp_path: Path, said: str) -> None:
    (tmp_path / "answer").write_text(said)
    _, run = bench.sh(f"cat {tmp_path}/answer")
    assert (run.outcome, run.cost) == ("done", {})


def test_cost_and_links_come_from_files(bench: Bench) -> None:
    _, run = bench.sh(
        """echo '{"usd": 2}' >"$DIBS_COST_FILE"; echo '{"pr": "https://example.org/7"}' >"$DIBS_LINKS_FILE"; echo ok"""
    )
    assert (run.reason, run.cost, run.links) == ("ok", {"usd": 2}, {"pr": "https://example.org/7"})


@pytest.mark.parametrize("said", ["no json", "[1]", '{"usd": NaN}', '{"a": "\\u0000"}'])
def test_a_bad_cost_file_does_not_cost_the_work(bench: Bench, said: str) -> None:
    _, run = bench.sh(f"echo '{said}' >\"$DIBS_COST_FILE\"; echo ok")
    assert (run.outcome, run.cost) == ("done", {})
    assert (run.reason or "").startswith("ok\ndibs: the cost file is not a JSON object")


def test_of_an_endless_stream_no_more_is_kept_than_is_told() -> None:
    kept = output.HeadAndTail(10, 0)
    for _ in range(100):
        kept.add(bytes(100_000))
    assert len(kept._tail) < 300_000


def test_a_folder_where_a_file_is_asked_for_is_told_and_leaves_nothing_open(bench: Bench, tmp_path: Path) -> None:
    _, run = bench.sh('mkdir "$DIBS_COST_FILE"; echo ok')
    assert "is a folder" in (run.reason or "")
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        assert verdict._read(str(tmp_path), 10) == (b"", "cannot be read: it is a folder")
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_output_that_is_no_text_is_kept_as_far_as_it_is(bench: Bench) -> None:
    shown: list[str] = []
    _, run = bench.sh(
        "printf 'a\\377\\000b\\033[31m\\n'; head -c 200000 /dev/urandom; echo; echo end",
        show=lambda claim, line: shown.append(line),
    )
    assert run.outcome == "done"
    assert (run.reason or "").startswith("a\ufffd\ufffdb\x1b[31m\n")
    assert (run.reason or "").endswith("end")
    assert len((run.reason or "").encode()) <= NOTE_BYTES_MAX
    assert shown[0].startswith("a\ufffd\ufffdb")
    assert shown[-1] == "end"


@pytest.mark.parametrize("separator", ["x", "\\n"])
def test_a_hundred_megabytes_take_no_memory_and_keep_head_and_tail(bench: Bench, separator: str) -> None:
    size, lines = 0, 0

    def show(claim: ClaimHandle, line: str) -> None:
        nonlocal size, lines
        size, lines = max(size, len(line)), lines + 1

    megabytes = 100 if separator == "x" else 10
    made = f"head -c {megabytes}000000 /dev/zero | tr '\\0' x"
    if separator != "x":
        made += " | fold -w 100"
    claim = bench.claim()
    command = bench.command("sh", "-c", f"echo first; {made}; echo; echo last", show=show)
    command.run(claim)
    reason = bench.run_of(claim).reason or ""
    assert reason.startswith("first\n")
    assert reason.endswith("last")
    assert f"{megabytes}"[:1] in reason
    assert "bytes left out" in reason
    assert len(reason) < output.HEAD_BYTES + output.TAIL_BYTES + 100
    assert size <= output.LINE_BYTES
    assert lines > 1000


def test_kept_keeps_what_fits_and_says_what_does_not() -> None:
    kept = output.HeadAndTail(4, 6)
    for data in (b"ab", b"cd", b"ef"):
        kept.add(data)
    assert (kept.text, kept.whole) == ("abcdef", None)
    kept.add(b"0123456789")
    assert kept.text == "abcd\n[... 6 bytes left out ...]\n456789"
    many = output.HeadAndTail()
    for _ in range(1000):
        many.add(b"x" * 1000)
    assert len(many._tail) <= 2 * output.TAIL_BYTES + output.CHUNK_BYTES


def test_no_secret_of_the_worker_gets_onto_the_board(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    key, password = "dibs_k1_a-long-random-secret", 'p"\u00e4ss word'
    monkeypatch.setenv("DIBS_KEY", key)
    options: dict[str, Any] = {
        "environment": {"DIBS_STORE": f"postgresql://u:{quote(password)}@h/db?sslpassword=other-one"}
    }
    shown: list[str] = []
    files = 'for f in "$DIBS_COST_FILE" "$DIBS_LINKS_FILE"; do echo "{\\"a\\": [\\"$DIBS_KEY\\"]}" >$f; done'
    script = f"{files}; printf %s $DIBS_KEY >$DIBS_DRAFT_FILE; env; echo $DIBS_KEY >&2; exit 10"
    _, run = bench.sh(script, show=lambda claim, line: shown.append(line), **options)
    result = json.dumps({"total_cost_usd": 1, "result": f"it is {password}!"})
    _, spoken = bench.run("echo", result, **options)
    _, failed = bench.sh("env | grep DIBS_; exit 1", **options)
    _, late = bench.sh("env | grep DIBS_; sleep 60", timeout_seconds=1, **options)
    kept = repr([run, spoken, failed, late, shown])
    for secret in (key, password, quote(password), "other-one"):
        assert secret not in kept
    assert (run.draft, run.cost, run.links) == ("***", {"a": ["***"]}, {"a": ["***"]})
    assert spoken.reason == "it is ***!"
    for text in (run.reason, failed.reason, late.reason, "\n".join(shown)):
        assert "DIBS_KEY=***" in (text or "")
        assert "postgresql://u:***@h/db?sslpassword=***" in (text or "")


def test_a_secret_is_found_wherever_its_pieces_end() -> None:
    """Also where one secret begins with another, or ends as it begins."""
    secrets = redaction.Redaction({"secret", "secret-and-more", "abcxabc", "abc1", ""})
    text = b"s secret secret-and-more secret-an abcxabcxabc :abc1@ abc1 :abc"
    for first in range(len(text)):
        for second in range(first, len(text)):
            stream = redaction.StreamRedaction(secrets)
            pieces = (text[:first], text[first:second], text[second:])
            assert b"".join(map(stream.add, pieces)) + stream.end() == secrets.data(text), pieces
    assert secrets.data(text) == b"s *** *** ***-an ***xabc *** abc1 :abc"


def test_lines_are_shown_as_they_come(bench: Bench, tmp_path: Path) -> None:
    """Each is seen before the command goes on."""
    go = tmp_path / "go"
    os.mkfifo(go)
    heard: list[str] = []

    def show(claim: ClaimHandle, line: str) -> None:
        heard.append(line)
        if line == "first":
            go.write_text("on\n")

    _, run = bench.sh(f"echo first; read x <{go}; printf 'no end of line'", show=show)
    assert heard == ["first", "no end of line"]
    assert run.outcome == "done"


def test_who_is_stuck_with_a_line_does_not_keep_the_run_from_its_end(bench: Bench) -> None:
    stuck = threading.Event()
    _, run = bench.sh("seq 100000", timeout_seconds=1, show=lambda claim, line: stuck.wait(10 * PATIENCE_SECONDS))
    assert run.outcome == "failed"
    assert (run.reason or "").startswith("timed out after 1s; its last output: ")
    stuck.set()


def test_who_cannot_show_a_line_does_not_stop_the_command(bench: Bench) -> None:
    def show(claim: ClaimHandle, line: str) -> None:
        raise ValueError("the terminal is gone")

    _, run = bench.sh("seq 100000; echo last", show=show)
    assert run.outcome == "done"
    assert (run.reason or "").endswith("last")


# How it is ended


def test_a_child_left_in_the_background_is_ended_with_the_command(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    _, run = bench.sh(f"sleep 600 & echo $! >{pids}; echo said")
    assert (run.outcome, run.reason) == ("done", "said")
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert not left_after(2, written(pids))


def test_a_process_that_left_the_group_and_keeps_the_output_open_is_not_waited_for(
    bench: Bench, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    leave = f"import os, time; os.setsid(); open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    began = time.monotonic()
    try:
        _, run = bench.sh(f'{sys.executable} -c "{leave}" & while ! [ -s {pids} ]; do :; done; echo said')
        assert (run.outcome, run.reason) == ("done", "said")
        assert time.monotonic() - began < 10
    finally:
        for pid in written(pids):
            os.kill(pid, signal.SIGKILL)


def stubborn(pids: Path) -> str:
    """A shell that ignores SIGTERM, with a child that does."""
    return f"trap '' TERM; (echo child; while :; do sleep 0.1; done) & echo $$ $! >{pids}; while :; do sleep 0.1; done"


def test_what_takes_too_long_is_ended_and_has_failed(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    verdict, run = bench.sh(f"echo $$ >{pids}; echo working; sleep 600", timeout_seconds=0.5)
    assert (verdict.exit_code, run.outcome) == (124, "failed")
    assert run.reason == "timed out after 0.5s; its last output: working"
    assert not alive(written(pids))


def test_the_items_own_time_counts_if_it_is_shorter(bench: Bench) -> None:
    _, run = bench.sh("sleep 600", claim=bench.claim(timeout_seconds=5), timeout_seconds=600)
    assert (run.outcome, run.reason) == ("failed", "timed out after 4s")


def test_who_ignores_sigterm_is_killed(bench: Bench, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    _, run = bench.sh(stubborn(pids), timeout_seconds=0.5)
    assert run.outcome == "failed"
    assert len(written(pids)) == 2
    assert not left_after(2, written(pids))
    assert process_group.GRACE_SECONDS <= time.monotonic() - began < PATIENCE_SECONDS


def test_a_claim_that_is_lost_ends_the_command_and_refuses_its_result(bench: Bench, tmp_path: Path) -> None:
    pids, claim = tmp_path / "pids", bench.claim()
    command = bench.command("sh", "-c", f"sleep 600 & echo $$ $! >{pids}; wait")
    running = InThread(command, claim)
    until(lambda: len(written(pids)) == 2)
    bench.board.force_release(claim.item.id, reason="too slow", actor="alice")
    running.join()
    assert isinstance(running.error, DibsError)
    assert running.error is claim.lost_by
    assert not left_after(2, written(pids))
    assert bench.run_of(claim).outcome == "force_released"
    with pytest.raises(DibsError):
        claim.done("late")
    assert bench.run_of(claim).outcome == "force_released"


def test_what_is_abandoned_is_ended_and_its_claim_left_to_who_did_that(bench: Bench, tmp_path: Path) -> None:
    pids, claim = tmp_path / "pids", bench.claim()
    command = bench.command("sh", "-c", stubborn(pids))
    running = InThread(command, claim)
    until(lambda: len(written(pids)) == 2)
    command.abandon(claim)
    assert not alive(written(pids))
    running.join()
    assert running.error is None
    assert bench.run_of(claim).outcome is None
    claim.release("so")


def test_what_is_abandoned_while_it_starts_is_ended_too(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its processes run before the command reads their output."""
    pids, claim = tmp_path / "pids", bench.claim()
    command = bench.command("sh", "-c", stubborn(pids))
    read_output, left = command._output, list[list[int]]()

    def abandon_first(*given: Any) -> Any:
        until(lambda: len(written(pids)) == 2)
        command.abandon(claim)
        left.append(alive(written(pids)))
        return read_output(*given)

    monkeypatch.setattr(command, "_output", abandon_first)
    command.run(claim)
    assert left == [[]]
    claim.release("so")


def test_what_is_abandoned_before_it_starts_is_not_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, command, started = bench.claim(), bench.command("true"), list[object]()
    exchange = command._exchange

    def abandon_first(*given: Any) -> Any:
        command.abandon(claim)
        return exchange(*given)

    def start(*given: Any) -> NoReturn:
        started.append(given)
        raise OSError("it was started")

    monkeypatch.setattr(command, "_exchange", abandon_first)
    monkeypatch.setattr("dibs.worker.command.ProcessGroup", start)
    command.run(claim)
    assert not started
    claim.release("so")


def test_a_worker_that_lets_go_ends_the_command_first(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all of them at once: a store that is away would else be waited for once for each."""
    count = 3
    together = threading.Barrier(count)
    pids = [tmp_path / f"x{number}" for number in range(count)]
    for file in pids:
        board.add("t", id=file.name)
    released, left = board.release, list[list[int]]()

    def release(item: str, **asked: Any) -> Any:
        left.append(alive(written(tmp_path / item)))
        together.wait(PATIENCE_SECONDS)
        return released(item, **asked)

    monkeypatch.setattr(board, "release", release)
    command = Command(["sh", "-c", f"trap '' TERM; echo $$ >>{tmp_path}/$DIBS_ITEM; while :; do sleep 0.1; done"])
    worker = Worker(board, "coder", drain_seconds=0, tell=(heard := Heard()))
    worker.handles(max_claims=count)(command)
    ran = Ran(worker)
    until(lambda: all(written(file) for file in pids))
    assert ran.stop() == {"released": count}
    command.close()
    assert left == [[]] * count
    assert len(heard.of("released")) == count


# The guardian

#: A worker that tells when its command runs, and then does nothing more.
WORKER = """
import sys, threading
from dibs.worker.process_group import Guard, ProcessGroup
guard = Guard()
group = ProcessGroup(["sh", "-c", sys.argv[1]], {"PATH": "/usr/bin:/bin"}, "/dev/null", guard)
print(group.process.pid, guard._process.pid, flush=True)
threading.Event().wait()
"""


def test_a_killed_worker_leaves_no_process_of_its_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, stubborn(pids)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert worker.stdout is not None
    told = [int(word) for word in worker.stdout.readline().split()]
    until(lambda: len(written(pids)) == 2)
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert not left_after(GRACE_SECONDS + 10, [*told, *written(pids)])


def test_a_command_whose_worker_was_killed_before_the_guardian_knew_does_not_begin(tmp_path: Path) -> None:
    """Its stub waits for a line that never comes."""
    reached = tmp_path / "reached"
    stub = subprocess.Popen(
        ["/bin/sh", "-c", process_group.STUB, "dibs", "/dev/null", "touch", str(reached)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert stub.stdin is not None
    stub.stdin.close()
    assert stub.wait(PATIENCE_SECONDS) != 0
    assert not reached.exists()


def test_a_guardian_that_was_killed_is_replaced_and_knows_what_the_last_one_knew(tmp_path: Path) -> None:
    guard = process_group.Guard()
    environment = dict(os.environ)
    first = process_group.ProcessGroup(["sleep", "600"], environment, "/dev/null", guard)
    try:
        assert guard._process is not None
        guard._process.kill()
        guard._process.wait()
        second = process_group.ProcessGroup(["sleep", "600"], environment, "/dev/null", guard)
        begun = [first.process.pid, second.process.pid]
        assert len(alive(begun)) == 2
    finally:
        guard.close()
    assert (first.wait(PATIENCE_SECONDS), second.wait(PATIENCE_SECONDS)) == (-signal.SIGTERM, -signal.SIGTERM)
    for one in (first, second):
        for pipe in (one.process.stdout, one.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize(
    "told", [b"+0\n", b"+1\n", b"+-1\n", b"+x\n", b"\n", b"+\n", b"+99999999999999999999\n", b"+12"]
)
def test_a_guardian_heeds_no_number_that_is_no_group(told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what it would end is looked at: one with this mistake, run by root, would end whatever there is."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(told)))
    assert guardian.listen() == set()


def test_a_guardian_heeds_what_it_was_told_and_not_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []
    monkeypatch.setattr(guardian, "os", SimpleNamespace(getpgid=lambda _: 30, write=lambda _, said: heard.append(said)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"+20\n+30\n+40\n-20\n-50\n")))
    assert guardian.listen() == {40}, "not itself either"
    assert heard == [b"known\n"] * 2


def test_a_guardian_removes_nothing_and_knows_no_path() -> None:
    text = Path(guardian.__file__).read_text()
    imported = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported == {"__future__", "os", "signal", "sys", "time"}
    used = {
        word for word in ("unlink", "remove", "rmdir", "rmtree", "shutil", "open(", "chdir", "exec") if word in text
    }
    assert not used


def test_it_is_the_claim_that_says_it_is_lost_not_the_command(bench: Bench) -> None:
    """An end that is refused is no done."""
    claim = bench.claim()
    bench.sh("exit 0", claim=claim)
    with pytest.raises(ClaimExpired):
        bench.sh("exit 0", claim=claim)
