"""Snippets of pages that have no test of their own: typed, or read as the program that they are for reads them."""

from __future__ import annotations

import grp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dibs.board import connect, make
from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.config import SERVER_DEFAULTS
from dibs.mcp import messages
from tests.docs.markdown import ROOT, blocks, read
from tests.docs.shop import Shop
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.process import Serving

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": messages.VERSIONS[0],
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
CALLED = "http://127.0.0.1:8377"


def type_all(shop: Shop, block: str, shell: str = "sh") -> str:
    done = shop.type(f"set -e\n{block}", shell=shell)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    assert shop.type("dibs init").returncode == 0
    return shop


# Coding agents


@pytest.mark.parametrize("page", ["README.md", "docs/guides/agents.md"])
def test_a_client_is_set_up(tmp_path: Path, page: str) -> None:
    shop = Shop(tmp_path)
    (lines,) = [block for block in blocks(read(page), "shell") if block.startswith("dibs init")]
    type_all(shop, lines.replace("dibs setup claude", "dibs setup claude --yes"))
    assert shop.type("dibs setup claude --check").returncode == 0


def test_tasks_are_linked(shop: Shop) -> None:
    _, lines = blocks(read("docs/guides/agents.md"), "shell")
    shop.type('dibs add "Fix login"')
    type_all(shop, lines)
    (task,) = (Path(shop.environment["HOME"]) / ".claude" / "tasks" / "shop").glob("*.json")
    assert json.loads(task.read_text())["subject"] == "Fix login"


# MCP

MCP = read("docs/guides/mcp.md")
STDIO, OVER_HTTP, CLAIMED, REFUSED = (json.loads(block) for block in blocks(MCP, "json"))


@pytest.mark.parametrize("client", ["json", "toml"])
def test_a_client_starts_the_server_on_its_streams(shop: Shop, client: str) -> None:
    (table,) = blocks(MCP, "toml")
    servers = STDIO["mcpServers"] if client == "json" else tomllib.loads(table)["mcp_servers"]
    line = shlex.join([servers["dibs"]["command"], *servers["dibs"]["args"]])
    (shop.folder / "messages").write_text(json.dumps(INITIALIZE) + "\n")
    told = json.loads(shop.type(f"{line} <messages").stdout)
    assert told["result"]["serverInfo"]["name"] == "dibs"


def test_a_client_reaches_the_server_over_http(tmp_path: Path) -> None:
    make(str(tmp_path / ".dibs" / "board.db"), folder=str(tmp_path))
    with Serving(tmp_path, "--quiet") as server:
        settings = OVER_HTTP["mcpServers"]["dibs"]
        key = server.admin().key
        url = urlsplit(settings["url"].replace("https://board.example.org", server.url))
        headers = {name: value.replace("KEY", key) for name, value in settings["headers"].items()}
        headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection = HTTPConnection(str(url.hostname), int(url.port or 0), timeout=PATIENCE_SECONDS)
        connection.request("POST", url.path, json.dumps(INITIALIZE).encode(), headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert '"serverInfo"' in answer.read().decode()
        connection.close()


def test_a_model_reads_the_answers_that_are_shown(shop: Shop) -> None:
    type_all(shop, 'dibs add "Fix login" --id fix-login --type bug --priority high')
    claim = "dibs claim fix-login --brief --agent {} --session {}"
    assert close(shop.type(claim.format("coder", "s1")).stdout) == close(json.dumps(CLAIMED))
    assert close(shop.type(claim.format("fixer", "s2")).stdout) == close(json.dumps(REFUSED))


def close(line: str) -> Any:
    """An answer without what the time that has passed changes, and without what is only for the command line."""
    found = json.loads(re.sub(r"\b29m\b|\b30m\b", "Nm", line))
    found.pop("do", None)
    found["message"] = found.get("message", "").partition(";")[0]
    assert found.pop("remaining_seconds", 1800) > 1700
    return found


# Other pages


def test_webhooks_are_added(shop: Shop) -> None:
    lines = blocks(read("docs/guides/webhooks.md"), "shell")
    for block in lines:
        assert "whsec_" in type_all(shop, block)
    assert len(shop.answer("dibs webhook list")["webhooks"]) == len(lines)


def test_a_claim_is_verified_before_what_cannot_be_undone(tmp_path: Path) -> None:
    _, lines = blocks(read("docs/guides/workers.md"), "python")
    sent: list[str] = []
    with connect(str(tmp_path / "board.db"), create=True, folder=str(tmp_path)) as board:
        board.add("Fix login", id="fix-login")
        with board.session("coder") as session, session.claim("fix-login") as claim:
            exec(lines, {"claim": claim, "send": sent.append, "letter": "Dear"})  # noqa: S102 - that is what is shown
    assert sent == ["Dear"]


def test_a_group_shares_a_board(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    type_all(shop, "dibs init --store .dibs/board.db")
    (lines,) = blocks(read("docs/operations/trust.md"), "shell")
    type_all(shop, lines.replace("team", grp.getgrgid(os.getgid()).gr_name))
    type_all(shop, "dibs add x --id x --store .dibs/board.db")
    folder = shop.folder / ".dibs"
    assert folder.stat().st_mode & 0o7777 == 0o2770
    for path in (folder / "board.db", *folder.glob("board.db-*")):
        assert path.stat().st_mode & 0o060 == 0o060, path


def test_completion_is_loaded_by_a_shell(shop: Shop) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash on this machine")
    _, _, lines, _ = blocks(read("docs/install.md"), "shell")
    type_all(shop, lines.replace("man dibs", "complete -p dibs"), shell="bash")


def test_the_service_of_a_worker_starts_what_there_is() -> None:
    (unit,) = blocks(read("docs/guides/commands.md"), "ini")
    (line,) = re.findall(r"^ExecStart=\S*/dibs (.*)$", unit, re.MULTILINE)
    name, *rest = shlex.split(line)
    assert build(name, COMMANDS[name])[0].parse(rest).command == ["/usr/local/bin/fix"]


def test_prometheus_asks_where_the_server_is() -> None:
    (block,) = blocks(read("docs/operations/metrics.md"), "yaml")
    jobs = yaml.safe_load(block)["scrape_configs"]
    assert jobs[0]["static_configs"] == [{"targets": [f"{SERVER_DEFAULTS.host}:{SERVER_DEFAULTS.port}"]}]
    assert all(set(job["authorization"]) == {"credentials_file"} for job in jobs)
    assert all(job["job_name"].startswith("dibs") for job in jobs), "the alert rules find the boards by this"


def test_the_names_in_lines_for_containers_are_those_of_the_files() -> None:
    build_image, compose, kubernetes = blocks(read("docs/operations/containers.md"), "shell")
    for path in re.findall(r"-f (\S+)", build_image + compose + kubernetes):
        assert (ROOT / path).is_file(), path
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    (service,) = re.findall(r" exec (\S+) dibs", compose)
    assert service in services
    assert f"{SERVER_DEFAULTS.port}" in "".join(services[service]["ports"])
    for variable in re.findall(r"export (DIBS_DB_\w+)=", compose):
        assert variable in (ROOT / "deploy" / "compose.yaml").read_text()
    deployments = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
    (name,) = re.findall(r"exec deploy/(\S+) --", kubernetes)
    assert name in [one["metadata"]["name"] for one in deployments if one["kind"] == "Deployment"]


@pytest.mark.parametrize("page", ["docs/operations/performance.md", "docs/operations/scaling.md"])
def test_the_parts_of_the_measurements_are_listed(page: str) -> None:
    (lines,) = blocks(read(page), "sh")
    first, *others = lines.splitlines()
    words = shlex.split(first)
    assert words[:3] == ["python", "-m", "bench"]
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True)
    for line in others:
        if line.startswith("python -m bench ") and not line.split()[3].startswith("-"):
            assert line.split()[3] in done.stdout
