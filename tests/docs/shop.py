"""A folder with a repository in it, and commands typed there as a newcomer would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE_SECONDS

#: What transcripts call the folder.
CALLED = "/home/you/shop"


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "shop"
        (self.folder / ".git").mkdir(parents=True)
        (self.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        #: What differs from other folders; commands get it besides the name of the user and the language.
        self.environment = {"PATH": path, "HOME": str(self.folder)}

    def type(self, line: str, *, shell: str = "sh") -> subprocess.CompletedProcess[str]:
        """Run a line of shell off any terminal, in an environment of its own; both streams in the order they came."""
        return subprocess.run(
            [shell, "-c", line],
            cwd=self.folder,
            env={**self.environment, "LOGNAME": "you", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            start_new_session=True,
        )

    def answer(self, line: str) -> dict[str, Any]:
        """What a command prints with `--json`."""
        done = self.type(f"{line} --json")
        found = json.loads(done.stdout)
        assert isinstance(found, dict), done.stdout
        return found

    def normal(self, text: str) -> str:
        """A transcript without what differs from run to run: the folder, times, how long something took."""
        text = text.replace(str(self.folder), CALLED)
        # Of another day it is told which: near midnight, that of a claim's end.
        text = re.sub(r"\b(\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d)\b", "HH:MM:SS", text)
        text = re.sub(r"\bfor (29|30)m more\b", "for 30m more", text)
        text = re.sub(r"\bfor \d+s more\b", "for Ns more", text)
        text = re.sub(r"\b\d+s ago\b", "now", text)
        text = re.sub(r"\bsubmitted  \d+s\b", "submitted  Ns", text)
        return re.sub(r"\bafter \d+s\b", "after Ns", text)


def steps(transcript: str) -> list[tuple[str, str]]:
    """The commands of a transcript, each with the output that follows it."""
    parts = re.split(r"^\$ ", transcript, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output without a command: {parts[0]!r}"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]
