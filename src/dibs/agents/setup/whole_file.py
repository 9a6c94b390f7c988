"""A file that is ours as a whole: a skill, a plugin."""

from __future__ import annotations

from typing import Any

from dibs.agents.setup.edit import Insertion
from dibs.errors import Invalid


class WholeFile:
    def __init__(self, path: str, content: str) -> None:
        self.path = path
        self.content = content

    def insertions(self, text: str | None) -> list[Insertion]:
        if text is None:
            return [Insertion(0, self.content)]
        raise Invalid(
            f"{self.path} is there, and is not what dibs wrote; move it away first", field="file", path=self.path
        )

    def is_complete(self, text: str) -> bool:
        return text == self.content

    def stripped(self, text: str) -> str:
        """What a person has changed is the person's."""
        return "" if text == self.content else text

    def is_empty(self, text: str) -> bool:
        return not text

    def theirs(self, text: str) -> Any:
        return "" if text == self.content else text
