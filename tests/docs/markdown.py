"""Just enough markdown to hold a document to the code: its blocks, its tables, its headings, its links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Every document of the project.
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The contents of the fenced blocks in this language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    lines = text.split("\n")
    assert lines.count(heading) == 1, f"there is not one heading {heading!r}"
    start = lines.index(heading) + 1
    inside = []
    fenced = False
    for line in lines[start:]:
        fenced ^= line.startswith("```")
        if not fenced and re.match(rf"#{{1,{level}}} ", line):
            break
        inside.append(line)
    return "\n".join(inside)


def table(text: str, *header: str) -> list[list[str]]:
    """The rows of the one table whose header starts with these cells."""
    found = [rows for rows in _tables(text) if rows[0][: len(header)] == list(header)]
    assert len(found) == 1, f"{len(found)} tables start with {header}"
    return found[0][2:]


def code(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def slugs(text: str) -> set[str]:
    """The anchors of a document's headings, as repository hosts make them."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} (.+)$", prose(text), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, 0) + 1
    return {slug if number == 0 else f"{slug}-{number}" for slug, count in found.items() for number in range(count)}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def _tables(text: str) -> list[list[list[str]]]:
    found: list[list[list[str]]] = []
    inside = False
    for line in prose(text).split("\n"):
        if line.startswith("|"):
            if not inside:
                found.append([])
            found[-1].append([cell.strip() for cell in line.strip().strip("|").split("|")])
        inside = line.startswith("|")
    return found
