"""The process behind `actors.Actor`: `python -m dibs.testing.actor`. Orders on stdin, answers on stdout, a line each.

The first line is the recipe of the board. Then `{"verb": ...}` or `{"scene": ...}`, until stdin ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

from dibs.errors import DibsError
from dibs.testing.actors import pass_gate, say
from dibs.testing.harness import open_recipe, resolve
from dibs.text import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board


def main() -> None:
    board = open_recipe(json.loads(sys.stdin.readline()))
    say({"ready": os.getpid()})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            say(do_verb(board, order) if "verb" in order else play_scene(board, order))
        except Exception:
            say({"crash": traceback.format_exc()})
    board.close()


def do_verb(board: Board, order: dict[str, Any]) -> dict[str, Any]:
    verb = getattr(board, order["verb"])
    if order["gate"]:
        say({"at_gate": True})
        pass_gate(order["gate"])
    said: dict[str, Any]
    start_ns = time.monotonic_ns()
    try:
        said = {"reply": wire.encode(verb(*order["args"], **order["kwargs"]))}
    except DibsError as refusal:
        said = wire.error(refusal)
    return {**said, "start_ns": start_ns, "end_ns": time.monotonic_ns()}


def play_scene(board: Board, order: dict[str, Any]) -> dict[str, Any]:
    return {"result": resolve(order["scene"])(board, **order["kwargs"])}


if __name__ == "__main__":
    main()
