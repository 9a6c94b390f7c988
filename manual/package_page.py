"""The README as the page of the package: without links that lead nowhere there.

A link to a file of the repository works on a host of repositories, and not on a package index. If it is known where the
project is published, such links become absolute. Otherwise they become plain text, and pictures go.
"""

from __future__ import annotations

import re

PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?://)[^)\s]+\)\n*")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://)([^)\s]+)\)")


def package_page(readme: str, files: str) -> str:
    """The text for the page. `files` is the address under which files of the repository are found; empty: none is."""
    if files:
        base = files.rstrip("/") + "/"
        text = re.sub(r"\]\((?!https?://|#)([^)\s]+)\)", lambda found: f"]({base}{found[1]})", readme)
        return re.sub(r"\b(src|srcset)=\"(?!https?://)", lambda found: f'{found[1]}="{base}', text)
    text = IMAGE.sub("", PICTURE.sub("", readme))
    return LINK.sub(r"\1", text)
