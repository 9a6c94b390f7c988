"""Paths in `writable_roots`, in the TOML file of Codex.

Each way to insert them is tried, and the parser of the standard library judges the result: it has to say what the file
said before, with the paths and nothing else added.
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

TABLE, KEY = "sandbox_workspace_write", "writable_roots"
_ARRAY = re.compile(rf"{KEY}\s*=\s*\[")
_HEADER = re.compile(rf"^[ \t]*\[[ \t]*{TABLE}[ \t]*\][^\n]*(?:\n|\Z)", re.MULTILINE)


class RootsEdit:
    def __init__(self, path: str, roots: list[str]) -> None:
        self.path = path
        self.roots = roots

    def insertions(self, text: str | None) -> list[Insertion]:
        before = self._parsed(text or "")
        missing = [root for root in self.roots if root not in self._there(before)]
        if not missing:
            return []
        wanted = copy.deepcopy(before)
        table = wanted.setdefault(TABLE, {})
        table[KEY] = [*missing, *table.get(KEY, [])]
        for insertion in self._ways(text or "", ", ".join(map(_quoted, missing))):
            if _says(insert(text or "", [insertion]), wanted):
                return [insertion]
        raise Invalid(
            f"{self.path}: cannot add to it; write by hand: [{TABLE}] {KEY} = [{', '.join(map(_quoted, missing))}]",
            field="file",
            path=self.path,
        )

    def is_complete(self, text: str) -> bool:
        return set(self.roots) <= set(self._there(self._parsed(text)))

    def stripped(self, text: str) -> str:
        for root in self.roots:
            theirs = self.theirs(text)
            for found in re.finditer(rf"{re.escape(_quoted(root))}(?:,[ \t]*)?", text):
                shorter = text[: found.start()] + text[found.end() :]
                if self._is_toml(shorter) and self.theirs(shorter) == theirs:
                    text = shorter
                    break
        return text

    def is_empty(self, text: str) -> bool:
        return not text.strip()

    def theirs(self, text: str) -> Any:
        rest = self._parsed(text)
        kept = [root for root in self._there(rest) if root not in self.roots]
        if TABLE in rest:
            if kept:
                rest[TABLE][KEY] = kept
            else:
                rest[TABLE].pop(KEY, None)
            if not rest[TABLE]:
                del rest[TABLE]
        return rest

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
        begin = "" if not text else newline if text.endswith("\n") else newline * 2
        yield Insertion(len(text), f"{begin}[{TABLE}]{newline}{KEY} = [{quoted}]{newline}")

    def _there(self, parsed: dict[str, Any]) -> list[str]:
        table = parsed.get(TABLE, {})
        found = table.get(KEY, []) if isinstance(table, dict) else None
        if not isinstance(found, list):
            raise Invalid(f"{self.path}: {TABLE}.{KEY} is not a list of paths", field="file", path=self.path)
        return found

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            line = int(found.group(1)) if found else text.count("\n") + 1
            raise Invalid(
                f"{self.path}, line {line}: {error}; correct the file first", field="file", path=self.path, line=line
            ) from error

    @staticmethod
    def _is_toml(text: str) -> bool:
        return _says(text, None)


def _says(text: str, wanted: dict[str, Any] | None) -> bool:
    try:
        return tomllib.loads(text) == wanted or wanted is None
    except tomllib.TOMLDecodeError:
        return False


def _quoted(path: str) -> str:
    return json.dumps(path, ensure_ascii=False)
