"""The kit drives the agents of the soak as well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agents.conftest import client
from tests.kit.agents.model import Model
from tests.kit.agents.others import Copilot, Gemini, Goose, Opencode, Other

pytestmark = pytest.mark.skipif(not os.environ.get("DIBS_SOAK"), reason="copilot, gemini, goose, opencode: in a soak")


@pytest.mark.parametrize("kind", [Copilot, Gemini, Goose, Opencode], ids=lambda kind: kind.kind)
def test_it_runs_what_the_script_says(kind: type[Other], model: Model, project: Path, tmp_path: Path) -> None:
    other = client(kind, model, tmp_path)
    with other.start(project, [other.shell("echo hello > ran; echo hello to the model"), "done"]) as agent:
        assert agent.wait() == 0, agent.complaints
        assert any("hello to the model" in str(request.results) for request in agent.requests), agent.requests
    assert (project / "ran").read_text() == "hello\n"
