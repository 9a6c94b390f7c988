"""docs/guides/mcp.md and the section about MCP of the protocol: their tables and examples are those of the code."""

from __future__ import annotations

import json

from dibs.mcp import calls, messages, tools
from tests.docs.markdown import blocks, code, read, section, table

GUIDE = read("docs/guides/mcp.md")
PROTOCOL = section(read("docs/protocol.md"), "## Over MCP")


def test_the_table_of_tools_is_that_of_the_code() -> None:
    told = {code(tool)[0]: (code(verb)[0], code(names)) for tool, verb, names in table(PROTOCOL, "tool", "verb")}
    assert told == {tool.name: (tool.verb, list(tool.parameters)) for tool in tools.TOOLS}


def test_the_figures_and_names_are_those_of_the_code() -> None:
    text = " ".join(PROTOCOL.split())
    for version in messages.VERSIONS:
        assert version in text
    assert f"block for {tools.WAIT_SECONDS_MAX} seconds at most" in text
    assert f"shows {tools.LIST_LIMIT} items" in text
    assert calls.TICKET_SECONDS == 120
    assert "kept for two minutes" in text
    assert f"of kind `{calls.KIND}`" in text
    for key in calls.META_KEYS:
        assert f"`{key}`" in text
    for name in (tool.name for tool in tools.TOOLS):
        assert f"`{name}`" in GUIDE


def test_the_examples_are_json() -> None:
    for block in blocks(GUIDE, "json"):
        assert json.loads(block)
