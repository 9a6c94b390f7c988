"""Cursor cannot be run here: what setup writes and what hooks answer is judged by the hook engine in Cursor's SDK."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dibs.agents import answers
from dibs.agents.payload import Payload
from tests.agents.person import USER, Person
from tests.kit import npm

ENGINE = Path(__file__).parents[1] / "kit" / "agents" / "cursor_hooks.mjs"
SDK = "@cursor/sdk@1.0.32"

pytestmark = pytest.mark.soak


def judged(config: Any, answers: list[tuple[str, Any]]) -> Any:
    packages, why_not = npm.packages("cursor-sdk-1.0.32", SDK)
    if why_not or not shutil.which("node"):
        pytest.skip(f"cursor: {why_not or 'there is no node on this machine'}")
    done = subprocess.run(
        ["node", str(ENGINE), str(packages / "@cursor" / "sdk" / "dist" / "esm")],
        input=json.dumps({"config": config, "answers": answers}),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_engine_takes_the_hooks_of_setup(person: Person) -> None:
    person.setup("cursor", "--yes")
    config = json.loads(person.settings("cursor", USER).read_text())
    assert judged(config, [])["config"] == {"isValid": True, "errors": []}
    config["hooks"]["SessionStart"] = config["hooks"].pop("sessionStart")
    assert not judged(config, [])["config"]["isValid"], "it knows its events"


def test_the_engine_takes_the_answers_of_hooks() -> None:
    payload = Payload(client="cursor", event="", session="s")
    given = [
        ("preToolUse", json.loads(answers.deny(payload, "no"))),
        ("sessionStart", json.loads(answers.tell(payload, "context"))),
        ("stop", json.loads(answers.go_on(payload, "finish it"))),
        ("preToolUse", json.loads(answers.pass_on(payload, context="in use"))),
    ]
    found = judged({"version": 1, "hooks": {}}, [*given, ("sessionStart", {"additional_context": 1})])["answers"]
    assert [one["success"] for one in found] == [True, True, True, True, False]
    assert found[0]["data"]["permission"] == "deny"
    assert found[2]["data"]["followup_message"] == "finish it"
    assert found[3]["data"] == {"additional_context": "in use"}
