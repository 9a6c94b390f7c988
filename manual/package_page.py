"""The README as the page of the package: without links that lead nowhere there.

A link to a file of the repository works on a host of repositories, and not on a package index. If it is known where the
project is published, such links become absolute. Otherwise they become plain text, pictures go, and a last line says
where the documents are.
"""

from __future__ import annotations

import re

PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
IMAGE = re.compile(r"(!\[[^\]]*\]\()(?!https?://)([^)\s]+)\)(\n*)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://)([^)\s]+)\)")
SOURCE = re.compile(r"\b(src|srcset)=\"(?!https?://)")
UNLINKED = (
    "The documents that this page names are in the folder `docs` of the source distribution.\n"
    "`dibs COMMAND --help` explains every command.\n"
)


def package_page(readme: str, files: str, pictures: str = "") -> str:
    """The text for the page. `files` is the address under which files of the repository are shown; empty: none is.
    `pictures` is the one under which they are served as they are, if that is another one."""
    if not files:
        return LINK.sub(r"\1", IMAGE.sub("", PICTURE.sub("", readme))) + "\n" + UNLINKED
    shown, served = (address.rstrip("/") + "/" for address in (files, pictures or files))
    text = IMAGE.sub(lambda found: f"{found[1]}{served}{found[2]}){found[3]}", readme)
    text = LINK.sub(lambda found: f"[{found[1]}]({shown}{found[2]})", text)
    return SOURCE.sub(lambda found: f'{found[1]}="{served}', text)


def project_urls(home: str, files: str) -> dict[str, str]:
    """The links beside the page, for the addresses that are known."""
    urls = {"Homepage": home} if home else {}
    if files:
        base = files.rstrip("/")
        urls |= {"Documentation": f"{base}/docs/README.md", "Changelog": f"{base}/CHANGELOG.md"}
    return urls
