"""The first day: a test for each thing that people stumbled over when they used the command line, named after it.

Guesses and bad inputs have files of their own: guesses.txt and bad_lines.txt.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dibs.board import connect
from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.cli.progress import Progress
from dibs.cli.render import LINK, LINK_END, Paint, clean_line, has_links
from dibs.sdk.claim_handle import ClaimHandle
from dibs.worker.worker import Worker
from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal
from tests.server.process import Serving

LONG = "fix-the-login-page"


@pytest.fixture
def day(dibs: Dibs, other: Dibs) -> Dibs:
    """Two items that begin alike; one of them is held by the caller, and one by another session."""
    dibs.ok("add", "Fix the login page of the shop on small screens", "--id", LONG, "--type", "bug")
    dibs.ok("add", "Fix the logout", "--id", "fix-the-logout")
    dibs.ok("add", "Tell users", "--id", "tell-users", "--needs", LONG)
    dibs.ok("add", "Theirs", "--id", "theirs")
    dibs.ok("claim", LONG)
    other.ok("claim", "theirs")
    return dibs


# Ids


def test_ids_can_be_abbreviated_by_reads(day: Dibs) -> None:
    for command in ("show", "why", "log"):
        assert day(command, "tell").returncode == 0
    assert day.json("show", "tell")["item"]["id"] == "tell-users"
    assert day.json("runs", "--item", "their")["runs"][0]["item"] == "theirs"


def test_an_exact_id_is_meant_although_others_begin_so(day: Dibs) -> None:
    day.ok("add", "Short", "--id", "fix-the-log")
    assert day.json("show", "fix-the-log")["item"]["title"] == "Short"


def test_ids_can_be_abbreviated_for_ones_own_claims_among_these(day: Dibs) -> None:
    assert f"noted {LONG}" in day.ok("progress", "fix", "half way")
    assert f"renewed {LONG}" in day.ok("heartbeat", "fix")
    code, error = day.refused("done", "their")
    assert (code, error["code"], error["candidates"]) == (5, "TASK_NOT_FOUND", ["theirs"])
    assert f"done {LONG}" in day.ok("done", "fix")


def test_of_an_ambiguous_id_the_candidates_are_named(day: Dibs) -> None:
    done = day("show", "fix")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == f"dibs: fix is the beginning of several items: {LONG}, fix-the-logout; type more of the id\n"
    assert day.refused("show", "fix")[1]["candidates"] == [LONG, "fix-the-logout"]


@pytest.mark.parametrize(
    "words",
    [
        ("cancel", "tell"),
        ("force-release", "thei", "--reason", "r"),
        ("approve", "tell"),
        ("reject", "tell", "--reason", "r"),
        ("park", "tell"),
        ("edit", "tell", "--title", "t"),
        ("reopen", "tell"),
        ("claim", "tell"),
    ],
    ids=lambda words: words[0],
)
def test_off_a_terminal_a_verb_that_takes_away_or_decides_asks_did_you_mean(day: Dibs, words: tuple[str, ...]) -> None:
    before = day.ok("export")
    done = day(*words)
    assert done.returncode == 5
    assert f"did you mean {'theirs' if words[0] == 'force-release' else 'tell-users'}" in done.stderr
    assert day.ok("export") == before


def test_at_a_terminal_a_person_is_asked_before_an_abbreviated_item_is_ended(day: Dibs) -> None:
    person = day.environment | {"DIBS_SESSION": "", "DIBS_AGENT": ""}
    with Terminal("dibs cancel tell", day.folder, person) as terminal:
        terminal.read_until("cancel tell-users? [y/N]")
        terminal.type("n\n")
        terminal.read_to_end()
    assert day.json("show", "tell-users")["item"]["status"] == "blocked"
    with Terminal("dibs cancel tell; dibs park fix-the-logo", day.folder, person) as terminal:
        terminal.read_until("cancel tell-users? [y/N]")
        terminal.type("y\n")
        assert "parked" in terminal.read_to_end()
    assert day.json("show", "tell-users")["item"]["status"] == "cancelled"


def test_an_exact_id_costs_no_extra_statement(day: Dibs, monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.cli import main

    monkeypatch.chdir(day.folder)
    monkeypatch.setitem(__import__("sys").modules, "dibs.cli.item_ids", None)  # an import of it would fail
    for name, value in day.environment.items():
        monkeypatch.setenv(name, value)
    assert main.main(["heartbeat", LONG]) == 0
    assert main.main(["show", "tell-users"]) == 0


def test_ids_are_whole_at_60_columns(day: Dibs) -> None:
    for command in ("list", "who", "runs", "events", "dibs"):
        said = day.terminal(f"dibs {command}".replace("dibs dibs", "dibs"), columns=60)
        assert LONG in said, command


BASH = """
eval "$(dibs completion bash)"; COMP_WORDS=({words}); COMP_CWORD={at}; _dibs; printf "%s\\n" "${{COMPREPLY[@]}}"
"""
SHELL_SCRIPTS = {"bash": BASH, "fish": 'dibs completion fish | source; complete --do-complete "{line}"'}


@pytest.mark.parametrize("shell", SHELL_SCRIPTS)
def test_ids_are_completed_by_the_shell(day: Dibs, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    for line, offered in (
        ("dibs show fix", [LONG, "fix-the-logout"]),
        ("dibs show tell", ["tell-users"]),
        ("dibs done fix", [LONG]),
        ("dibs claim tell", []),
        ("dibs add x --needs their", ["theirs"]),
    ):
        words = line.split()
        script = SHELL_SCRIPTS[shell].format(words=" ".join(words), at=len(words) - 1, line=line)
        done = subprocess.run(
            [program, "-c", script], cwd=day.folder, env=day.environment, capture_output=True, text=True
        )
        assert sorted(done.stdout.split()) == sorted(offered), line


def test_completion_off_a_board_is_silent(bare: Dibs) -> None:
    done = bare("completion", "ids", "fix", "--for", "claim")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# list and show


def test_list_shows_who_holds_an_item_and_what_it_waits_for(day: Dibs) -> None:
    day.ok("add", "Later", "--id", "later", "--not-before", "2h")
    rows = {line.split()[0]: line for line in day.ok("list").splitlines()}
    assert "holder / waits for" in rows["id"]
    assert re.search(r"coder, \d+m left", rows[LONG])
    assert re.search(r"reviewer, \d+m left", rows["theirs"])
    assert rows["tell-users"].split("Tell users")[1].split()[0] == LONG
    assert "in 2h" in rows["later"]


def test_list_drops_changed_before_what_an_item_waits_for(day: Dibs) -> None:
    wide = day.terminal("dibs list", columns=120).splitlines()[0]
    narrow = day.terminal("dibs list", columns=80).splitlines()[0]
    assert "changed" in wide
    assert "changed" not in narrow
    assert "holder / waits for" in narrow
    narrowest = day.terminal("dibs list", columns=60)
    assert re.search(r"needs \S", narrowest)
    assert "coder, " in narrowest


def test_a_dependency_that_is_done_is_not_waited_for(day: Dibs) -> None:
    day.ok("edit", "tell-users", "--add-needs", "fix-the-logout")
    day.ok("done", LONG)
    row = next(line for line in day.ok("list").splitlines() if line.startswith("tell-users"))
    assert "fix-the-logout" in row
    assert LONG not in row


def test_show_has_links_cost_retries_and_timeout(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--retries", "2", "--timeout", "45m", "--subject", "github:acme/shop#12")
    dibs.ok("claim", "x")
    dibs.ok("done", "x", "--link", "pr=https://example.org/7", "--cost", '{"usd": 0.25}')
    said = dibs.ok("show", "x")
    for part in (
        "timeout 45m",
        "up to 2 retries",
        "pr: https://example.org/7",
        "usd: 0.25",
        "subject github:acme/shop#12",
    ):
        assert part in said


def test_stats_have_the_cost(dibs: Dibs) -> None:
    for number in range(2):
        dibs.ok("add", "t", "--id", f"x{number}")
        dibs.ok("claim", f"x{number}")
        dibs.ok("done", f"x{number}", "--cost", '{"usd": 0.25, "tokens": 1200}')
    said = dibs.ok("stats")
    assert re.search(r"cost of the latest runs\n  tokens +2,400\n  usd +0.5\n", said) or re.search(
        r"cost of the latest runs\n  usd +0.5\n  tokens +2,400\n", said
    )
    assert dibs.json("stats")["cost"] == {"tokens": 2400, "usd": 0.5}


def test_links_are_links_where_the_terminal_has_them(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x", "--subject", "github:acme/shop#12")
    link = f"{LINK}https://github.com/acme/shop/issues/12{LINK_END}github:acme/shop#12{LINK}{LINK_END}"
    assert link in dibs.terminal("dibs show x", VTE_VERSION="7002")
    assert link in dibs.terminal("dibs show x", FORCE_HYPERLINK="1")
    for said in (dibs.terminal("dibs show x"), dibs.ok("show", "x", environment={"FORCE_HYPERLINK": "1"})):
        assert LINK not in said
    assert not has_links({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"})


def test_a_text_makes_no_link() -> None:
    paint = Paint(True, links=True)
    for address in ("javascript:alert(1)", "https://a b", "https://a\x1b[2J", "file:///etc/passwd"):
        assert paint.link("x", address) == "x"
        assert LINK not in clean_line(f"{LINK}{address}{LINK_END}x")


# Words


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("delete x", "try: dibs park x"),
        ("remove x", "try: dibs park x"),
        ("redy", "did you mean: dibs list --status ready"),
        ("cancl x", "see: dibs help cancel"),
        ("prun", "see: dibs help prune"),
    ],
)
def test_suggestions_are_by_meaning_and_never_destructive(bare: Dibs, typed: str, said: str) -> None:
    done = bare(*typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_unclaim_is_release_and_ready_is_a_list(day: Dibs) -> None:
    assert "fix-the-logout" in day.ok("ready")
    assert f"released {LONG}" in day.ok("unclaim", LONG)


def test_several_values_are_written_with_commas(day: Dibs) -> None:
    def ids(*words: str) -> set[str]:
        return set(day.ok("list", "-q", *words).split())

    assert ids("--status", "ready,blocked") == {"fix-the-logout", "tell-users"}
    assert ids("--status", "in-progress") == {LONG, "theirs"}
    assert ids("--status", "open") == ids()
    assert day.json("add", "t", "--label", "a,b", "--id", "labelled")["item"]["labels"] == ["a", "b"]


def test_list_mine_agent_sort_and_search(day: Dibs, other: Dibs) -> None:
    assert day.ok("list", "--mine", "-q") == f"{LONG}\n"
    assert other.ok("list", "--mine", "-q") == "theirs\n"
    assert day.ok("list", "--agent", "reviewer", "-q") == "theirs\n"
    assert day.ok("list", "--search", "LOGOUT", "-q") == "fix-the-logout\n"
    day.ok("edit", "tell-users", "--title", "Tell all users")
    assert day.ok("list", "--sort", "updated", "-q").split()[0] == "tell-users"
    assert [item["assignee"] for item in day.json("list", "--agent", "reviewer")["items"]] == ["reviewer"]


def test_next_by_label_and_dry_run(dibs: Dibs) -> None:
    dibs.ok("add", "a", "--id", "a", "-p", "high")
    dibs.ok("add", "b", "--id", "b", "--label", "ui")
    assert dibs.ok("next", "--dry-run", "-q") == "a\n"
    assert dibs.ok("next", "--dry-run", "--label", "ui", "-q") == "b\n"
    assert dibs.json("sessions")["sessions"] == []
    assert dibs.ok("next", "--label", "ui", "-q") == "b\n"
    assert dibs("next", "--label", "ui", "--dry-run").returncode == 3


def test_prune_dry_run_deletes_nothing(day: Dibs) -> None:
    day.ok("done", LONG)
    before = day.ok("export")
    assert "would delete 0 items" in day.ok("prune", "--older-than", "1d", "--dry-run")
    assert "would delete" in day.ok("prune", "--older-than", "0s", "--dry-run")
    assert day.ok("export") == before


def test_edit_adds_and_removes_labels_and_needs(day: Dibs) -> None:
    edited = day.json("edit", "tell-users", "--add-label", "a,b", "--add-needs", "theirs", "--remove-needs", LONG)
    assert (edited["item"]["labels"], edited["item"]["depends_on"]) == (["a", "b"], ["theirs"])
    assert day.json("edit", "tell-users", "--remove-label", "a")["item"]["labels"] == ["b"]
    assert day.refused("edit", "tell-users", "--label", "x", "--add-label", "y")[0] == 2


def test_help_says_that_a_higher_priority_is_sooner(bare: Dibs) -> None:
    for command in ("add", "edit"):
        assert "higher is sooner" in bare.ok(command, "--help")


def test_a_priority_as_in_beads_gets_a_hint(dibs: Dibs) -> None:
    assert "as in beads, write P1" in dibs("add", "t", "-p", "1").stderr
    for priority in ("P1", "high", "8"):
        assert dibs("add", "t", "-p", priority).stderr == ""


# Sessions and exit codes


def test_why_needs_no_session_and_starts_none(day: Dibs) -> None:
    nobody = {"DIBS_SESSION": "", "DIBS_AGENT": ""}
    before = day.ok("sessions", "--json")
    assert "ready" in day.ok("why", "fix-the-logout", environment=nobody)
    assert day.ok("sessions", "--json") == before


def test_a_viewers_key_may_ask_why(day: Dibs) -> None:
    key = day.json("key", "create", "--role", "viewer")["key"]["secret"]
    with Serving(day.folder, "--quiet") as server:
        reader = day.environment | {"DIBS_STORE": server.url, "DIBS_KEY": key, "DIBS_SESSION": "", "DIBS_AGENT": ""}
        assert "ready" in day.ok("why", "fix-the-logout", environment=reader)


def test_runs_of_an_item_that_is_not_there_are_refused(dibs: Dibs) -> None:
    assert dibs.refused("runs", "--item", "nosuch")[0] == 5


def test_help_alone_tells_a_model_of_sessions_renewal_and_exit_codes(bare: Dibs) -> None:
    said = " ".join(bare.ok("--help").split())
    for part in (
        "dibs next --session ID --agent NAME",
        "A claim is lost after 30m without progress or dibs heartbeat",
        "Exit codes: 0 done, 1 error, 2 usage or no session, 3 nothing to claim",
    ):
        assert part in said
    assert "the process whose death ends the session's claims" in bare.ok("session", "start", "--help")


def test_the_stateless_form_is_in_the_message_and_works(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    nobody = {"DIBS_SESSION": "", "DIBS_AGENT": ""}
    assert "--session ID --agent NAME" in dibs("next", environment=nobody).stderr
    named = ("--session", "call-1", "--agent", "model")
    assert dibs.ok("next", "-q", *named, environment=nobody) == "x\n"
    assert "done x" in dibs.ok("done", "x", *named, environment=nobody)


# JSON


def test_brief_json_of_next_is_short_and_numbers_are_alike(dibs: Dibs) -> None:
    dibs.ok("add", "Fix login", "--id", "x")
    brief = dibs.ok("next", "--brief")
    assert len(brief) < 200
    full, renewed = dibs.json("show", "x"), dibs.json("heartbeat", "x")
    assert str(full["item"]["timeout_seconds"]) == "28800"
    assert isinstance(renewed["remaining_seconds"], int) or not renewed["remaining_seconds"].is_integer()


# Errors


def test_errors_show_no_insides(dibs: Dibs) -> None:
    for words, said in (
        (("next", "-n", "0"), "--number must be a whole number between 1 and 1000"),
        (("add", "t", "--timeout", "400d"), "--timeout must be a number between 1s and 365d"),
        (("claim", "x", "--ttl", "59.9s"), "a TTL of 59.9s is out of bounds; choose between 1m and 2h"),
    ):
        dibs("add", "t", "--id", "x")
        assert dibs(*words).stderr == f"dibs: {said}\n"
    (dibs.folder / "dibs.toml").write_text("[agents.coder]\nmaxclaims = 2\n")
    said = dibs("list").stderr
    assert said.endswith("dibs.toml, line 2: [agents.coder] has no setting 'maxclaims'; did you mean max_claims\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[boards]\nttl_seconds = 60\n", "line 1: unknown table [boards]; did you mean [board]"),
        ("# a comment\nttl_seconds = 60\n", "line 2: ttl_seconds is in no table; write it below [board]"),
        ("[board]\n\nttl = 60\n", "line 3: [board] has no setting 'ttl'; did you mean ttl_seconds"),
        ("[server]\nprot = 80\n", "line 2: [server] has no setting 'prot'; did you mean port"),
        ("[board]\nttl_seconds = '5m'\n", "line 2: ttl_seconds must be a number of seconds, not '5m'"),
        ("[agents.coder]\nmax_claims = 0\n", "line 2: [agents.coder]: max_claims must be a whole number"),
        ("[github]\nrule = 1\n", "line 2: [github] has no setting 'rule'"),
        ("[server]\nport = 99999\n", "line 2: port must lie between 0 and 65535"),
    ],
)
def test_dibs_toml_is_checked_with_line_and_suggestion(bare: Dibs, text: str, said: str) -> None:
    (bare.folder / "dibs.toml").write_text(text)
    checked = bare("config", "--check")
    assert checked.returncode == 1
    assert said in checked.stdout
    (mistake,) = json.loads(bare("config", "--check", "--json").stdout)["mistakes"]
    assert mistake["line"] == int(said.split(":")[0].removeprefix("line "))


def test_config_check_names_every_mistake_and_exits_0_without_one(bare: Dibs) -> None:
    file = bare.folder / "dibs.toml"
    file.write_text("[board]\nttl = 5\nmax_strike = 3\n[agents.a]\ntyp = 1\n")
    assert bare("config", "--check").stdout.count("✗") == 3
    file.write_text("[board]\nttl_seconds = 900\n[agents.a]\ntypes = ['bug']\n[server]\nport = 9000\n")
    assert "is right" in bare.ok("config", "--check")
    file.unlink()
    assert "every setting has its default" in bare.ok("config", "--check")


# Progress, workers


def test_progress_has_a_total_and_the_time_left() -> None:
    progress = Progress("copied", 50_000, is_estimate=True)
    progress.count = 12_500
    assert progress.line(seconds=4) == "copied 12,500 of about 50,000 records, 25%, 12s left"
    progress.total = None
    assert progress.line(seconds=4) == "copied 12,500 records, 4s"


def test_long_commands_show_their_progress_on_a_terminal_only(dibs: Dibs) -> None:
    dibs.ok("add", "--file", "-", input='{"title": "t"}\n' * 500)
    dibs.ok("backup", "copy.db")
    said = dibs.terminal("dibs doctor; dibs restore copy.db --yes", columns=120)
    assert re.search(r"checked 1,000 of about 1,\d\d\d records, \d\d%", said)
    assert "checked 1,000 of 1,500 records, 66%" in said
    assert dibs("doctor").stderr == dibs("export", "out.jsonl").stderr == ""


def test_prune_shows_its_progress(dibs: Dibs, settings: object) -> None:
    dibs.ok("add", "--file", "-", input='{"title": "t"}\n' * 3)
    for item in dibs.ok("list", "-q").split():
        dibs.ok("cancel", item)
    assert "deleted 3 of 3 items, 100%" in dibs.terminal("dibs prune --older-than 0s --yes", columns=100)


def test_vault_sync_shows_its_steps(bare: Dibs) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    bare.ok("vault", "hub", "init", "hub.git")
    subprocess.run([*git, "clone", "-q", "hub.git", "tasks"], cwd=bare.folder, check=True, capture_output=True)
    bare.ok("vault", "init", "tasks")
    said = bare.terminal(
        "cd tasks && dibs vault sync", columns=100, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org"
    )
    for step in ("reading the files (step 1 of 5)", "fetching (step 2 of 5)", "pushing (step 4 of 5)"):
        assert step in said


def test_an_idle_worker_says_what_it_waits_for(day: Dibs) -> None:
    day.ok("park", "fix-the-logout")
    script = "dibs work --agent idler --type task -- true"
    with Terminal(script, day.folder, day.environment, columns=120) as terminal:
        terminal.read_until("waits for a ready item of type task; now: 1 blocked, 1 in_progress, 1 parked")
        terminal.type("\x03")
        terminal.read_to_end()


def test_a_worker_logs_what_it_does_and_what_a_handler_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="dibs.worker")
    with connect(str(tmp_path / "board.db"), folder=str(tmp_path), create=True) as board:
        board.add("t", id="good", priority="high")
        board.add("t", id="bad")
        worker = Worker(board, "coder")

        @worker.handles("task")
        def handle(claim: ClaimHandle) -> None:
            if claim.item.id == "bad":
                raise KeyError("no such thing")

        worker.run(once=True)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "coder works on items of task"
    assert "coder claimed good" in said
    assert any(line.startswith("coder done good") for line in said)
    (raised,) = [record for record in caplog.records if record.exc_info]
    assert (raised.getMessage(), raised.levelname) == ("the handler of bad raised", "ERROR")
    assert said[-1] == "coder stopped: 1 done, 1 failed"


def test_every_command_that_takes_an_item_says_so_in_its_usage() -> None:
    from dibs.cli.completion import item_commands

    for name in item_commands():
        assert "ITEM" in build(name, COMMANDS[name])[0].usage()
