"""Entries in a JSON file of a client's settings: objects of named values, and lists of hooks by event."""

from __future__ import annotations

import json
from typing import Any

from dibs.agents.setup import jsonc
from dibs.agents.setup.edit import Insertion, insert
from dibs.agents.setup.jsonc import Node
from dibs.errors import Invalid

#: In the command of each of our hooks.
SCRIPT = "dibs-hook.sh"


class JsonEdit:
    """`entries` has at its top plain values, which a file of that kind has to have, and objects. What is in those is
    ours: a list is added to the list that is there, everything else is a member under its key."""

    def __init__(self, path: str, entries: dict[str, Any]) -> None:
        self.path = path
        self.entries = entries

    def insertions(self, text: str | None) -> list[Insertion]:
        if text is None or not text.strip():
            return [Insertion(len(text or ""), json.dumps(self.entries, indent=2, ensure_ascii=False) + "\n")]
        found: list[Insertion] = []
        while missing := self._missing(text):
            found += missing
            text = insert(text, missing)
        return found

    def stripped(self, text: str) -> str:
        while text.strip() and (shorter := self._without_one(text)) is not None:
            text = shorter
        return text

    def is_empty(self, text: str) -> bool:
        return not text.strip() or self.theirs(text) == {}

    def is_complete(self, text: str) -> bool:
        data = jsonc.parse(text, self.path).value if text.strip() else {}
        if not isinstance(data, dict):
            return False
        return {name: self._ours(name, data.get(name)) for name in self.entries} == self.entries

    def theirs(self, text: str) -> Any:
        rest = jsonc.parse(text, self.path).value if text.strip() else {}
        if not isinstance(rest, dict):
            return rest
        for name, ours in self.entries.items():
            group = rest.get(name)
            if not isinstance(ours, dict):
                if group == ours:
                    del rest[name]
            elif isinstance(group, dict):
                for key, value in list(group.items()):
                    if isinstance(value, list):
                        group[key] = [_their_part(each) for each in value if not _is_ours(each)]
                    if value == ours.get(key) or group[key] == []:
                        del group[key]
                if not group:
                    del rest[name]
        return rest

    def _ours(self, name: str, group: Any) -> Any:
        """What of a top-level value is ours."""
        ours = self.entries[name]
        if not isinstance(ours, dict) or not isinstance(group, dict):
            return group
        found = {}
        for key, value in group.items():
            if isinstance(value, list):
                found[key] = [each for each in value if _is_ours(each) or _their_part(each) != each]
            elif key in ours:
                found[key] = value
        return {key: value for key, value in found.items() if value != []}

    def _missing(self, text: str) -> list[Insertion]:
        """The insertions of the first of our entries that is not there."""
        root = self._object(text, jsonc.parse(text, self.path), "the file")
        for name, ours in self.entries.items():
            group = root.get(name)
            if group is None:
                return jsonc.add_member(text, root, name, ours)
            if not isinstance(ours, dict):
                if group.value != ours:
                    raise self._refusal(text, group, f'"{name}" is not {json.dumps(ours)}')
                continue
            self._object(text, group, f'"{name}"')
            for key, value in ours.items():
                there = group.get(key)
                if there is None:
                    return jsonc.add_member(text, group, key, value)
                if isinstance(value, list):
                    if not isinstance(there.value, list):
                        raise self._refusal(text, there, f'"{name}.{key}" is not a list')
                    for each in value:
                        if each not in there.value:
                            return jsonc.add_member(text, there, None, each)
                elif there.value != value:
                    what = f'"{name}.{key}" is {_short(there.value)}, not {_short(value)}; change or delete it'
                    raise self._refusal(text, there, what)
        return []

    def _without_one(self, text: str) -> str | None:
        """The text without one of our entries, or without a group that this has left empty; None if there is none."""
        root = jsonc.parse(text, self.path)
        if not isinstance(root.value, dict):
            return None
        for name, ours in self.entries.items():
            group = root.get(name)
            if group is None or not isinstance(ours, dict) or not isinstance(group.value, dict):
                continue
            for at, (key, member) in enumerate(zip(group.keys, group.members, strict=True)):
                hooks = [_is_ours(each) for each in member.value] if isinstance(member.value, list) else []
                if member.value == ours.get(key) or (hooks and all(hooks)):
                    if len(group.members) == 1:
                        return jsonc.without_member(text, root, root.keys.index(name))
                    return jsonc.without_member(text, group, at)
                if any(hooks):
                    return jsonc.without_member(text, member, hooks.index(True))
                for entry in member.members if hooks else ():
                    inner = entry.get("hooks")
                    if inner is not None and _their_part(entry.value) != entry.value:
                        return jsonc.without_member(text, inner, [_is_ours(one) for one in inner.value].index(True))
        return None

    def _object(self, text: str, node: Node, what: str) -> Node:
        if not isinstance(node.value, dict):
            raise self._refusal(text, node, f"{what} is not an object")
        return node

    def _refusal(self, text: str, node: Node, what: str) -> Invalid:
        line = jsonc.line_of(text, node.start)
        return Invalid(f"{self.path}, line {line}: {what}", field="file", path=self.path, line=line)


def _is_ours(entry: Any) -> bool:
    """Whether a hook, or an entry with a list of hooks, is ours alone."""
    if not isinstance(entry, dict):
        return False
    inner = entry.get("hooks")
    if isinstance(inner, list):
        return bool(inner) and all(map(_is_ours, inner))
    return any(isinstance(value, str) and SCRIPT in value for value in entry.values())


def _their_part(entry: Any) -> Any:
    """An entry without those of its hooks that are ours."""
    if isinstance(entry, dict) and isinstance(inner := entry.get("hooks"), list) and not _is_ours(entry):
        return {**entry, "hooks": [one for one in inner if not _is_ours(one)]}
    return entry


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}..."
