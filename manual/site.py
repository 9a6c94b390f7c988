"""Hooks of mkdocs: the documents of the repository as a site that needs nothing but its own files.

Documents link to each other as files of the repository, so that they can be read there. On the site, the documents
beside `docs/` are pages too, the markers of the reference are expanded, and other files that a document links to are
copied as text.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from typing import TYPE_CHECKING

# mkdocs loads this file by its path.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from manual import reference
from manual.tables import ROOT, read

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

#: Documents outside of `docs/`, and where they are on the site.
BESIDE = {
    "ARCHITECTURE.md": "concepts/architecture.md",
    "SECURITY.md": "operations/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "AGENTS.md": "project/agents.md",
    "examples/README.md": "guides/examples.md",
}
DOCS = "docs/"
#: Where files of the repository are that documents link to.
SOURCE = "source/"
LINK = re.compile(r"(\]\()([^)\s]+)(\))|(<img[^>]*\bsrc=\")([^\"]+)(\")|(srcset=\")([^\"]+)(\")")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
BULLET = re.compile(r"( *)(?:[-*]|\d+\.) ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    linked: set[str] = set()
    for path in sorted(ROOT.glob("docs/**/*.md")):
        name = path.relative_to(ROOT).as_posix()
        linked |= _sources(read(name), name)
    for name, place in BESIDE.items():
        text = read(name)
        linked |= _sources(text, name)
        files.append(File.generated(config, place, content=relinked(text, name)))
    for name in sorted(linked):
        files.append(File.generated(config, _place(name), content=_source_text(name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    place = page.file.src_uri
    if place in BESIDE.values():
        return markdown
    return relinked(reference.expand(markdown), DOCS + place)


def relinked(text: str, name: str) -> str:
    """The text of the document `name` with links that are right on the site."""
    here = posixpath.dirname(_place(name))

    def replace(match: re.Match[str]) -> str:
        before, link, after = (part for part in match.groups() if part is not None)
        target, anchor = _target(link, name)
        if target is None:
            return match[0]
        return f"{before}{posixpath.relpath(_place(target), here or '.')}{anchor}{after}"

    parts = FENCE.split(text)
    fences = FENCE.findall(text)
    linked = [LINK.sub(replace, with_clear_lists(part)) for part in parts]
    return "".join(part + fence for part, fence in zip(linked, [*fences, ""], strict=True))


def with_clear_lists(text: str) -> str:
    """Lists as mkdocs reads them, which is stricter than hosts of repositories: after an empty line, and each level in
    four more spaces."""
    lines: list[str] = []
    levels: list[int] = []
    for line in text.split("\n"):
        after_empty = not lines or not lines[-1].strip()
        if bullet := BULLET.match(line):
            indent = len(bullet[1])
            if not levels and not after_empty:
                lines.append("")
            levels = [level for level in levels if level < indent] + [indent]
            line = "    " * (len(levels) - 1) + line.lstrip()
        elif levels and line.startswith(" "):
            line = "    " * len(levels) + line.lstrip()
        elif line.strip() and after_empty:
            levels = []
        lines.append(line)
    return "\n".join(lines)


def _target(link: str, name: str) -> tuple[str | None, str]:
    """The file of the repository that a link of the document `name` leads to, and the anchor in it."""
    path, hash, anchor = link.partition("#")
    if not path or "://" in link or link.startswith("mailto:"):
        return None, ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path)), hash + anchor


def _place(name: str) -> str:
    """Where a file of the repository is on the site."""
    if name in BESIDE:
        return BESIDE[name]
    if name == "README.md":
        return "README.md"
    if name.startswith(DOCS):
        return name.removeprefix(DOCS)
    return f"{SOURCE}{name}.txt"


def _sources(text: str, name: str) -> set[str]:
    """The files of the repository that a document links to and that are no pages."""
    links = [part for match in LINK.findall(FENCE.sub("", text)) for part in match if part]
    targets = {_target(link, name)[0] for link in links}
    return {target for target in targets if target and _place(target).startswith(SOURCE) and (ROOT / target).exists()}


def _source_text(name: str) -> str:
    path = ROOT / name
    if path.is_dir():
        return "\n".join(sorted(inner.name for inner in path.iterdir() if not inner.name.startswith("__"))) + "\n"
    return path.read_text(encoding="utf-8")
