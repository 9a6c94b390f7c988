"""The fence: an agent that lost an item is stopped at its next tool call, until it has answered."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dibs.agents.state import Loss, Record, State, answered
from dibs.board import Board, connect
from dibs.cli import identity
from dibs.cli.commands import COMMANDS
from dibs.cli.context import Cli
from dibs.cli.parser import build
from tests.e2e.test_finding_the_board import git
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for, wait_for_end
from tests.hooks.conftest import BOB


@pytest.fixture
def working(agent: Agent, board: Board) -> Agent:
    """An agent in a turn, on a board with two items."""
    board.add("A", id="a", resources=["src/a.py"])
    board.add("B", id="b", resources=["src/b"])
    agent.start()
    return agent


def claim_shortly(board: Board) -> int:
    """A short claim of the agent, which its keeper has renewed; returns its token."""
    board.claim("a", session=SESSION, ttl_seconds=1)
    wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count)
    return board.get("a").item.token


def take_over(board: Board, item: str) -> None:
    """Take an item from an agent that is stopped, once its claim has expired."""
    board.claim(item, session=BOB, wait_seconds=30)


@pytest.mark.usefixtures("short_claims")
def test_a_zombie_is_denied_at_its_next_tool_call_until_it_answers(working: Agent, board: Board) -> None:
    claim_shortly(board)
    working.stop()
    take_over(board, "a")
    working.go_on()
    for answer in (working.bash("make"), working.edit("README.md")):
        why = working.denied(answer)
        assert "your claim of a is lost: it was taken over by bob (session bob-1)" in why
        assert "Run: dibs release a; then: dibs next" in why
        assert "\n" not in why
    # Reading and thinking is not stopped, and neither is a call of dibs that names the item.
    assert working.hook("PreToolUse", tool_name="Read", tool_input={"file_path": "/x"}) == {}
    assert working.bash("dibs release a") == {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    done = working.shell("dibs release a")
    assert (done.code, "bob (session bob-1)" in done.err) == (4, True)
    assert (working.bash("make"), working.edit("README.md")) == ({}, {})
    assert board.get("a").claim.session == BOB  # type: ignore[union-attr]


def test_a_board_of_a_commit_does_not_switch_the_fence_off(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    """The session works in a clone below its board, and a pull brings a `.dibs` into the clone."""
    clone = folder / "clone"
    brought = clone / ".dibs" / "board.db"
    clone.mkdir()
    git(clone, "init")
    agent = agents(at=clone)
    agent.start()
    board.add("A", id="a")
    board.claim("a", session=SESSION)
    brought.parent.mkdir()
    brought.write_bytes(b"")
    git(clone, "add", "--force", ".")
    git(clone, "commit", "--message", "a board")
    # Nobody but the hook can find out.
    keeper = agent.keeper
    os.kill(keeper, signal.SIGKILL)
    wait_for_end(keeper)
    (agent.state / "until").unlink(missing_ok=True)
    board.force_release("a", reason="its machine is gone")
    assert "your claim of a is lost" in agent.denied(agent.edit("code"))


@pytest.mark.usefixtures("short_claims")
def test_an_expired_claim_that_nobody_took_is_recovered_silently(working: Agent, board: Board) -> None:
    token = claim_shortly(board)
    working.stop()
    wait_for(lambda: board.get("a").claim is None)
    working.go_on()
    assert working.bash("make") == {}
    claim = board.get("a").claim
    assert claim is not None
    assert claim.session == SESSION
    assert claim.token > token


def lose(agent: Agent, board: Board, item: str) -> None:
    """Take an item from an agent that holds it, and wait until its keeper has noted that."""
    board.force_release(item, reason="needed elsewhere")
    wait_for((agent.state / f"lost-{item}").exists)


def test_only_a_verb_that_the_board_has_answered_ends_the_denial(working: Agent, board: Board, folder: Path) -> None:
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    # What the client says about a command proves nothing: it may not have run, or been another program.
    for command in ("dibs release a", "/tmp/nowhere/dibs a"):
        working.hook("PostToolUse", tool_name="Bash", tool_input={"command": command})
        working.hook("PostToolUseFailure", tool_name="Bash", tool_input={"command": command}, error="Exit code 127")
    assert [working.shell(line).code for line in ("dibs frobnicate a", "dibs release", "dibs show b")] == [2, 2, 0]
    (folder / "dibs.toml").write_text("[board")
    assert working.shell("dibs release a").code == 1
    (folder / "dibs.toml").unlink()
    working.denied(working.bash("make"))
    assert working.shell("dibs release a").code == 4
    assert working.bash("make") == {}


def test_an_answer_of_another_board_leaves_the_denial(
    working: Agent, board: Board, empty: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(empty, tmp_path / "other"))
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    file = other / ".dibs" / "board.db"
    assert working.shell(f"dibs add A --id a --store {file}").code == 0
    for line in (f"dibs show a --store {file}", f"DIBS_STORE={file} dibs show a", f"cd {other}; dibs claim a"):
        assert working.shell(line).code == 0
    assert working.shell(f"cd {other}; dibs release nothing").code == 5
    working.denied(working.bash("make"))
    assert working.shell("dibs show a").code == 0
    assert working.bash("make") == {}


def test_a_refusal_that_reports_a_loss_answers_it_before_the_keeper_has_seen_it(working: Agent, board: Board) -> None:
    board.claim("a", session=SESSION)
    os.kill(working.keeper, signal.SIGSTOP)
    board.force_release("a", reason="needed elsewhere")
    assert working.shell("dibs done a").code == 4
    os.kill(working.keeper, signal.SIGCONT)
    (working.state / "until").unlink()  # a look at the board
    assert working.bash("make") == {}
    # Of a loss after that, the refusal knew nothing.
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    working.denied(working.bash("make"))


def test_an_answer_about_an_earlier_claim_leaves_a_later_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = State(SESSION)
    state.make(Record(session=SESSION, agent="x", client="claude", folder="/"))
    cli = Cli(build("release", COMMANDS["release"])[0].parse(["a", "--session", SESSION]))
    assert identity.lost_token(cli) is None
    state.lose(Loss(item="a", token=3, how="taken_over", by="bob", since=0))
    answered(SESSION, "a", 2)
    assert identity.lost_token(cli) == 3
    answered(SESSION, "a", 3)
    assert state.losses() == []


def test_a_call_of_dibs_is_never_denied(working: Agent, board: Board) -> None:
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    for command in (
        "dibs progress a work",
        "dibs release a --reason exec",
        "dibs add x --type demo",
        "dibs release a; dibs next",
        "dibs release a 2>&1",
        "cd . && dibs release a",
    ):
        assert working.bash(command).get("permissionDecision") != "deny", command
    for command in (
        "dibs release a; make",
        "dibs release a | sh",
        "dibs exec a -- make",
        "dibs --json exec a -- x",
        "cd .",
    ):
        working.denied(working.bash(command))
    write = {"file_path": str(working.folder / "x"), "content": "x", "command": "dibs next; dibs who"}
    working.denied(working.hook("PreToolUse", tool_name="Write", tool_input=write))


def test_every_tool_that_runs_a_command_is_denied(working: Agent, board: Board) -> None:
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    watch = {"command": "make", "description": "d", "timeout_ms": 5000, "persistent": False}
    working.denied(working.hook("PreToolUse", tool_name="Monitor", tool_input=watch))
    typed = {"session_id": 1, "chars": "make\n"}
    working.denied(working.hook("PreToolUse", tool_name="write_stdin", tool_input=typed))
    # Nothing is typed: it reads what the command has printed.
    assert working.hook("PreToolUse", tool_name="write_stdin", tool_input=typed | {"chars": ""}) == {}


@pytest.mark.parametrize("how", ["force_released", "cancelled"])
def test_a_claim_that_a_person_ended_denies_until_the_next_prompt(working: Agent, board: Board, how: str) -> None:
    board.claim("a", session=SESSION)
    if how == "cancelled":
        board.cancel("a", reason="duplicate")
    else:
        board.force_release("a", reason="needed elsewhere")
    wait_for((working.state / "lost-a").exists)
    assert f"it was {how.replace('_', '-')} by alice at" in working.denied(working.bash("make"))
    told = working.hook("UserPromptSubmit", prompt="go on")
    assert "your claim of a is lost" in told["additionalContext"]
    assert working.bash("make") == {}
    # It is told once: neither the keeper nor a later look bring it back.
    (working.state / "until").unlink()
    assert working.bash("make") == {}
    assert working.hook("UserPromptSubmit", prompt="go on") == {}


def test_a_claim_that_another_program_handed_over_denies_and_names_the_new_holder(working: Agent, board: Board) -> None:
    """An orchestrator knows the session of the agent that it started, and hands its claim to another one."""
    board.claim("a", session=SESSION)
    board.hand("a", to=BOB, session=SESSION)
    wait_for((working.state / "lost-a").exists)
    why = working.denied(working.bash("make"))
    assert "your claim of a was handed over to bob (session bob-1) at" in why
    assert "lost" not in why, "nobody has taken it away"
    refused = working.shell("dibs release a")
    assert refused.code == 4
    assert "handed" in refused.err
    assert working.bash("make") == {}


def test_an_agent_that_hands_its_own_claim_over_is_not_stopped(working: Agent, board: Board) -> None:
    board.claim("a", session=SESSION)
    assert working.shell(f"dibs hand a --to {BOB}").code == 0
    (working.state / "until").unlink(missing_ok=True)  # so that this hook looks at the board itself
    assert working.edit("README.md") == {}
    assert working.hook("UserPromptSubmit", prompt="go on") == {}


def test_a_claim_by_subject_answers_the_loss_of_its_item(working: Agent, board: Board) -> None:
    board.edit("a", subject="github:acme/shop#12")
    board.claim("a", session=SESSION)
    lose(working, board, "a")
    working.denied(working.edit("src/a.py"))
    assert working.shell("dibs claim --subject github:acme/shop#12").code == 0
    assert working.edit("src/a.py") == {}


def test_an_agent_that_lost_one_of_two_items_may_not_edit_what_belongs_to_the_lost_one(
    working: Agent, board: Board
) -> None:
    board.claim("a", session=SESSION)
    board.claim("b", session=SESSION)
    lose(working, board, "b")
    assert working.bash("make") == {}
    assert working.edit("src/a.py") == {}
    assert "your claim of b is lost" in working.denied(working.edit("src/b/deep/x.py"))
    board.release("a", session=SESSION)
    assert "your claim of b is lost" in working.denied(working.bash("make"))


def test_only_a_person_switches_the_fence_off(agents: Callable[..., Agent], board: Board, folder: Path) -> None:
    board.add("A", id="a")
    agent = agents(DIBS_FENCE="off")
    agent.start()
    board.claim("a", session=SESSION)
    lose(agent, board, "a")
    assert agent.bash("make") == {}
    agent.run("unset DIBS_FENCE")
    # A file in the repository does not: an agent can write it, and a commit can bring it.
    for text in ("", "[board]\nfence = false\n", "[board"):
        (folder / "dibs.toml").write_text(text)
        agent.denied(agent.bash("make"))
        agent.denied(agent.edit("dibs.toml"))


def test_an_edit_finds_out_that_the_keeper_was_killed(working: Agent, board: Board) -> None:
    board.claim("a", session=SESSION)
    killed = working.keeper
    os.kill(killed, signal.SIGKILL)
    wait_for_end(killed)
    board.force_release("a", reason="needed elsewhere")
    # The state is fresh still.
    assert working.bash("make") == {}
    assert "your claim of a is lost" in working.denied(working.edit("README.md"))
    wait_for(lambda: working.keeper != killed)


# Files in use


def test_a_file_that_another_claim_reserves_is_denied_in_every_worktree(
    agents: Callable[..., Agent], board: Board, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    board.close()
    shutil.move(folder / ".dibs", folder / ".git" / "dibs")
    board = connect(str(folder / ".git" / "dibs" / "board.db"), actor="lead")
    request.addfinalizer(board.close)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True)
    for item in "abc":
        board.add(item, id=item, resources=[f"src/{item}"])
    board.add("d", id="d", project="site", resources=["site"])
    for item in "ad":
        board.claim(item, session=BOB)
    here, there = agents(), agents(OTHER_SESSION, "codex", at=tmp_path / "tree")
    for one, session, item in ((here, SESSION, "b"), (there, OTHER_SESSION, "c")):
        one.hook("SessionStart", source="startup")
        # An agent that never claimed anything is only told.
        told = one.edit("src/a/x.py")
        assert "permissionDecision" not in told
        assert "bob (session bob-1) reserves src/a/x.py for a" in told["additionalContext"]
        board.claim(item, session=session)
    assert "bob (session bob-1) reserves src/a/x.py for a" in here.denied(here.edit("src/a/x.py"))
    assert (here.edit("src/apis.py"), here.edit(f"src/b/{'x'}"), here.edit("/tmp/src/a/x.py")) == ({}, {}, {})
    assert "reserves src/a/x.py for a" in here.denied(here.edit(tmp_path / "tree" / "src" / "a" / "x.py"))
    # The board is the repository's own, and so are all of its projects.
    assert "reserves site/x for d" in here.denied(here.edit("site/x"))
    patch = "*** Begin Patch\n*** Update File: src/c/y.py\n*** Move to: src/a/new.py\n@@\n-a\n+b\n*** End Patch\n"
    answer = there.hook("PreToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_use_id="t")
    assert "reserves src/a/new.py for a" in there.denied(answer)
    # Codex takes a command for a patch, too.
    for command in (f"apply_patch <<'EOF'\n{patch}EOF", f"cd src && applypatch <<EOF\n{patch.replace('src/', '')}EOF"):
        assert "reserves src/a/new.py for a" in there.denied(there.bash(command)), command
    assert there.bash(f"cat >x.patch <<'EOF'\n{patch}EOF\n# apply_patch") == {}
    many = "".join(f"*** Add File: n{number}\n+x\n" for number in range(1001)) + "*** Add File: src/a/x\n+x\n"
    answer = there.hook("PreToolUse", tool_name="apply_patch", tool_input={"command": many}, tool_use_id="t")
    assert "reserves src/a/x for a" in there.denied(answer)
    # Writes by a command are not covered.
    assert here.bash("echo x >src/a/x.py") == {}
    board.done("a", session=BOB)
    assert here.edit("src/a/x.py") == {}


def test_a_reserved_file_is_found_through_links(working: Agent, board: Board, folder: Path, tmp_path: Path) -> None:
    board.add("D", id="d", resources=["data"])
    for item in "ad":
        board.claim(item, session=BOB)
    board.claim("b", session=SESSION)
    (folder / "src").mkdir()
    (folder / "src" / "a.py").touch()
    (folder / "link.py").symlink_to("src/a.py")
    (folder / "sources").symlink_to("src")
    (tmp_path / "disk").mkdir()
    (folder / "data").symlink_to(tmp_path / "disk")
    (folder / "src" / "deep").mkdir()
    (folder / "deep").symlink_to("src/deep")
    for path in ("link.py", "sources/a.py", "data/new.csv", "deep/../a.py"):
        assert "bob (session bob-1) reserves" in working.denied(working.edit(path)), path
    assert working.edit("sources/new.py") == {}


def test_paths_outside_of_git_count_from_the_folder_with_the_board(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    for item in "ab":
        board.add(item, id=item, resources=[f"src/{item}"])
    board.claim("a", session=BOB)
    (folder / "src").mkdir()
    agent = agents(at=folder / "src")
    agent.start()
    board.claim("b", session=SESSION)
    assert "reserves src/a/x for a" in agent.denied(agent.edit("a/x"))
    assert (agent.edit("b/x"), agent.edit("src/a/x")) == ({}, {})


def test_reservations_count_where_the_board_is_that_of_the_file(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    """A board above several repositories: their files have the same names."""
    for name in ("shop", "blog"):
        subprocess.run(["git", "init", "-q", str(folder / name)], check=True)
        board.add(name, id=name, project=name, resources=["src/x"])
        board.claim(name, session=BOB)
        board.add(f"{name} more", id=f"{name}-2", project=name)
    agent = agents(at=folder / "shop")
    agent.start()
    board.claim("blog-2", session=SESSION)
    told = agent.edit("src/x")
    assert "bob (session bob-1) reserves src/x for" in told["additionalContext"]
    board.done("blog", session=BOB)
    board.claim("shop-2", session=SESSION)
    assert "reserves src/x for shop" in agent.denied(agent.edit("src/x"))
    assert (agent.edit("../blog/src/x"), agent.edit("../src/x")) == ({}, {})


# Permissions


def test_only_a_simple_harmless_call_of_dibs_is_allowed(working: Agent) -> None:
    allow = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    assert working.bash("dibs progress a 'it is \"nearly\" done; $HOME'") == allow
    for command in ("dibs next; rm -rf x", "dibs work -- rm x", "dibs next && x", "dibs show $(x)", "dibs init"):
        assert working.bash(command) == {}, command


def test_a_tool_of_dibs_acts_as_the_session_and_is_allowed_only_if_the_plugin_brings_it(working: Agent) -> None:
    plugin = {"name": "plugin:dibs:dibs", "source": "plugin"}
    input = {"item": "a", "session": "someone-else"}
    given = {"hookEventName": "PreToolUse", "updatedInput": {"item": "a", "session": SESSION}}

    def answer(tool: str, server: dict[str, str] = plugin) -> dict[str, Any]:
        return working.hook("PreToolUse", tool_name=tool, tool_input=input, tool_use_id="t", mcp_server=server)

    assert answer("mcp__plugin_dibs_dibs__claim") == given | {"permissionDecision": "allow"}
    # A project can bring a server of either name.
    assert answer("mcp__plugin_dibs_dibs__claim", {"name": "plugin_dibs_dibs", "source": "project"}) == given
    assert answer("mcp__dibs__claim", {"name": "dibs", "source": "project"}) == given
    for foreign in ("mcp__dibs__evil__run", "mcp__dibs__run", "mcp__dibs__claim__x", "mcp__plugin_dibs_dibs__evil"):
        assert answer(foreign) == {}, foreign
