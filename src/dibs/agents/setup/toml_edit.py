"""The TOML file of Codex: paths in `writable_roots`, and the table of the MCP server.

Each way to insert them is tried, and the parser of the standard library judges the result: it has to say what the file
said before, with our entries and nothing else added.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from dibs.agents.setup.edit import Insertion, insert
from dibs.errors import Invalid
from dibs.text import toml_lines

TABLE, KEY = "sandbox_workspace_write", "writable_roots"
SERVERS, SERVER = "mcp_servers", "dibs"
_ARRAY = re.compile(rf"{KEY}\s*=\s*\[")
_HEADER = re.compile(rf"^[ \t]*\[[ \t]*{TABLE}[ \t]*\][^\n]*(?:\n|\Z)", re.MULTILINE)
#: The table of our server, and the tables in it that Codex adds, such as approvals of its tools.
_SERVER = re.compile(rf"^\[{SERVERS}\.{SERVER}(?:\.[^\n]*)?\][^\n]*(?:\n(?!\[)[^\n]*)*\n?", re.MULTILINE)


class TomlEdit:
    """`server` is None if the file is not to have our server. `gone` are roots that setup once added and the file must
    not have: folders that no longer exist."""

    def __init__(self, path: str, roots: list[str], server: dict[str, Any] | None) -> None:
        self.path = path
        self.roots = roots
        self.gone: list[str] = []
        self.server = server

    def insertions(self, text: str | None) -> list[Insertion]:
        found: list[Insertion] = []
        # A line that a person adds at the end is then not about our server.
        for step in (self._add_server, self._add_roots):
            found += step(insert(text or "", found))
        return found

    def _add_roots(self, text: str) -> list[Insertion]:
        before = self._parsed(text)
        missing = [root for root in self.roots if root not in self._there(before)]
        if not missing:
            return []
        wanted = copy.deepcopy(before)
        table = wanted.setdefault(TABLE, {})
        table[KEY] = [*missing, *table.get(KEY, [])]
        quoted = ", ".join(map(_quoted, missing))
        return [self._first(text, self._ways(text, quoted), wanted, f"[{TABLE}] {KEY} = [{quoted}]")]

    def _add_server(self, text: str) -> list[Insertion]:
        before = self._parsed(text)
        servers = before.get(SERVERS, {})
        there = servers.get(SERVER) if isinstance(servers, dict) else servers
        if self.server is None or self._is_ours(there):
            return []
        if there is not None:
            wanted_server = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.server.items())
            raise Invalid(
                f"{self.path}: {SERVERS}.{SERVER} is another server, not {wanted_server}; change or delete it",
                field="file",
                path=self.path,
            )
        lines = [f"[{SERVERS}.{SERVER}]"]
        lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self.server.items()]
        newline = "\r\n" if "\r\n" in text else "\n"
        table = newline.join(lines) + newline
        wanted = copy.deepcopy(before)
        wanted.setdefault(SERVERS, {})[SERVER] = self.server
        return [self._first(text, [Insertion(len(text), _begin(text) + table)], wanted, " ".join(lines))]

    def _first(self, text: str, ways: Iterator[Insertion] | list[Insertion], wanted: Any, by_hand: str) -> Insertion:
        for insertion in ways:
            if _says(insert(text, [insertion]), wanted):
                return insertion
        raise Invalid(f"{self.path}: cannot add to it; write by hand: {by_hand}", field="file", path=self.path)

    def is_complete(self, text: str) -> bool:
        parsed = self._parsed(text)
        servers = parsed.get(SERVERS, {})
        has_server = isinstance(servers, dict) and self._is_ours(servers.get(SERVER))
        there = set(self._there(parsed))
        return set(self.roots) <= there and there.isdisjoint(self.gone) and (self.server is None or has_server)

    def stripped(self, text: str) -> str:
        for root in (*self.roots, *self.gone):
            theirs = self.theirs(text)
            for found in re.finditer(rf"{re.escape(_quoted(root))}(?:,[ \t]*)?", text):
                shorter = text[: found.start()] + text[found.end() :]
                if self._is_toml(shorter) and self.theirs(shorter) == theirs:
                    text = shorter
                    break
        without = _SERVER.sub("", text)
        return without if self._is_toml(without) and self.theirs(without) == self.theirs(text) else text

    def is_empty(self, text: str) -> bool:
        return not text.strip()

    def theirs(self, text: str) -> Any:
        rest = self._parsed(text)
        kept = [root for root in self._there(rest) if root not in self.roots and root not in self.gone]
        if TABLE in rest:
            if kept:
                rest[TABLE][KEY] = kept
            else:
                rest[TABLE].pop(KEY, None)
            if not rest[TABLE]:
                del rest[TABLE]
        servers = rest.get(SERVERS)
        if isinstance(servers, dict) and self._is_ours(servers.get(SERVER)):
            del servers[SERVER]
            if not servers:
                del rest[SERVERS]
        return rest

    def _is_ours(self, server: Any) -> bool:
        """Whether it is our server, whatever Codex has noted about its tools."""
        return isinstance(server, dict) and self.server is not None and self.server.items() <= server.items()

    @staticmethod
    def _ways(text: str, quoted: str) -> Iterator[Insertion]:
        newline = "\r\n" if "\r\n" in text else "\n"
        for array in _ARRAY.finditer(text):
            following = text[array.end() :].lstrip()[:1]
            blank = "" if text[array.end() :][:1] in "\r\n" else " "
            yield Insertion(array.end(), quoted if following == "]" else f"{quoted},{blank}")
        for header in _HEADER.finditer(text):
            end = "" if header.group().endswith("\n") else newline
            yield Insertion(header.end(), f"{end}{KEY} = [{quoted}]{newline}")
        yield Insertion(len(text), f"{_begin(text)}[{TABLE}]{newline}{KEY} = [{quoted}]{newline}")

    def _there(self, parsed: dict[str, Any]) -> list[str]:
        table = parsed.get(TABLE, {})
        found = table.get(KEY, []) if isinstance(table, dict) else None
        if not isinstance(found, list):
            raise Invalid(f"{self.path}: {TABLE}.{KEY} is not a list of paths", field="file", path=self.path)
        return found

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return parse(text)
        except ValueError as error:
            found = re.search(r"line (\d+)", str(error))
            line = int(found.group(1)) if found else text.count("\n") + 1
            raise Invalid(
                f"{self.path}, line {line}: {error}; correct the file first", field="file", path=self.path, line=line
            ) from error

    @staticmethod
    def _is_toml(text: str) -> bool:
        return _says(text, None)


def parse(text: str) -> dict[str, Any]:
    """The content of a TOML file; ValueError for whatever the parser cannot take."""
    line = toml_lines.long_key(text)
    if line is not None:
        raise ValueError(f"a key has too many parts (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _says(text: str, wanted: dict[str, Any] | None) -> bool:
    try:
        return parse(text) == wanted or wanted is None
    except ValueError:
        return False


def _begin(text: str) -> str:
    """What stands between a text and a table that follows it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    return "" if not text else newline if text.endswith("\n") else newline * 2


def _quoted(path: str) -> str:
    return json.dumps(path, ensure_ascii=False)
