"""The kit drives real agents, and they treat hooks as dibs relies on. No hook of dibs is at work here."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from tests.kit.agents import claude as claude_steps
from tests.kit.agents import codex as codex_steps
from tests.kit.agents import script
from tests.kit.agents.claude import ASK, Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.recorder import Answer, Recorded, Recorder, decision

#: What both clients give every hook.
COMMON = {"session_id", "transcript_path", "cwd", "hook_event_name"}
CLAUDE_TURN = COMMON | {"prompt_id", "permission_mode"}
CLAUDE_CALL = CLAUDE_TURN | {"effort", "tool_name", "tool_input", "tool_use_id"}
CLAUDE_PAYLOADS = {
    "SessionStart": COMMON | {"source"},
    "UserPromptSubmit": CLAUDE_TURN | {"prompt"},
    "PreToolUse": CLAUDE_CALL,
    "PostToolUse": CLAUDE_CALL | {"tool_response", "duration_ms"},
    "Stop": CLAUDE_TURN | {"effort", "stop_hook_active", "last_assistant_message", "background_tasks", "session_crons"},
    "SessionEnd": COMMON | {"prompt_id", "reason"},
}
CODEX_TURN = COMMON | {"model", "permission_mode", "turn_id"}
CODEX_CALL = CODEX_TURN | {"tool_name", "tool_input", "tool_use_id"}
CODEX_PAYLOADS = {
    "SessionStart": COMMON | {"model", "permission_mode", "source"},
    "UserPromptSubmit": CODEX_TURN | {"prompt"},
    "PreToolUse": CODEX_CALL,
    "PostToolUse": CODEX_CALL | {"tool_response"},
    "Stop": CODEX_TURN | {"stop_hook_active", "last_assistant_message"},
    "SessionEnd": COMMON | {"reason"},
}


@pytest.mark.soak
def test_two_clients_at_once_run_what_the_script_says(
    claude: Claude, codex: Codex, project: Path, model: Model
) -> None:
    before = len(model.escapes)
    with (
        claude.start(project, [claude_steps.shell("echo I am $CLAUDE_PID"), script.after("both", "done")]) as one,
        codex.start(project, [codex_steps.shell("echo I am $CODEX_THREAD_ID"), script.after("both", "done")]) as other,
    ):
        for agent in (one, other):
            agent.await_pause("both")
        for agent in (other, one):
            agent.go_on("both")
            assert agent.finish() == 0, agent.complaints
        assert one.results == [f"I am {one.pid}"]
        assert f"I am {other.session_id}" in other.results[0]
        for transcript in (one.transcript, other.transcript):
            assert "I am" in str(transcript)
    assert model.escapes[before:] == []


@pytest.mark.nightly
def test_claude_gives_the_hooks_of_a_plugin_these_payloads(
    claude: Claude, project: Path, recorder: Recorder, tmp_path: Path
) -> None:
    claude.install(_marketplace(tmp_path / "market", recorder.hooks(*CLAUDE_PAYLOADS)), "probe@market")
    with claude.start(project, [claude_steps.shell("echo hello"), "done"]) as agent:
        agent.await_turn()
        assert agent.finish() == 0
    assert _keys(recorder, CLAUDE_PAYLOADS) == CLAUDE_PAYLOADS
    (start,) = recorder.recorded("SessionStart")
    assert start.environment["CLAUDE_PID"] == str(agent.pid)
    assert "CLAUDE_ENV_FILE" in start.environment


@pytest.mark.nightly
def test_codex_gives_the_hooks_of_a_plugin_these_payloads_if_they_are_trusted(
    codex: Codex, project: Path, recorder: Recorder, tmp_path: Path
) -> None:
    codex.install(_marketplace(tmp_path / "market", recorder.hooks(*CODEX_PAYLOADS)), "probe@market")
    with codex.start(project, [codex_steps.shell("echo hello"), "done"], trust_hooks=False) as untrusted:
        assert untrusted.wait() == 0
        assert "hello" in untrusted.results[0]
    assert _keys(recorder, CODEX_PAYLOADS) == {}
    with codex.start(project, [codex_steps.shell("echo hello"), "done"]) as agent:
        assert agent.wait() == 0
    assert _keys(recorder, CODEX_PAYLOADS) == CODEX_PAYLOADS


@pytest.mark.nightly
def test_claude_asks_the_person_about_input_that_a_hook_changed_without_a_decision(
    claude: Claude, project: Path, recorder: Recorder
) -> None:
    """And only without one: `ask` asks about what needs no permission, `allow` passes over the person."""
    claude.use_hooks(recorder.hooks("PreToolUse"))
    with claude.start(project, [claude_steps.shell("echo plain"), "done"], permissions=ASK) as agent:
        agent.await_turn(1)
        assert agent.questions == [], "a command that changes nothing needs no permission"

        _change_input(recorder)
        agent.prompt([claude_steps.shell("touch refused"), "done"])
        question = agent.await_question(1, allow=False)
        agent.await_turn(2)
        assert question["input"]["command"] == "export MARK=set; touch refused"
        assert not (project / "refused").exists()

        agent.prompt([claude_steps.shell("echo MARK is $MARK"), "done"])
        agent.await_question(2, allow=True)  # although it changes nothing: the export needs it
        agent.await_turn(3)
        assert agent.results[-1] == "MARK is set"

        _change_input(recorder, permissionDecision="allow")
        agent.prompt([claude_steps.shell("touch allowed"), "done"])
        agent.await_turn(4)
        assert len(agent.questions) == 2
        assert (project / "allowed").exists()

        _change_input(recorder, permissionDecision="defer")
        agent.prompt([claude_steps.shell("touch deferred"), "done"])
        assert agent.await_turn(5)["stop_reason"] == "tool_deferred"
        assert not (project / "deferred").exists()


@pytest.mark.nightly
def test_claude_that_may_ask_nobody_runs_changed_input_and_neither_what_is_denied_nor_what_a_hook_asks_about(
    claude: Claude, project: Path, recorder: Recorder
) -> None:
    claude.use_hooks(recorder.hooks("PreToolUse"))
    _change_input(recorder)
    with claude.start(project, [claude_steps.shell("echo MARK is $MARK"), "done"]) as agent:
        agent.await_turn(1)
        assert agent.results == ["MARK is set"]
        for turn, verdict in ((2, "deny"), (3, "ask")):
            _decide(recorder, verdict, "somebody else has fix-login")
            agent.prompt([claude_steps.shell(f"touch {verdict}"), "done"])
            agent.await_turn(turn)
            assert "somebody else has fix-login" in agent.results[-1]
            assert not (project / verdict).exists()


@pytest.mark.nightly
def test_codex_takes_changed_input_only_with_allow_and_does_not_run_what_is_denied(
    codex: Codex, project: Path, recorder: Recorder
) -> None:
    codex.use_hooks(recorder.hooks("PreToolUse"))

    def result() -> str:
        with codex.start(project, [codex_steps.shell("echo MARK is [$MARK]; touch ran"), "done"]) as agent:
            assert agent.wait() == 0
            return agent.results[0]

    _decide(recorder, "deny", "somebody else has fix-login")
    assert "somebody else has fix-login" in result()
    assert not (project / "ran").exists()
    _change_input(recorder)
    assert "MARK is []" in result()
    _change_input(recorder, permissionDecision="allow")
    assert "MARK is [set]" in result()


def test_a_hook_wakes_an_idle_claude(claude: Claude, project: Path, recorder: Recorder) -> None:
    offer = threading.Event()

    def wait_for_an_offer(_: Recorded) -> Answer:
        offer.wait(20)
        return Answer(stderr="fix-login is offered to you", exit=2)

    recorder.on("SessionStart", wait_for_an_offer)
    claude.use_hooks({**recorder.hooks("SessionStart", asyncRewake=True), **recorder.hooks("UserPromptSubmit")})
    with claude.start(project, ["I rest", "I work"]) as agent:
        assert agent.await_turn(1)["result"] == "I rest"
        offer.set()
        assert agent.await_turn(2)["result"] == "I work"
        assert "fix-login is offered to you" in agent.texts[-1]
    # What no person typed is a prompt for hooks all the same.
    assert "<task-notification>" in recorder.payloads("UserPromptSubmit")[1]["prompt"]


@pytest.mark.soak
def test_claude_starts_a_new_session_by_clear_and_keeps_it_by_compact_and_resume(
    claude: Claude, project: Path, recorder: Recorder
) -> None:
    claude.use_hooks(recorder.hooks("SessionStart", "SessionEnd"))
    with claude.start(project, ["one"]) as agent:
        agent.await_turn(1)
        first = agent.session_id
        agent.prompt("/clear")
        agent.await_turn(2)
        agent.prompt(["two"])
        agent.await_turn(3)
        second = agent.session_id
        agent.prompt("/compact")
        agent.await_turn(4)
        assert agent.finish() == 0
    with claude.start(project, ["three"], resume=second) as resumed:
        assert resumed.finish() == 0
    assert first != second
    starts = [(each["source"], each["session_id"]) for each in recorder.payloads("SessionStart")]
    ends = [(each["reason"], each["session_id"]) for each in recorder.payloads("SessionEnd")]
    assert starts == [("startup", first), ("clear", second), ("compact", second), ("resume", second)]
    assert ends == [("clear", first), ("other", second), ("other", second)]


@pytest.mark.soak
def test_claude_starts_a_new_session_by_fork(claude: Claude, project: Path, recorder: Recorder) -> None:
    claude.use_hooks(recorder.hooks("SessionStart"))
    with claude.start(project, ["one"]) as agent:
        assert agent.finish() == 0
    with claude.start(project, ["two"], resume=agent.session_id, fork=True) as forked:
        assert forked.finish() == 0
    assert forked.session_id != agent.session_id
    starts = [(each["source"], each["session_id"]) for each in recorder.payloads("SessionStart")]
    assert starts == [("startup", agent.session_id), ("fork", forked.session_id)]


@pytest.mark.soak
def test_codex_keeps_its_session_by_resume_and_starts_one_by_fork(
    codex: Codex, project: Path, recorder: Recorder
) -> None:
    codex.use_hooks(recorder.hooks("SessionStart"))
    with codex.start(project, ["one"]) as agent:
        agent.wait()
    with codex.start(project, ["two"], resume=agent.session_id) as resumed:
        resumed.wait()
    with codex.start(project, ["three"], resume=agent.session_id, fork=True) as forked:
        forked.wait()
    assert [(each["source"], each["session_id"]) for each in recorder.payloads("SessionStart")] == [
        ("startup", agent.session_id),
        ("resume", agent.session_id),
        ("fork", forked.session_id),
    ]


@pytest.mark.soak
def test_hooks_tell_the_subagents_of_claude_apart_and_its_shells_do_not(
    claude: Claude, project: Path, recorder: Recorder
) -> None:
    claude.use_hooks(recorder.hooks("PreToolUse", "SubagentStart", "SubagentStop"))
    work = [claude_steps.shell("echo $CLAUDE_CODE_SESSION_ID"), "done"]
    two = script.together(claude_steps.subagent(work), claude_steps.subagent(work))
    with claude.start(project, [two, *work]) as agent:
        assert agent.finish() == 0
        assert agent.results[-1] == agent.session_id
        told = {request.results[-1] for request in agent.requests if request.results and len(request.results) == 1}
        assert told == {agent.session_id}
    started = {each["agent_id"] for each in recorder.payloads("SubagentStart")}
    assert len(started) == 2
    assert {each["agent_id"] for each in recorder.payloads("SubagentStop")} == started
    shells = [each for each in recorder.payloads("PreToolUse") if each["tool_name"] == "Bash"]
    assert {each.get("agent_id") for each in shells} == started | {None}
    assert {each["session_id"] for each in shells} == {agent.session_id}


@pytest.mark.soak
def test_hooks_and_shells_tell_a_subagent_of_codex_apart(codex: Codex, project: Path, recorder: Recorder) -> None:
    codex.use_hooks(recorder.hooks("SubagentStart", "SubagentStop"))
    spawn = codex_steps.subagent([codex_steps.shell("echo $CODEX_SESSION_ID $CODEX_THREAD_ID"), "done"])
    with codex.start(project, [*spawn, script.after("subagent", "done")]) as agent:
        subagent = recorder.await_event("SubagentStop").payload["agent_id"]
        agent.go_on("subagent")
        assert agent.wait() == 0
        assert any(f"{agent.session_id} {subagent}" in str(request.results) for request in agent.requests)
    assert [each["agent_id"] for each in recorder.payloads("SubagentStart")] == [subagent]


@pytest.mark.soak
def test_claude_lets_anyone_take_a_task_of_its_own(claude: Claude, project: Path, recorder: Recorder) -> None:
    claude.use_hooks(recorder.hooks("TaskCreated", "TaskCompleted"))
    new = script.call("TaskCreate", {"subject": "Fix login", "description": "", "activeForm": ""})

    def take(owner: str) -> script.Step:
        return script.call("TaskUpdate", {"taskId": "1", "owner": owner, "status": "in_progress"})

    listed = script.call("TaskList", {})
    done = script.call("TaskUpdate", {"taskId": "1", "status": "completed"})
    steps = [new, take("one"), take("two"), listed, done, "done"]
    with claude.start(project, steps, environment=claude_steps.TASKS) as agent:
        assert agent.finish() == 0
        assert agent.results[3] == "#1 [in_progress] Fix login (two)"
    for event in ("TaskCreated", "TaskCompleted"):
        assert [each["task_id"] for each in recorder.payloads(event)] == ["1"]


@pytest.mark.soak
def test_an_idle_teammate_of_claude_goes_on_with_what_a_hook_says(
    claude: Claude, project: Path, recorder: Recorder
) -> None:
    offer = Answer(stderr="fix-login is ready", exit=2)
    recorder.on("TeammateIdle", lambda _: offer if len(recorder.recorded("TeammateIdle")) == 1 else Answer())
    claude.use_hooks(recorder.hooks("TeammateIdle"))
    mate = claude_steps.teammate("worker", ["I am idle", claude_steps.shell("touch worked"), "idle again"])
    with claude.start_terminal(project, [mate, "I lead"], environment=claude_steps.TEAMS) as agent:
        assert recorder.await_event("TeammateIdle", 2).payload["teammate_name"] == "worker"
        assert any("fix-login is ready" in str(request.texts) for request in agent.requests)
    assert (project / "worked").exists()


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_claude_ends_its_session_when_it_is_terminated(
    claude: Claude, project: Path, recorder: Recorder, number: signal.Signals
) -> None:
    claude.use_hooks(recorder.hooks("SessionEnd"))
    with claude.start(project, [script.after("busy", "never said")]) as agent:
        agent.await_pause("busy")
        agent.signal(number)
        agent.wait()
    assert [each["reason"] for each in recorder.payloads("SessionEnd")] == ["other"]


def _keys(recorder: Recorder, events: dict[str, set[str]]) -> dict[str, set[str]]:
    return {event: set(given[0]) for event in events if (given := recorder.payloads(event))}


def _marketplace(folder: Path, hooks: script.Json) -> Path:
    """With one plugin, `probe@market`, which has these hooks and nothing else."""
    plugin = folder / "plugins" / "probe"
    files = {
        folder / ".claude-plugin" / "marketplace.json": {
            "name": "market",
            "owner": {"name": "tests"},
            "plugins": [{"name": "probe", "source": "./plugins/probe", "description": "recorded hooks"}],
        },
        plugin / ".claude-plugin" / "plugin.json": {"name": "probe", "version": "1.0.0", "description": "for tests"},
        plugin / "hooks" / "hooks.json": {"hooks": hooks},
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    return folder


def _decide(recorder: Recorder, verdict: str, reason: str) -> None:
    answer = decision("PreToolUse", permissionDecision=verdict, permissionDecisionReason=reason)
    recorder.on("PreToolUse", lambda _: answer)


def _change_input(recorder: Recorder, **fields: str) -> None:
    """From now on, every command is one that first exports MARK."""

    def change(given: Recorded) -> Answer:
        tool_input = given.payload["tool_input"]
        command = f"export MARK=set; {tool_input['command']}"
        return decision("PreToolUse", updatedInput={**tool_input, "command": command}, **fields)

    recorder.on("PreToolUse", change)
