"""`dibs work` and `dibs exec`: real commands, real signals, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect
from dibs.worker.verdict import TIMED_OUT
from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal
from tests.kit.processes import alive, left_after
from tests.kit.waiting import PATIENCE_SECONDS, until

Keep = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
#: How long the processes of a worker that was killed may go on.
LEFT_SECONDS = 10.0


@pytest.fixture
def quick_beats(settings: Callable[..., None]) -> None:
    """A worker that soon hears of it when its claim is taken away."""
    settings(heartbeat_seconds=0.3)


def pids(folder: Path) -> list[int]:
    """Those that commands wrote down."""
    path = folder / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def outcomes(dibs: Dibs, item: str) -> list[str]:
    """How the runs of an item ended, the newest first."""
    return [run["outcome"] for run in dibs.json("runs", "--item", item)["runs"]]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def add(dibs: Dibs, *ids: str, **fields: Any) -> None:
    lines = [json.dumps({"id": id, "title": f"Title of {id}", **fields}) for id in ids]
    dibs.ok("add", "--file", "-", input="\n".join(lines))


#: Says who it is, and goes on until it is ended.
ENDLESS = "echo $$ >>pids; sleep 600 & echo $! >>pids; echo begun; wait"


# work


def test_work_once_takes_all_there_is_and_stops(dibs: Dibs) -> None:
    add(dibs, "a", "b", "c")
    said = dibs.ok("work", "--agent", "coder", "--once", "--max", "2", "--", "echo", "did {id}: {title}")
    for id in ("a", "b", "c"):
        assert f"claimed {id}  Title of {id}\n" in said
        assert f"{id} | did {id}: Title of {id}\n" in said
        assert f"done {id}  after" in said
        assert outcomes(dibs, id) == ["done"]
    assert dibs.json("sessions")["sessions"] == [], "its session has ended"


def test_work_once_with_nothing_to_do_exits_3(dibs: Dibs) -> None:
    done = dibs("work", "--once", "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "dibs: nothing to claim right now\n"


def test_work_takes_only_what_it_is_for(dibs: Dibs) -> None:
    add(dibs, "bug", type="bug")
    add(dibs, "chore", type="chore")
    add(dibs, "elsewhere", type="bug", project="other")
    dibs.ok("work", "--once", "--type", "bug", "--project", "default", "--", "true")
    assert (outcomes(dibs, "bug"), outcomes(dibs, "chore"), outcomes(dibs, "elsewhere")) == (["done"], [], [])


def test_work_tells_everything_as_json(dibs: Dibs) -> None:
    add(dibs, "good", "bad")
    script = 'echo "on $1"; [ "$1" = good ]'
    told = events(dibs.ok("work", "--once", "--json", "--", "sh", "-c", script, "sh", "{id}"))
    for id, outcome in (("good", "done"), ("bad", "failed")):
        mine = [event for event in told if event["item"] == id]
        assert [event["event"] for event in mine] == ["claimed", "output", outcome]
        assert mine[1]["text"] == f"on {id}"
        assert {event["token"] for event in mine} == {1}


@pytest.mark.parametrize("words", [("work",), ("work", "--once"), ("exec", "a")])
def test_a_command_that_is_not_there_is_told_before_anything_is_claimed(dibs: Dibs, words: tuple[str, ...]) -> None:
    add(dibs, "a")
    done = dibs(*words, "--", "no-such-command")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("dibs: command not found: 'no-such-command'; name a program on the PATH, or give its path\n")
    assert dibs.json("runs")["runs"] == []
    assert dibs.json("sessions", "--all")["sessions"] == []


@pytest.mark.parametrize("words", [("work", "--once"), ("exec", "a")])
def test_a_command_that_cannot_be_started_costs_no_item(dibs: Dibs, words: tuple[str, ...]) -> None:
    add(dibs, "a")
    script = dibs.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = dibs(*words, "--", "./script")
    assert done.returncode == 75
    assert "dibs: './script' could not be started: " in done.stderr
    (run,) = dibs.json("runs", "--item", "a")["runs"]
    assert run["outcome"] == "released"
    assert run["reason"].startswith("'./script' could not be started: ")
    assert dibs.json("show", "a")["item"]["strikes"] == 0


def test_a_log_is_told_what_happens(dibs: Dibs) -> None:
    add(dibs, "a", "b")
    for _ in range(2):
        dibs("work", "--once", "--log", "agent.log", "--", "sh", "-c", "exit 1")
    lines = (dibs.folder / "agent.log").read_text().splitlines()
    assert sorted(line.split(" ", 1)[1] for line in lines) == [
        *("coder claimed a", "coder claimed b", "coder failed a exit code 1", "coder failed b exit code 1"),
    ]


def test_the_log_of_each_agent_is_a_file_of_its_own_in_a_folder(dibs: Dibs) -> None:
    """Claim by move: agent-NAME.log."""
    for agent, log in (("cloud", "var/logs/"), ("local", "var/logs")):
        dibs.ok("add", "t", "--id", f"of-{agent}")
        dibs.ok("work", "--once", "--agent", agent, "--log", log, "--", "true")
    for agent in ("cloud", "local"):
        lines = (dibs.folder / "var/logs" / f"agent-{agent}.log").read_text().splitlines()
        assert [line.split()[1:4] for line in lines if f"of-{agent}" in line] == [
            [agent, "claimed", f"of-{agent}"],
            [agent, "done", f"of-{agent}"],
        ]


def test_a_log_that_cannot_be_written_is_told_before_anything_is_claimed(dibs: Dibs) -> None:
    add(dibs, "a")
    (dibs.folder / "file").touch()
    for log, why in (("no/such/folder/log", "No such file or directory"), ("file/logs/", "Not a directory")):
        done = dibs("work", "--once", "--log", log, "--", "true")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"dibs: cannot write the log {log!r}: {why}\n"
    assert dibs.json("runs")["runs"] == []


def test_commands_of_dibs_work_inside(dibs: Dibs) -> None:
    add(dibs, "a")
    environment = {name: value for name, value in dibs.environment.items() if name not in ("DIBS_SESSION",)}
    bare = Dibs(dibs.folder, environment)
    bare.ok("work", "--once", "--", "sh", "-c", 'cd / && dibs progress "$DIBS_ITEM" "half of it"')
    detail = dibs.json("show", "a")
    assert detail["item"]["status"] == "done"
    assert "half of it" in json.dumps(detail)


@pytest.mark.parametrize("beat", [0.1, 60])
@pytest.mark.parametrize(
    ("typed", "outcome", "code"),
    [
        ("dibs done $DIBS_ITEM --note fine", "done", 0),
        ("dibs fail $DIBS_ITEM --reason no", "failed", 1),
        ("dibs submit $DIBS_ITEM --draft d", "submitted", 10),
    ],
)
def test_a_command_may_end_its_claim_itself(
    settings: Callable[..., None], dibs: Dibs, typed: str, outcome: str, code: int, beat: float
) -> None:
    """Whether the worker hears of it while the command goes on, or only when it is over."""
    settings(heartbeat_seconds=beat)
    add(dibs, "a")
    done = dibs("exec", "a", "--", "sh", "-c", f"{typed}; sleep 0.6; touch over")
    assert (done.returncode, done.stderr) == (code, "")
    assert (dibs.folder / "over").exists(), "it was let go on"
    assert outcomes(dibs, "a") == [outcome]
    add(dibs, "b")
    assert f"{outcome} b " in dibs.ok("work", "--once", "--", "sh", "-c", typed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("work", "--once"), "-- COMMAND is missing"),
        (("work", "--once", "--"), "-- COMMAND is missing"),
        (("work", "x", "--", "true"), "unexpected argument 'x'"),
        (("work", "--interval", "soon", "--", "true"), "'soon' is not a duration"),
        (("work", "--max", "0", "--", "true"), "max_claims must be at least 1"),
        (("exec", "--", "true"), "ITEM is missing"),
        (("exec", "x"), "-- COMMAND is missing"),
    ],
)
def test_a_wrong_line_is_refused(dibs: Dibs, words: tuple[str, ...], said: str) -> None:
    done = dibs(*words)
    assert done.returncode in (1, 2)
    assert said in done.stderr


def test_who_works_has_to_be_said(bare: Dibs) -> None:
    bare.ok("init")
    for words in (("work", "--once", "--", "true"), ("exec", "x", "--", "true")):
        done = bare(*words)
        assert done.returncode == 2
        assert "--agent NAME" in done.stderr


def test_a_refusal_ends_work_once_with_its_code(dibs: Dibs) -> None:
    add(dibs, "a")
    dibs.ok("agent", "set", "coder", "--type", "bug")
    done = dibs("work", "--once", "--type", "task", "--ttl", "1s", "--json", "--", "true")
    assert done.returncode == 1
    assert events(done.stdout)[-1]["error"]["code"] == "INVALID"


def test_json_after_the_dashes_is_the_commands_own(dibs: Dibs) -> None:
    done = dibs("exec", "nothing", "--", "echo", "--json")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("dibs: ")


def test_work_is_woken_by_new_items_until_it_is_terminated(dibs: Dibs, ended: Keep) -> None:
    worker = ended(dibs.start("work", "--json", "--", "true"))
    assert worker.stdout is not None
    for id in ("a", "b"):
        add(dibs, id)
        assert [json.loads(worker.stdout.readline())["event"] for _ in range(2)] == ["claimed", "done"]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0


def test_work_at_an_interval(dibs: Dibs, ended: Keep) -> None:
    worker = ended(dibs.start("work", "--interval", "100ms", "--json", "--", "true"))
    add(dibs, "a")
    until(lambda: outcomes(dibs, "a") == ["done"])
    worker.send_signal(signal.SIGINT)
    assert worker.wait(PATIENCE_SECONDS) == 0


# Stopping


def test_terminated_it_lets_what_has_begun_finish(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    os.mkfifo(dibs.folder / "go")
    worker = ended(dibs.start("work", "--", "sh", "-c", "echo $$ >>pids; read x <go; echo finished"))
    until(lambda: pids(dibs.folder))
    worker.send_signal(signal.SIGTERM)
    assert worker.stdout is not None
    while not worker.stdout.readline().startswith("draining"):
        assert worker.poll() is None
    (dibs.folder / "go").write_text("on\n")
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert outcomes(dibs, "a") == ["done"]


def test_terminated_it_releases_what_is_not_finished_in_time(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a", "b")
    worker = ended(dibs.start("work", "--max", "2", "--drain", "1s", "--", "sh", "-c", ENDLESS))
    until(lambda: len(pids(dibs.folder)) == 4)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0
    assert not alive(pids(dibs.folder))
    for id in ("a", "b"):
        assert outcomes(dibs, id) == ["released"]
        assert dibs.json("show", id)["item"]["status"] == "ready"


def test_a_terminal_that_is_closed_stops_it_and_costs_no_strike(dibs: Dibs) -> None:
    add(dibs, "a")
    with Terminal(f"exec dibs work --drain 0s -- sh -c '{ENDLESS}'", dibs.folder, dibs.environment) as terminal:
        until(lambda: len(pids(dibs.folder)) == 2)
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_SECONDS) == 0
    assert not alive(pids(dibs.folder))
    assert outcomes(dibs, "a") == ["released"]


def test_who_is_to_outlive_the_terminal_does(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    os.mkfifo(dibs.folder / "go")
    script = "echo $$ >>pids; read x <go; echo finished"
    worker = ended(dibs.start("work", "--json", "--", "sh", "-c", script, preexec_fn=_as_nohup_does))
    until(lambda: pids(dibs.folder))
    worker.send_signal(signal.SIGHUP)
    (dibs.folder / "go").write_text("on\n")
    until(lambda: outcomes(dibs, "a") == ["done"])
    assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0


def _as_nohup_does() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_second_interrupt_does_not_wait(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    worker = ended(dibs.start("work", "--drain", "10m", "--", "sh", "-c", ENDLESS))
    until(lambda: len(pids(dibs.folder)) == 2)
    worker.send_signal(signal.SIGINT)
    assert worker.stdout is not None
    while not worker.stdout.readline().startswith("draining"):
        assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    assert worker.wait(PATIENCE_SECONDS) == 130
    assert not left_after(LEFT_SECONDS, pids(dibs.folder))
    assert outcomes(dibs, "a") == ["released"]


def test_a_second_interrupt_gives_the_item_back_only_when_the_command_is_gone(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    stubborn = "trap '' TERM; echo $$ >>pids; while :; do sleep 0.1; done"
    worker = ended(dibs.start("work", "--drain", "10m", "--", "sh", "-c", stubborn))
    until(lambda: pids(dibs.folder))
    worker.send_signal(signal.SIGINT)
    assert worker.stdout is not None
    while not worker.stdout.readline().startswith("draining"):
        assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    with closing(connect(str(dibs.folder / ".dibs" / "board.db"))) as board:
        until(lambda: board.get("a").item.status == "ready")
        assert not alive(pids(dibs.folder))
    assert worker.wait(PATIENCE_SECONDS) == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_exec_that_is_stopped_twice_ends_the_command_first_as_well(
    dibs: Dibs, ended: Keep, number: signal.Signals
) -> None:
    add(dibs, "a")
    stubborn = "trap 'touch told' TERM; echo $$ >>pids; while :; do sleep 0.1; done"
    running = ended(dibs.start("exec", "a", "--", "sh", "-c", stubborn))
    until(lambda: pids(dibs.folder))
    running.send_signal(number)
    until(lambda: (dibs.folder / "told").exists())
    running.send_signal(number)
    with closing(connect(str(dibs.folder / ".dibs" / "board.db"))) as board:
        until(lambda: board.get("a").item.status == "ready")
        assert not alive(pids(dibs.folder))
    running.wait(PATIENCE_SECONDS)


def test_killed_it_leaves_no_process_and_another_does_the_item(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    stubborn = "trap '' TERM; echo $$ >>pids; sleep 600 & echo $! >>pids; while :; do sleep 0.1; done"
    worker = ended(dibs.start("work", "--", "sh", "-c", stubborn))
    until(lambda: len(pids(dibs.folder)) == 2)
    worker.kill()
    worker.wait()
    other = ended(dibs.start("work", "--agent", "other", "--json", "--", "true"))
    until(lambda: outcomes(dibs, "a") == ["done", "owner_died"])
    assert not left_after(LEFT_SECONDS, pids(dibs.folder))
    other.send_signal(signal.SIGTERM)
    assert other.wait(PATIENCE_SECONDS) == 0


def test_a_claim_that_is_taken_away_ends_the_command_and_its_late_result_is_refused(
    quick_beats: None, dibs: Dibs, ended: Keep
) -> None:
    """Told to end, it still says done."""
    add(dibs, "a")
    script = "trap 'exit 0' TERM; echo $$ >>pids; sleep 600 & echo $! >>pids; echo begun; wait"
    worker = ended(dibs.start("work", "--json", "--", "sh", "-c", script))
    until(lambda: len(pids(dibs.folder)) == 2)
    dibs.ok("wait", "a", "--agent", "alice", "--session", "s9")  # else the worker itself might have it again
    dibs.ok("force-release", "a", "--reason", "mine", "--actor", "alice")
    dibs.ok("claim", "a", "--agent", "alice", "--session", "s9")
    assert worker.stdout is not None
    while (event := json.loads(worker.stdout.readline()))["event"] != "lost":
        assert event["event"] in ("claimed", "output")
    assert not left_after(LEFT_SECONDS, pids(dibs.folder))
    assert outcomes(dibs, "a")[-1] == "force_released"
    assert dibs.json("show", "a")["claim"]["session"] == "s9"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0


# exec


@pytest.mark.parametrize(
    ("script", "code", "outcome"),
    [
        ("exit 0", 0, "done"),
        ("exit 3", 3, "failed"),
        ("exit 75", 75, "released"),
        ('echo d >"$DIBS_DRAFT_FILE"; exit 10', 10, "submitted"),
        ("exit 10", 10, "failed"),
        ("kill -KILL $$", 137, "failed"),
    ],
)
def test_exec_exits_as_the_command_does(dibs: Dibs, script: str, code: int, outcome: str) -> None:
    add(dibs, "a")
    done = dibs("exec", "a", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (code, "")
    assert outcomes(dibs, "a") == [outcome]
    assert dibs.json("sessions")["sessions"] == []


def test_exec_of_a_command_that_its_item_names_and_is_not_there_exits_127(dibs: Dibs) -> None:
    add(dibs, "a")
    assert dibs("exec", "a", "--", "./{id}").returncode == 127
    assert outcomes(dibs, "a") == ["failed"]


def test_exec_that_takes_too_long_exits_124(dibs: Dibs) -> None:
    add(dibs, "a")
    done = dibs("exec", "a", "--timeout", "500ms", "--", "sh", "-c", ENDLESS)
    assert done.returncode == 124
    assert "timed out after 0.5s" in done.stdout
    assert not alive(pids(dibs.folder))


def test_a_command_that_takes_too_long_may_leave_the_item_to_another(dibs: Dibs) -> None:
    add(dibs, "a")
    done = dibs("exec", "a", "--timeout", "0.5s", "--on-timeout", "release", "--", "sleep", "60")
    assert done.returncode == TIMED_OUT
    assert dibs.json("show", "a")["item"]["status"] == "ready"
    assert outcomes(dibs, "a") == ["released"]
    wrong = dibs("exec", "a", "--on-timeout", "retry", "--", "true")
    assert (wrong.returncode, outcomes(dibs, "a")) == (1, ["released"])
    assert "choose fail or release" in wrong.stderr


def test_who_does_not_get_the_item_runs_nothing_and_never_exits_0(dibs: Dibs, other: Dibs) -> None:
    add(dibs, "a")
    other.ok("claim", "a")
    code, error = dibs.refused("exec", "a", "--json", "--", "touch", "ran")
    assert (code, error["code"]) == (4, "TASK_ALREADY_CLAIMED")
    assert not (dibs.folder / "ran").exists()
    assert dibs("exec", "nothing", "--", "touch", "ran").returncode == 5


def test_exec_waits_for_its_turn(dibs: Dibs, other: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    other.ok("claim", "a")
    waiting = ended(dibs.start("exec", "a", "--wait", "20s", "--", "echo", "mine"))
    until(lambda: dibs.json("show", "a")["waiters"])
    other.ok("release", "a")
    said, _ = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert waiting.returncode == 0
    assert "a | mine\n" in said


def test_exec_whose_claim_is_taken_away_exits_4(quick_beats: None, dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    script = "trap 'exit 0' TERM; echo $$ >>pids; sleep 600 & echo $! >>pids; wait"
    running = ended(dibs.start("exec", "a", "--", "sh", "-c", script))
    until(lambda: len(pids(dibs.folder)) == 2)
    dibs.ok("force-release", "a", "--reason", "mine", "--actor", "alice")
    _, stderr = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 4, stderr
    assert not alive(pids(dibs.folder))
    assert outcomes(dibs, "a") == ["force_released"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_exec_that_is_stopped_ends_the_command_and_gives_the_item_back(
    dibs: Dibs, ended: Keep, number: signal.Signals, code: int
) -> None:
    add(dibs, "a")
    running = ended(dibs.start("exec", "a", "--", "sh", "-c", ENDLESS))
    until(lambda: len(pids(dibs.folder)) == 2)
    running.send_signal(number)
    assert running.wait(PATIENCE_SECONDS) == code
    assert not left_after(LEFT_SECONDS, pids(dibs.folder))
    assert outcomes(dibs, "a") == ["released"]


def test_exec_that_is_killed_leaves_no_process(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    running = ended(dibs.start("exec", "a", "--", "sh", "-c", ENDLESS))
    until(lambda: len(pids(dibs.folder)) == 2)
    running.kill()
    running.wait()
    assert not left_after(LEFT_SECONDS, pids(dibs.folder))


# What is shown


def test_on_a_terminal_there_is_one_line_for_each_claim(dibs: Dibs) -> None:
    add(dibs, "a", "b")
    os.mkfifo(dibs.folder / "go")
    command = """sh -c 'echo said; printf "\\033[31mred\\n"; read x <go'"""
    script = f"dibs work --agent coder --once --max 2 -- {command}"
    with Terminal(script, dibs.folder, dibs.environment, columns=60) as terminal:
        for id in ("a", "b"):
            terminal.read_until(f"  {id}  ")
        terminal.read_until("\ufffd[31mred")
        go = os.open(dibs.folder / "go", os.O_RDWR)
        os.write(go, b"\n\n")
        text = terminal.read_to_end()
        os.close(go)
    screen = _drawn(text)
    assert [line for line in screen if line.startswith("  ")] == [], "no line of a claim is left"
    assert sorted(line.split()[0] for line in screen if line) == ["claimed", "claimed", "done", "done"]


def _drawn(text: str) -> list[str]:
    """The lines that a terminal shows in the end, of what this program uses: up, erase below, colours."""
    lines = [""]
    row = 0
    at = 0
    while at < len(text):
        if text[at] == "\x1b":
            end = at + 2
            while not text[end].isalpha():
                end += 1
            if text[end] == "A":
                row -= int(text[at + 2 : end])
            elif text[end] == "J":
                lines[row:] = [""]
            at = end + 1
            continue
        if text[at] == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif text[at] != "\r":
            lines[row] += text[at]
        at += 1
    return lines


def test_what_a_command_said_is_shown_line_by_line(dibs: Dibs, other: Dibs) -> None:
    add(dibs, "a")
    dibs("work", "--once", "--", "sh", "-c", "printf 'one\\n\\033[31mtwo\\n'; exit 75")
    shown = dibs.ok("show", "a")
    assert "token 1  coder  released  0s  now  one \u2026\n" in shown
    assert "  reason of token 2\n    | one\n    | \ufffd[31mtwo\n" in shown
    assert "(one \ufffd[31mtwo)" in other.ok("claim", "a")


def test_whoever_reads_it_may_leave(dibs: Dibs) -> None:
    add(dibs, "a", "b", "c")
    done = dibs.shell("dibs work --once -- sh -c 'seq 20000' | head -1")
    assert done.stdout.startswith("claimed ")
    until(lambda: all(outcomes(dibs, id) == ["done"] for id in ("a", "b", "c")))


# Somebody who has stopped reading

#: More than a pipe and what is kept for it hold.
MUCH = "yes 'a line that nobody reads' | head -c 4000000"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_whoever_stops_reading_holds_up_no_time_limit_and_no_end(
    dibs: Dibs, ended: Keep, words: tuple[str, ...]
) -> None:
    worker = ended(dibs.start("work", "--timeout", "1s", *words, "--", "yes", "a line that nobody reads"))
    for id in ("a", "b"):
        add(dibs, id)
        until(lambda id=id: outcomes(dibs, id) == ["failed"])  # type: ignore[misc]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0


def test_what_nobody_read_is_counted(dibs: Dibs, ended: Keep) -> None:
    add(dibs, "a")
    os.mkfifo(dibs.folder / "go")
    worker = ended(
        dibs.start("work", "--once", "--json", "--", "sh", "-c", f"{MUCH}; touch said; read x <go; echo last")
    )
    until(lambda: (dibs.folder / "said").exists())
    assert worker.stdout is not None
    told = []
    for line in worker.stdout:
        told.append(json.loads(line))
        if told[-1]["event"] == "left_out":
            (dibs.folder / "go").write_text("on\n")
    assert worker.wait(PATIENCE_SECONDS) == 0
    (missing,) = [event["lines"] for event in told if event["event"] == "left_out"]
    output = [event["text"] for event in told if event["event"] == "output"]
    lines = 4_000_000 // len("a line that nobody reads\n")
    assert len(output) - 1 + missing == lines
    assert [event["event"] for event in told if event["event"] not in ("output", "left_out")] == ["claimed", "done"]
    assert output[-1] == "last"


def test_whoever_reads_slowly_misses_nothing(dibs: Dibs) -> None:
    add(dibs, "a")
    done = dibs.shell("dibs work --once -- seq 200000 | (sleep 0.5; while read x; do echo $x; done) | grep -c '^a |'")
    assert done.stdout == "200000\n"


def test_a_terminal_that_is_stopped_holds_up_nothing(dibs: Dibs) -> None:
    add(dibs, "a")
    script = "dibs work --once --timeout 2s -- yes 'a line that nobody reads'"
    with Terminal(script, dibs.folder, dibs.environment) as terminal:
        terminal.read_until("claimed")
        terminal.type("\x13")  # Ctrl-S
        until(lambda: outcomes(dibs, "a") == ["failed"])
