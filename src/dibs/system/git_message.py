"""What git wrote to stderr, as one line that may be shown to everybody."""

from __future__ import annotations

import re

_SECRETS = re.compile(r"(?<=//)[^/\s]+@")


def message(stderr: bytes | bytearray) -> str:
    """Git's messages in one line, without the credentials in a remote's address."""
    lines = stderr.decode(errors="replace").splitlines()
    text = "; ".join(line.removeprefix("fatal: ").strip() for line in lines if line.strip())
    return "".join(letter for letter in _SECRETS.sub("", text) if letter.isprintable())
