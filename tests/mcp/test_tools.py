"""The table of tools: true to the verbs, and short."""

from __future__ import annotations

import inspect
import json

import pytest

from dibs.board import Board
from dibs.errors import BY_CODE, DibsError
from dibs.mcp import tools
from dibs.mcp.tools import TOOLS, Tool
from dibs.model import AGENT, VIEWER, NewItem
from dibs.text import brief, prime
from dibs.verbs import BY_NAME

NAMES = "next claim claim_subject hand progress release done fail submit show list add who why wait"


def test_there_are_fifteen_tools_for_models() -> None:
    assert [tool.name for tool in TOOLS] == NAMES.split()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_is_a_verb_with_some_of_its_parameters(tool: Tool) -> None:
    verb = BY_NAME[tool.verb]
    signature = inspect.signature(getattr(Board, tool.verb)).parameters
    known = {*signature, *(NewItem._fields if tool.verb in ("add", "claim_subject") else ())}
    assert tool.parameters.keys() <= known
    assert tool.reads == (verb.method == "GET")
    assert verb.role == (VIEWER if tool.reads else AGENT)
    needed = {name for name, one in signature.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
    assert needed - {"self", "session"} <= set(tool.required)


def test_the_list_of_tools_has_at_most_8_kilobytes_and_the_instructions_800_characters() -> None:
    for with_session in (False, True):
        assert len(json.dumps(tools.listed(with_session=with_session), separators=(",", ":"))) <= 8000
    assert len(tools.INSTRUCTIONS) <= 800
    assert all(f"`{tool.name}`" in tools.INSTRUCTIONS for tool in TOOLS if tool.name not in ("show", "who", "why"))


def test_a_client_that_asks_nobody_may_run_every_tool() -> None:
    for tool in tools.listed():
        hints = {"readOnlyHint": tools.BY_NAME[tool["name"]].reads, "destructiveHint": False, "openWorldHint": False}
        assert tool["annotations"] == hints


def test_every_refusal_says_what_to_do() -> None:
    for kind in BY_CODE.values():
        if kind is not DibsError:
            assert brief.error(kind("a message"))["do"]


def test_a_model_learns_the_commands_in_1200_characters() -> None:
    assert len(prime.TEXT) <= 1200


@pytest.mark.parametrize("before", ["", "# Rules\n", "# Rules\n\nText\n\n", "\n"])
def test_the_section_of_a_file_for_agents_is_added_once_and_removed_without_a_trace(before: str) -> None:
    once = prime.with_section(before)
    assert prime.TEXT in once
    assert once.startswith(before)
    assert prime.with_section(once) == once
    assert prime.without_section(once) == before
    assert prime.without_section(once + "More\n") == before + "More\n"
    assert prime.without_section(before) == before
    assert prime.without_section(prime.with_section(before.rstrip("\n") + "x")) == before.rstrip("\n") + "x\n"
