"""A PostgreSQL store that tells how each statement inside its functions was planned: what `auto_explain` is for."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import psycopg
import pytest

from dibs.config import DEFAULTS
from dibs.store.postgres.connecting import connect
from dibs.store.postgres.store import PostgresStore
from dibs.testing.postgres_server import PostgresServer

TOLD = (
    "LOAD 'auto_explain'",
    "SET auto_explain.log_min_duration = 0",
    "SET auto_explain.log_format = json",
    "SET auto_explain.log_level = notice",
    "SET client_min_messages = notice",
)
NESTED = "SET auto_explain.log_nested_statements = on"
BLOCKS = ("SET auto_explain.log_analyze = on", "SET auto_explain.log_timing = off", "SET auto_explain.log_buffers = on")
FUNCTION = re.compile(r"\bdibs\.\w+\(")
COLUMN = re.compile(r"\(+(?:\w+\.)?(\w+)\)?(?:::\w+)? (?:=|<=|>=|<|>|IS) ")


class Statement(NamedTuple):
    """A statement as it was run: its words on one line, and what its plan reads and how."""

    words: str
    plan: dict[str, Any]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(filter(None, map(_read, nodes(self.plan))))


class ExplainedStore(PostgresStore):
    """A store whose verbs run on one connection, which is asked for plans; what people do goes another way."""

    def __init__(self, url: str, *, blocks: bool = False) -> None:
        super().__init__(url, DEFAULTS, look_seconds=0)
        self.statements: list[Statement] = []
        self._explained = connect(url)
        for setting in (*TOLD, *(BLOCKS if blocks else (NESTED,))):
            self._explained.execute(setting.encode())
        self._explained.add_notice_handler(self._note)

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        row = self._explained.execute(function, parameters).fetchone()
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer

    def tell(self) -> None:
        """Nobody waits, and nobody else is to use the connections."""

    def close(self) -> None:
        self._explained.close()
        super().close()

    def told(self) -> list[Statement]:
        """What was run since this was asked last."""
        told, self.statements = self.statements, []
        return told

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        _, _, plan = (notice.message_primary or "").partition("plan:\n")
        if plan:
            said = json.loads(plan)
            self.statements.append(Statement(" ".join(said["Query Text"].split()), said["Plan"]))


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", ()) for node in nodes(part))]


def _read(node: dict[str, Any]) -> str | None:
    if "Index Name" in node:
        return f"{node['Index Name']}({', '.join(dict.fromkeys(COLUMN.findall(node.get('Index Cond', ''))))})"
    if node["Node Type"] == "Seq Scan":
        return f"all of {node['Relation Name']}"
    return "sort" if "Sort" in node["Node Type"] else None


def skip_unless_explained(server: PostgresServer) -> None:
    try:
        with server.connect() as connection:
            connection.execute("LOAD 'auto_explain'")
    except psycopg.errors.UndefinedFile:
        pytest.skip("this server has no auto_explain")
