"""A caller that is interrupted at a chosen point of a call, as the handler of a signal would interrupt it.

CPython runs signal handlers between two bytecodes: after a call has returned, at the start of a function, and where a
loop begins its next round. `interrupt` raises KeyboardInterrupt at the n-th of these points, found by tracing the
calling thread; `everywhere` takes every bytecode for a point, which is more than any signal can do.
"""

from __future__ import annotations

import dis
import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

#: Bytecodes after which the interpreter looks for signals; a jump back is looked for at its target.
_CHECKED = ("RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_KW")
_points: dict[CodeType, frozenset[int]] = {}


class Outcome:
    """What became of an interrupted call. `points`: how many of them were passed, the last one included."""

    def __init__(self) -> None:
        self.interrupted = False
        self.points = 0
        self.answer: Any = None


def interrupt(call: Callable[[], object], at: int, *, everywhere: bool = False) -> Outcome:
    """Make the call and interrupt it at its point number `at`, counted from 1; at 0 only count them. Twice, to be sure:
    from Python 3.12 on, bytecodes are told of from the second time on that somebody wants to know of them."""
    outcome = Outcome()

    def enter(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        points = None if everywhere else _points_of(frame.f_code)

        def pass_by(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "opcode" and (points is None or frame.f_lasti in points):
                outcome.points += 1
                if outcome.points == at:
                    outcome.interrupted = True
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return pass_by

        return pass_by

    before, collects = sys.gettrace(), gc.isenabled()
    # An exception in a callback of the collector, which others may have registered, is swallowed: no interrupt at all.
    gc.disable()
    sys.settrace(enter)
    try:
        outcome.answer = call()
    except KeyboardInterrupt:
        if not outcome.interrupted:
            raise
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return outcome


def _points_of(code: CodeType) -> frozenset[int]:
    found = _points.get(code)
    if found is None:
        found = _points[code] = _looked_up(code)
    return found


def _looked_up(code: CodeType) -> frozenset[int]:
    found: set[int] = set()
    checked = False
    for instruction in dis.get_instructions(code):
        if checked:
            found.add(instruction.offset)
        checked = instruction.opname in _CHECKED
        if instruction.opname.startswith("JUMP_BACKWARD") and isinstance(instruction.argval, int):
            found.add(instruction.argval)
    return frozenset(found)


def evenly(total: int, count: int) -> list[int]:
    """That many of the numbers from 1 to `total`, the first and the last among them; all of them if there are fewer."""
    if count >= total:
        return list(range(1, total + 1))
    return sorted({1 + round(number * (total - 1) / (count - 1)) for number in range(count)})
