"""A board that is missing, damaged or out of reach: a real agent with hooks works as one without."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.conftest import client
from tests.agents.fleet import Connected
from tests.kit.agents.claude import Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.script import Json, after
from tests.kit.soak import in_a_soak

PLUGIN = Path(__file__).parent.parent.parent / "plugins" / "dibs"
#: What differs between two runs of one script: ids and times.
VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|Chunk ID: \w+|Wall time: [\d.]+|(toolu|call|msg)_\w+")
#: What a session starts with if there is a board. A hook asks no server whether it lives.
START = re.compile(r"(SessionStart hook additional context: )?dibs: this folder has a shared board.*another\.(\\n)*")
#: The parts of an entry in a transcript that are no bookkeeping of the client.
SAID = ("type", "role", "content", "name", "arguments", "input", "output")
#: What Codex is left with, which has it in a message of its own.
NOTHING = (
    json.dumps(["user", ""]),
    json.dumps({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": ""}]}),
)
NO_DATABASE = b"not a database" * 1000


class Pair:
    """Runs of one script: the first without hooks, the others with them."""

    def __init__(self, client: Connected, project: Path) -> None:
        self._client, self._project = client, project
        self.expected = self.run()
        hooks = (PLUGIN / "hooks" / "hooks.json").read_text().replace("${CLAUDE_PLUGIN_ROOT}", str(PLUGIN))
        client.use_hooks(json.loads(hooks)["hooks"])

    def run(self, meanwhile: Callable[[], object] = lambda: None, **environment: str) -> list[str]:
        """What the model was sent, and what the client recorded of it."""
        one = self._client
        steps = [
            one.shell("echo hello"),
            after("meanwhile", one.write(self._project / "file", "x")),
            one.shell("rm file"),
            "done",
        ]
        with one.start(self._project, steps, environment=environment) as agent:
            agent.await_pause("meanwhile")
            meanwhile()
            agent.go_on("meanwhile")
            assert agent.finish() == 0, agent.complaints
        sent = [[turn.role, turn.text] for turn in agent.requests[-1].turns]
        texts = (json.dumps(each) for each in [*sent, *map(_said, agent.transcript)] if each)
        return [VARYING.sub("", text) for text in texts]


@pytest.fixture(params=[Claude, *in_a_soak(Codex)])
def pair(request: pytest.FixtureRequest, model: Model, project: Path, tmp_path: Path) -> Pair:
    return Pair(client(request.param, model, tmp_path), project)


def test_without_a_board_that_works_an_agent_is_told_nothing_and_does_the_same(pair: Pair, project: Path) -> None:
    assert pair.run() == pair.expected
    board = project / ".git" / "dibs" / "board.db"
    board.parent.mkdir()
    board.write_bytes(NO_DATABASE)
    assert pair.run() == pair.expected
    assert board.read_bytes() == NO_DATABASE
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = pair.run(DIBS_STORE=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert _without_start(found) == pair.expected


@pytest.mark.soak
def test_an_agent_whose_board_is_damaged_at_work_is_told_nothing_and_does_the_same(
    pair: Pair, project: Path, claude: Claude
) -> None:
    claude.dibs("init", folder=project)
    board = project / ".git" / "dibs" / "board.db"
    assert _without_start(pair.run(lambda: board.write_bytes(NO_DATABASE))) == pair.expected


def _said(entry: Json) -> Json | None:
    """What the person, the model, a tool or a hook said, of an entry in a transcript."""
    if entry["type"] == "response_item":
        return {name: entry["payload"][name] for name in SAID if name in entry["payload"]}
    if entry["type"] in ("user", "assistant"):
        return {name: entry["message"][name] for name in SAID if name in entry["message"]}
    return None


def _without_start(texts: list[str]) -> list[str]:
    assert any(START.search(text) for text in texts)
    return [text for text in (START.sub("", text) for text in texts) if text not in NOTHING]
