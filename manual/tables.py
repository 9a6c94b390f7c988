"""Just enough markdown to read tables from documents, and to write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(name: str, *header: str) -> list[list[str]]:
    """The rows of the one table of a document whose header starts with these cells."""
    found: list[list[list[str]]] = []
    is_inside = False
    for line in read(name).split("\n"):
        if line.startswith("|"):
            if not is_inside:
                found.append([])
            cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
            found[-1].append([cell.strip() for cell in cells])
        is_inside = line.startswith("|")
    (table,) = [table for table in found if table[0][: len(header)] == list(header)]
    return table[2:]


def table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cells) + " |" for cells in body]
    return "\n".join(lines)


def code(text: str) -> str:
    """Text as code in a cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"
