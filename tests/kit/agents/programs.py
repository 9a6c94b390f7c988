"""The pinned programs of real agents, fetched once: `python -m tests.kit.agents.programs` fetches what a commit needs.

The native program is run without npm's launcher, so that the process that a test kills is the agent itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.kit import npm


@dataclass(frozen=True)
class Pinned:
    package: str
    version: str
    #: Where the program is in `node_modules`; the name of the machine's platform is part of it.
    program: str
    #: Run by every `make test`; the others only by a soak.
    every_commit: bool = False


PROGRAMS = {
    "claude": Pinned("@anthropic-ai/claude-code", "2.1.325", "@anthropic-ai/claude-code-*/claude", every_commit=True),
    "codex": Pinned("@openai/codex", "0.166.0", "@openai/codex-*/vendor/*/bin/codex", every_commit=True),
    "copilot": Pinned("@github/copilot", "1.0.102", "@github/copilot-*/copilot"),
    "gemini": Pinned("@google/gemini-cli", "0.61.0", ".bin/gemini"),
    "goose": Pinned("@aaif/goose", "0.20.1", "@aaif/goose-binary-*/bin/goose"),
    "opencode": Pinned("opencode-ai", "1.18.33", "opencode-*/bin/opencode"),
}


def find(name: str) -> tuple[Path, str]:
    """The program of an agent, and why there is none, if there is none."""
    pinned = PROGRAMS[name]
    package = f"{pinned.package}@{pinned.version}"
    folder, why_not = npm.packages(f"agent-{name}-{pinned.version}", package)
    if why_not:
        return Path(), f"{name}: {why_not}"
    # A platform's program is an optional package, whose absence npm reports as success.
    if found := sorted(folder.glob(pinned.program)):
        return found[0], ""
    return Path(), f"{name}: {package} has no program for this machine"


if __name__ == "__main__":
    for name, pinned in PROGRAMS.items():
        if pinned.every_commit:
            program, why_not = find(name)
            print(why_not or f"{name} {pinned.version}")
