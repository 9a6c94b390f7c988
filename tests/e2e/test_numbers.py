"""One form for each kind of number, on every interface: the command line (`--json`, `--brief`), HTTP and MCP.

An instant is ISO 8601 with milliseconds, in UTC. A time span is a number of seconds, under a name that ends in
`_seconds`. A priority is a whole number. A whole number has no fraction.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dibs.cli.commands import COMMANDS
from dibs.cli.main import main
from dibs.text.wire import OPAQUE, is_instant
from tests.e2e.conftest import Dibs
from tests.kit import sqlite
from tests.kit.http import Host
from tests.mcp.client import data_of, request
from tests.server.calling import serving

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SPAN = re.compile(r"[0-9.]+ ?(ms|s|m|h|d|seconds|minutes)")
WHOLE = {"priority", "token", "revision", "attempts", "strikes", "failures", "retries", "position", "ticket"}

#: A call of every command, in an order in which each succeeds on the board of the fixture.
CALLS = """
add New --id n --not-before 2h --timeout 90m --priority high
edit n --not-before now --priority 3
list --all
show b
why c
who
log a
events
runs
stats
stats --since 1h
timeline
sessions --all
agent set tester --claims-per-minute 1.5
agent list
config
claim n --ttl 90s
heartbeat
heartbeat n
progress n noted
submit n --draft text
send-back n --comment again
annotate n --link pr=https://example.org/1
next -n 1
claim n
release n
park n
unpark n
claim n
fail n --reason r
retry n
claim n
done n
wait b --session s2
leave b --session s2
force-release b --reason r
cancel b
add Two --id two --needs-approval
approve two --yes
claim two
reject two --reason r
reopen two
add Three --id three
exec three --agent runner -- true
add Four --id four
work --agent runner --once -- true
add Twelve --id twelve --subject github:acme/shop#12
claim --subject github:acme/shop#12
session start --agent tester --id t1
hand twelve --to t1
session end t1
sweep
doctor
migrate
prune --older-than 30d --yes
backup copy.db
restore copy.db --yes
export board.jsonl
copy . other.db
mirror tasks.json --once
init elsewhere
vault init vault
vault hub init hub.git
import --store elsewhere/.dibs/board.db board.jsonl
remove-board --store elsewhere/.dibs/board.db --yes
webhook add https://hooks.example.org/dibs --kind claimed
webhook list
webhook dead KEY
webhook rotate KEY
webhook pause KEY
webhook resume KEY
webhook remove KEY
key create --role agent --expires 30d
key list
key rotate KEY
key revoke KEY
tasks link shop
trust --list
setup claude --check
prime
completion bash
"""
#: What answers in another shape, only ends when it is told to, or needs a server, a hub or a repository.
NOT_CALLED = {"github watch", "github test", "webhook test", "webhook retry", "deliver"}
NOT_CALLED |= {"serve", "open", "top", "mcp", "hook", "demo", "key link", "vault sync"}
NOT_CALLED |= {"guard hook", "guard install", "guard remove", "guard verify", "worktree list", "worktree clean"}
#: What prints the output of others, and runs in a process of its own.
RUNS_OTHERS = {"exec", "work"}


def check(value: Any, where: str, name: str = "") -> None:
    """Whether each number has the form of its kind."""
    if name in OPAQUE:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            check(inner, where, key)
    elif isinstance(value, list):
        for inner in value:
            check(inner, where, name)
    elif isinstance(value, bool) or value is None:
        assert not name.endswith("_seconds") or value is None, (where, name)
    elif is_instant(name):
        assert INSTANT.fullmatch(str(value)), (where, name, value)
    elif isinstance(value, float):
        assert not value.is_integer() or name.endswith("_rate"), (where, name, value)
        assert name not in WHOLE, (where, name, value)
    elif name.endswith("_seconds") or name in WHOLE:
        assert isinstance(value, int), (where, name, value)
    elif isinstance(value, str):
        assert not INSTANT.fullmatch(value), f"{where}: {name} is an instant"
        assert not SPAN.fullmatch(value), f"{where}: {name} is a time span"


@pytest.fixture
def run(template: Dibs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., str]:
    """Calls the command line on a copy of the board, in this process."""
    shutil.copytree(template.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**template.environment, "HOME": str(tmp_path / "home")}.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> str:
        code = main(list(words))
        out, err = capsys.readouterr()
        assert code in (0, 1), (words, code, out, err)
        return str(out)

    return run


@pytest.mark.parametrize("option", ["--json", "--brief"])
def test_every_command_writes_numbers_in_one_form(
    run: Callable[..., str], template: Dibs, tmp_path: Path, option: str
) -> None:
    called = set()
    key = ""
    for line in CALLS.strip().splitlines():
        words = line.replace("KEY", key).split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        called.add(name)
        call = partial(template.ok, folder=tmp_path) if name in RUNS_OTHERS else run
        before, dashes, after = line.replace("KEY", key).partition(" -- ")
        out = call(*before.split(), option, *(["--", *after.split()] if dashes else []))
        answers = [json.loads(one) for one in out.splitlines() if one.startswith("{")]
        assert answers, (line, out)
        for answer in answers:
            check(answer, line)
        made = {"key create": "key", "webhook add": "webhook"}.get(name)
        key = answers[0][made]["id"] if made else key
    assert called | NOT_CALLED == set(COMMANDS)


#: Reads of the same thing: the command, the route, and the tool with its arguments.
SAME: dict[str, tuple[str, str | None, dict[str, str]]] = {
    "show b": ("/v1/items/b", "show", {"item": "b"}),
    "list": ("/v1/items?statuses=ready&statuses=in_progress&statuses=scheduled", "list", {}),
    "who": ("/v1/who", "who", {}),
    "why a": ("/v1/items/a/why?session=s1", "why", {"item": "a"}),
    "runs": ("/v1/runs", None, {}),
    "sessions": ("/v1/sessions", None, {}),
    "agent list": ("/v1/agents", None, {}),
    "stats": ("/v1/stats", None, {}),
    "log b": ("/v1/items/b/log", None, {}),
}


def test_http_and_mcp_write_the_same_as_the_command_line(
    http_host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The clock stands still, so that spans are equal too."""
    with sqlite.harness(tmp_path) as harness, serving(http_host, harness) as served:
        board = served.board
        board.set_agent("coder", types=["task"], claims_per_minute=1.5)
        board.start_session("coder", id="s1", meta={"n": 1.0})
        board.add("A", id="a", priority="high", not_before="2099-01-01T00:00Z", timeout_seconds=90)
        board.add("B", id="b", resources=["src"], retries=2)
        board.claim("b", session="s1", ttl_seconds=100.5)
        served.clock.advance(1.5)
        for name, value in {"DIBS_STORE": served.url, "DIBS_KEY": served.admin.key, "DIBS_SESSION": "s1"}.items():
            monkeypatch.setenv(name, str(value))
        for line, (path, tool, arguments) in SAME.items():
            printed = {}
            for option in ("--json", "--brief"):
                assert main([*line.split(), option]) == 0
                printed[option] = json.loads(capsys.readouterr().out)
            answer = served.admin.get(path).body
            check(answer, path)
            shown = printed["--json"]
            assert _agree(answer, shown if isinstance(answer, dict) else next(iter(shown.values()))), line
            if tool is not None:
                rpc = request(1, "tools/call", name=tool, arguments={**arguments, "session": "s1"})
                told = data_of(served.admin.post("/mcp", rpc).body)
                check(told, line)
                assert _agree(told, printed["--brief"]), line


def _agree(one: Any, other: Any) -> bool:
    """Whether everything that both have is equal. An interface may add a field."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = one.keys() & other.keys()
        return bool(both or one == other) and all(_agree(one[name], other[name]) for name in both)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return bool(one == other)
