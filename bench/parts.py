"""The parts of the measurements: the module `bench/NAME.py` of each, and the options that `make bench` gives it.

A part has a function `measure`, which answers with a title and rows. Its first sentence is what `--list` says of it.
"""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Sequence

Rows = list[dict[str, object]]

#: `make bench` runs these: all that `bench.targets` reads. The options keep the whole run below a quarter of an hour.
OF_TARGETS: dict[str, tuple[str, ...]] = {
    "startup": (),
    "drain": (),
    "costs": (),
    "hot_verbs": ("--rounds", "2", "--seconds", "3", "--verbs", "heartbeat,next; done"),
    "large": (),
    "many_agents": ("--seconds", "15"),
    "neighbours": (),
    "postgres": ("--rounds", "3", "--workers", "8", "--seconds", "2", "--only", "dibs,pgbench,pgqueuer,procrastinate"),
    "growth": (),
    "vault": ("--only", "fleets"),
}
#: These run when they are named.
OTHERS = ("wakeup", "serving", "horizon", "fleet", "dashboard", "page", "top", "hooks", "mcp")
NAMES = (*OF_TARGETS, *OTHERS)


def sentence(name: str) -> str:
    """What a part measures, without importing it: it may need what is not installed."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), encoding="utf-8") as file:
        text = ast.get_docstring(ast.parse(file.read())) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


def run(name: str, options: Sequence[str]) -> tuple[str, Rows]:
    module = importlib.import_module(f"bench.{name}")
    title, rows = module.measure(options) if options else module.measure()
    return title, rows
