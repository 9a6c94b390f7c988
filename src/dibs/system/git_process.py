"""A git that dibs runs: its environment, and what it wrote to stderr as one line that may be shown to everybody."""

from __future__ import annotations

import os
import re

#: Set while dibs runs inside a git hook, for instance: they would name another repository.
FOREIGN = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_PREFIX",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_GRAFT_FILE",
        "GIT_SHALLOW_FILE",
        "GIT_REPLACE_REF_BASE",
        "GIT_QUARANTINE_PATH",
        "GIT_CONFIG_PARAMETERS",
        "GIT_EXTERNAL_DIFF",
        "GIT_TRACE",
        "GIT_TRACE_SETUP",
    }
)
_SECRETS = re.compile(r"(?<=//)[^/\s]+@")


def environment() -> dict[str, str]:
    """The environment of this process without the variables that name a repository."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def message(stderr: bytes | bytearray) -> str:
    """Git's messages in one line, without the credentials in a remote's address."""
    lines = stderr.decode(errors="replace").splitlines()
    text = "; ".join(line.removeprefix("fatal: ").strip() for line in lines if line.strip())
    return "".join(letter for letter in _SECRETS.sub("", text) if letter.isprintable())
