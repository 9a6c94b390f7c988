"""Those who work on one vault at the same time: agents with dibs, agents that know only the folders, and editors.

Each is a scene, played by a process of its own; what it did is told in the end, by the shared monotonic clock.
"""

from __future__ import annotations

import os
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.errors import DibsError, StoreUnavailable

#: As the source writes them.
CLAIMED = """
# Claimed Task: {id}

**Claimed By**: {agent}
**Claimed At**: {at}
**Status**: processing

## Progress

<!-- Agent adds progress notes here -->
- {note}
"""
COMPLETED = """
## Completion

**Completed At**: {at}
**Duration**: 0
**Result**: success
**Next State**: {state}
"""
IDLE_SECONDS_MAX = 60.0
#: item, who, from when, until when, how it ended; times in ns of the monotonic clock.
Hold = tuple[str, str, int, int, str]


def with_dibs(board: Board, *, agent: str, items: int, seed: int, gives_back: float = 0.2) -> dict[str, Any]:
    """Claim, write progress and finish until everything on the board is over."""
    draw = random.Random(seed)
    session = board.start_session(agent).id
    holds: list[Hold] = []
    lost: list[str] = []
    end = time.monotonic() + IDLE_SECONDS_MAX
    while time.monotonic() < end:
        try:
            grants = board.next(session=session, wait_seconds=0.1)
        except StoreUnavailable:
            continue
        if not grants:
            if len(board.list(statuses=("done", "rejected"))) >= items:
                break
            continue
        end = time.monotonic() + IDLE_SECONDS_MAX
        item, since = grants[0].item.id, time.monotonic_ns()
        gives_up = draw.random() < gives_back
        try:
            if draw.random() < 0.5:
                board.progress(item, f"{agent} is at it", session=session)
            until = time.monotonic_ns()
            if gives_up:
                board.release(item, session=session)
            else:
                board.done(item, session=session)
            holds.append((item, agent, since, until, "released" if gives_up else "done"))
        except DibsError as refusal:
            lost.append(f"{item} under {grants[0].claim.token}: {refusal.code} {refusal.message}")
    return {"holds": holds, "lost": lost}


def by_renaming(board: Board, *, root: str, agent: str, seed: int) -> dict[str, Any]:
    """The agent of the source: it renames, appends to the file in place, and renames again."""
    board.close()
    draw = random.Random(seed)
    holds: list[Hold] = []
    notes: dict[str, list[str]] = {}
    missing: list[str] = []
    vault = Path(root)
    (vault / "In_Progress" / agent).mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        # The first ones: those are what the others are handed out.
        for name in draw.sample(first := sorted(os.listdir(vault / "Needs_Action"))[:3], len(first))[:1]:
            mine = vault / "In_Progress" / agent / name
            try:
                os.rename(vault / "Needs_Action" / name, mine)
            except FileNotFoundError:
                continue
            since, id = time.monotonic_ns(), name.removesuffix(".md")
            note = f"{agent} was here {os.urandom(6).hex()}"
            _append(mine, CLAIMED.format(id=id, agent=agent, at=_now(), note=note))
            notes.setdefault(id, []).append(note)
            time.sleep(draw.random() * 0.03)  # work
            state, until = draw.choice(("Done", "Done", "Rejected")), time.monotonic_ns()
            (vault / state).mkdir(exist_ok=True)
            try:
                os.rename(mine, vault / state / name)
            except FileNotFoundError:
                missing.append(name)
                continue
            _append(vault / state / name, COMPLETED.format(at=_now(), state=state))
            holds.append((id, agent, since, until, state.lower()))
            end = time.monotonic() + 2.0
        time.sleep(draw.random() * 0.02)
    return {"holds": holds, "notes": notes, "missing": missing}


def _append(path: Path, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def overlaps(holds: list[Hold]) -> list[str]:
    """Items that two had at the same time."""
    found = []
    last: dict[str, Hold] = {}
    for hold in sorted(holds, key=lambda hold: hold[2]):
        before = last.get(hold[0])
        if before is not None and before[3] > hold[2]:
            found.append(f"{hold[0]}: {before} and {hold}")
        last[hold[0]] = hold
    return found


def take_and_give_back(board: Board, *, agent: str, stop: str, seed: int) -> dict[str, Any]:
    """Claim, note and release whatever there is, until the file `stop` is there."""
    draw = random.Random(seed)
    session = board.start_session(agent).id
    did: dict[str, int] = {}
    while not os.path.exists(stop):
        try:
            for grant in board.next(session=session, n=2):
                if draw.random() < 0.5:
                    board.progress(grant.item.id, f"{agent} is at it", session=session)
                board.release(grant.item.id, session=session, reason="not mine")
                did["released"] = did.get("released", 0) + 1
        except DibsError as refusal:
            did[refusal.code] = did.get(refusal.code, 0) + 1
    for held in board.who():
        if held.claim is not None and held.claim.agent == agent:
            board.release(held.item.id, session=session)
    return did
