"""The table of an item's fields has every field, and what asks for a field asks for one of the table."""

from __future__ import annotations

from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.mcp.tools import BY_NAME
from dibs.model import NewItem
from dibs.model.item_fields import FIELDS, OPTIONS


def test_the_table_has_every_field_that_people_write() -> None:
    assert FIELDS.keys() == NewItem._names


def test_every_field_can_be_given_to_add() -> None:
    declared = build("add", COMMANDS["add"])[0].options
    # The title is an argument as well.
    by_itself = {"title": "--title", "id": "--id", "needs_approval": "--needs-approval"}
    assert {name: field.option for name, field in OPTIONS.items()} | by_itself == {
        name: option for name in FIELDS for option in [FIELDS[name].option or by_itself[name]] if option in declared
    }


def test_the_tool_has_no_parameter_but_those_of_the_table() -> None:
    assert BY_NAME["add"].parameters.keys() == {name for name, field in FIELDS.items() if field.tool is not None}
