"""A PostgreSQL store that tells how each statement inside its functions was planned: what `auto_explain` is for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from dibs.config import DEFAULTS
from dibs.store.postgres.connections import connect
from dibs.store.postgres.store import PostgresStore
from tests.kit.postgres_server import PostgresServer

TELLING = (
    "LOAD 'auto_explain'",
    "SET auto_explain.log_min_duration = 0",
    "SET auto_explain.log_format = json",
    "SET auto_explain.log_level = notice",
    "SET client_min_messages = notice",
)
NESTED = ("SET auto_explain.log_nested_statements = on",)
BLOCKS = ("SET auto_explain.log_analyze = on", "SET auto_explain.log_timing = off", "SET auto_explain.log_buffers = on")
#: Where a statement stands, as the server says it.
PLACE = re.compile(
    r'^(?:PL/pgSQL function dibs\.(\w+)\(.*\) line (\d+) at |SQL function "(\w+)" statement 1$)', re.MULTILINE
)
COLUMN = re.compile(r"\(+(?:\w+\.)?(\w+)\)?(?:::\w+)? (?:=|<=|>=|<|>|IS) ")


class Statement(NamedTuple):
    """A statement as it was run: its words on one line, its plan, and its place: a function and a line of it."""

    words: str
    plan: dict[str, Any]
    place: tuple[str, int] | None

    @property
    def reads(self) -> frozenset[str]:
        """Each index with the columns that are looked for in it, what is read from end to end, and what is sorted."""
        return frozenset(read for node in nodes(self.plan) for read in _reads(node))


class ExplainedStore(PostgresStore):
    """A store whose verbs run on one connection, which is asked for plans; what people do goes another way.

    It tells the plans of the statements inside the verbs, or with `blocks` what each verb as a whole has touched.
    """

    def __init__(self, url: str, *, blocks: bool = False) -> None:
        super().__init__(url, DEFAULTS, look_seconds=0)
        self._statements: list[Statement] = []
        self._explained = connect(url)
        for setting in (*TELLING, *(BLOCKS if blocks else NESTED)):
            self._explained.execute(setting.encode())
        self._explained.add_notice_handler(self._note)

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        row = self._explained.execute(function, parameters).fetchone()
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer

    def tell(self, *, urgent: bool = False) -> None:
        """Nobody waits."""

    def close(self) -> None:
        self._explained.close()
        super().close()

    def told(self) -> list[Statement]:
        """What was run since this was asked last."""
        told, self._statements = self._statements, []
        return told

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        _, _, text = (notice.message_primary or "").partition("plan:\n")
        if text:
            said = json.loads(text)
            words = " ".join(said["Query Text"].split())
            self._statements.append(Statement(words, said["Plan"], _place(notice.context or "")))


def skip_unless_explained(server: PostgresServer) -> None:
    try:
        with server.connect() as connection:
            connection.execute("LOAD 'auto_explain'")
    except psycopg.errors.UndefinedFile:
        pytest.skip("this server has no auto_explain")


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", ()) for node in nodes(part))]


def blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def _reads(node: dict[str, Any]) -> Iterator[str]:
    if "Index Name" in node:
        yield f"{node['Index Name']}({', '.join(dict.fromkeys(COLUMN.findall(node.get('Index Cond', ''))))})"
    elif node["Node Type"] == "Seq Scan":
        yield f"all of {node['Relation Name']}"
    elif "Sort" in node["Node Type"]:
        yield from (f"{table} sorted" for table in _flowing_into(node))


def _flowing_into(node: dict[str, Any]) -> Iterator[str]:
    """The tables whose rows come to this node in any number."""
    for part in node.get("Plans", ()):
        if part["Parent Relationship"] in ("Outer", "Inner") and part["Node Type"] != "Limit":
            yield from filter(None, [part.get("Relation Name")])
            yield from _flowing_into(part)


def _place(context: str) -> tuple[str, int] | None:
    """The innermost one that is named."""
    found = PLACE.search(context)
    return (found[1] or found[3], int(found[2] or 1)) if found else None
