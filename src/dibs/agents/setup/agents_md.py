"""`AGENTS.md`, the file of a project that most coding agents read: a marked section with what a model must know, the
text of `dibs prime`. The section names nothing of this machine, so the file can be committed."""

from __future__ import annotations

import os
from typing import Any

from dibs.agents.setup.edit import Insertion
from dibs.agents.setup.place import Place, Setup
from dibs.text import prime

NOTE = "Claude Code reads CLAUDE.md instead; a line @AGENTS.md there includes this file"


def setup(place: Place) -> Setup:
    return Setup([Section(os.path.join(place.project or os.curdir, "AGENTS.md"))], notes=[NOTE])


class Section:
    def __init__(self, path: str) -> None:
        self.path = path

    def insertions(self, text: str | None) -> list[Insertion]:
        before = text or ""
        return [Insertion(len(before), prime.with_section(before)[len(before) :])]

    def is_complete(self, text: str) -> bool:
        return text == prime.with_section(text)

    def stripped(self, text: str) -> str:
        return prime.without_section(text)

    def is_empty(self, text: str) -> bool:
        return not text

    def theirs(self, text: str) -> Any:
        return prime.without_section(text).rstrip("\n")  # the section begins with as many as it needs
