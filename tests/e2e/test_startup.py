"""The hot commands stay light: what they import, and how much memory a claim takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from tests.e2e.conftest import Dibs
from tests.server.process import Serving

#: Each of these costs milliseconds that an agent pays with every claim and every heartbeat.
FORBIDDEN = {
    "argparse",
    "asyncio",
    "concurrent.futures",
    "contextlib",
    "dataclasses",
    "datetime",
    "gettext",
    "hashlib",
    "http",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "pathlib",
    "random",
    "re",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "typing",
    "urllib",
    "uuid",
}
#: Runs a command as the script does, then prints what it has imported. `os._exit` would leave before that.
LIST_MODULES = """
import sys
from dibs.cli.main import main, postpone_collections
postpone_collections()
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(sys.modules))
sys.exit(code)
"""
MEMORY_MAX_MEGABYTES = 30

HOT = {
    "claim": ("claim", "x"),
    "claim --json": ("claim", "x", "--json"),
    "next": ("next",),
    "heartbeat": ("heartbeat",),
    "heartbeat ITEM": ("heartbeat", "x"),
    "progress": ("progress", "x", "a note"),
    "release": ("release", "x"),
    "release --park": ("release", "x", "--park"),
    "submit": ("submit", "x", "--draft", "d"),
    "done": ("done", "x"),
    "fail": ("fail", "x", "--json"),
    "dibs alone": ("--no-color",),
}

#: Every module of dibs that all of these commands import. Each takes a tenth of a millisecond and more of every claim
#: and every heartbeat.
COMMON = (
    *("board", "board.base", "board.work"),
    "check",
    *("cli", "cli.claim_commands", "cli.commands", "cli.context", "cli.identity", "cli.main", "cli.parser"),
    *("config", "errors", "location"),
    *("model", "model.records", "model.results"),
    *("rules", "rules.claiming", "rules.decision", "rules.ending", "rules.fencing", "rules.limits", "rules.overdue"),
    *("rules.queueing", "rules.refusals", "rules.resources", "rules.table"),
    *("store", "store.contract", "store.open"),
    *("store.sql", "store.sql.dispatch", "store.sql.queries", "store.sql.rows", "store.sql.transaction"),
    *("store.sqlite", "store.sqlite.bell", "store.sqlite.claim_path", "store.sqlite.database", "store.sqlite.engine"),
    *("store.sqlite.group_commit", "store.sqlite.lock", "store.sqlite.side_files", "store.sqlite.store"),
    "store.sqlite.transaction",
    *("system", "system.fork", "system.mounts"),
    *("text", "text.json_text", "text.priorities", "text.times"),
    "value",
    # Only outside of a git repository, where a board is searched in the folders above.
    *("store.vault", "store.vault.layout"),
)
AS_TEXT, AS_JSON = ("cli.claim_lines", "cli.render"), ("text.wire",)
#: What a command imports besides.
BESIDES = {
    # The options of the item that `claim --subject` adds.
    "claim": (*AS_TEXT, "model.item_fields"),
    "claim --json": (*AS_JSON, "model.item_fields"),
    "next": (*AS_TEXT, "store.sqlite.choose_next"),
    "heartbeat": AS_TEXT,
    "heartbeat ITEM": AS_TEXT,
    "progress": AS_TEXT,
    "release": AS_TEXT,
    "release --park": AS_TEXT,
    "submit": (*AS_TEXT, "cli.items", "cli.listing", "cli.review", "model.item_fields"),
    "done": AS_TEXT,
    "fail": (*AS_JSON, "randomness"),
}


@pytest.mark.parametrize("command", HOT)
def test_a_hot_command_imports_nothing_heavy(dibs: Dibs, command: str) -> None:
    words = HOT[command]
    dibs.ok("add", "x", "--id", "x")
    dibs.ok("add", "y", "--id", "y")
    # So that the session is known.
    dibs.ok("claim", "y" if words[0] == "next" else "x")
    done = subprocess.run(
        # Isolated from what a site's own start-up files import, which is not ours to answer for.
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {_one_line(LIST_MODULES)}", *words],
        cwd=dibs.folder,
        env=dibs.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    assert "apsw" in imported
    assert not imported & FORBIDDEN
    assert not {name for name in imported if name.startswith(("dibs.server", "dibs.testing", "dibs.cli.demo"))}
    if command in BESIDES:
        ours = {name for name in imported if name.startswith("dibs")}
        assert not {"keyword", "reprlib"} & imported, "collections is imported: see postpone_collections"
        assert ours == {"dibs", *(f"dibs.{name}" for name in (*COMMON, *BESIDES[command]))}


#: What a request over HTTP needs of the standard library, and nothing else of what is forbidden.
OVER_HTTP = {"contextlib", "datetime", "json", "re", "socket", "urllib"}


def test_a_claim_over_http_imports_only_the_client_of_the_standard_library(dibs: Dibs) -> None:
    dibs.ok("add", "x", "--id", "x")
    with Serving(dibs.folder, "--quiet") as server:
        environment = dibs.environment | {"DIBS_STORE": server.url, "HOME": str(dibs.folder)}
        script = f"import sys; sys.path[:] = {sys.path!r}; {_one_line(LIST_MODULES)}"
        done = subprocess.run(
            [sys.executable, "-S", "-c", script, "claim", "x"],
            cwd=dibs.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    imported = set(done.stderr.split())
    assert "dibs.store.http.store" in imported
    assert imported & FORBIDDEN <= OVER_HTTP
    assert not imported & {"apsw", "http.client", "httpx2", "psycopg", "dibs.server"}


#: A session that the hooks of a coding agent look after, and what its client sends.
PAYLOAD = '{"session_id": "agent-1", "cwd": %s, "tool_name": "%s", "tool_input": {"file_path": "x", "command": "x"}}'


@pytest.mark.parametrize(
    ("event", "tool"), [("PreToolUse", "Write"), ("PreToolUse", "Bash"), ("PreToolUse", "TaskUpdate"), ("Stop", "")]
)
def test_a_hook_imports_nothing_heavy(dibs: Dibs, event: str, tool: str) -> None:
    dibs.ok("add", "x", "--id", "x", "--resource", "x")
    dibs.ok("claim", "x")
    environment = dibs.environment | {"XDG_STATE_HOME": str(dibs.folder / "state"), "CLAUDE_PID": "1"}
    payload = PAYLOAD % (json.dumps(str(dibs.folder)), tool)
    dibs.ok("hook", "SessionStart", input=payload, environment=environment)
    (dibs.folder / "state" / "dibs" / "agents" / "agent-1" / "until").unlink(missing_ok=True)
    script = f"import sys; sys.path[:] = {sys.path!r}; {_one_line(LIST_MODULES)}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script, "hook", event],
        cwd=dibs.folder,
        env=environment,
        input=payload,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("reserves x for x" in done.stdout) == (tool == "Write")
    imported = set(done.stderr.split())
    assert "apsw" in imported
    assert not imported & FORBIDDEN


#: What each of these leaves in `sys.modules` is the package itself.
WITH_COLLECTIONS = {
    "the library": "import dibs.store.sqlite.store, dibs.board, dibs.cli.main, collections",
    "a program that uses it": "from dibs.cli.main import *; postpone_collections(); import collections.abc, asyncio",
}


@pytest.mark.parametrize("code", WITH_COLLECTIONS.values(), ids=WITH_COLLECTIONS.keys())
def test_only_the_program_dibs_does_without_collections_until_something_needs_it(code: str) -> None:
    script = f"import sys; sys.path[:] = {sys.path!r}; {code}; assert sys.modules['collections'].__path__"
    subprocess.run([sys.executable, "-S", "-c", script], check=True)


def test_only_the_module_of_the_command_is_imported(dibs: Dibs) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _one_line(LIST_MODULES), "claim", "--help"],
        env=dibs.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = {name for name in done.stderr.split() if name.startswith("dibs.cli.")}
    expected = ("main", "commands", "parser", "context", "identity", "claim_commands")
    assert ours == {f"dibs.cli.{name}" for name in expected}
    assert "dibs.board" not in done.stderr.split()


def test_a_claim_takes_less_than_30_megabytes(dibs: Dibs) -> None:
    dibs.ok("add", "x", "--id", "x")
    measure = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", measure, sys.executable, "-m", "dibs.cli.main", "claim", "x"]
    done = subprocess.run(command, cwd=dibs.folder, env=dibs.environment, capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert resource.RUSAGE_CHILDREN  # the measuring process has no other child than the claim
    assert int(done.stdout) * unit / 1e6 < MEMORY_MAX_MEGABYTES


def _one_line(script: str) -> str:
    return "; ".join(script.strip().splitlines())
