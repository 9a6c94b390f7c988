"""Agents of the claim-by-move contract, as it has them, against agents with dibs: each item has one owner and no text
is lost, in one vault and in two clones of a hub."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.testing import sizes
from dibs.testing.invariants import assert_sound
from tests.conformance.conftest import folder
from tests.kit import vault
from tests.vault.clones import files, make_clone, make_hub
from tests.vault.conftest import put
from tests.vault.racing import Hold, overlaps
from tests.vault.sequences import owners_by_the_hub
from tests.vault.settling import settled, texts
from tests.vault.test_plain_agents import judge

__all__ = ["folder"]

#: Of so many items each is raced for.
RACES = 40 if sizes.FACTOR == 1 else 1000
RACES_IN_CLONES = 6 if sizes.FACTOR == 1 else 200
#: Between one item and the next: those who rename look for new ones now and then, those with dibs are told.
PAUSE_SECONDS = 0.01
SECONDS_MAX = 90.0 if sizes.FACTOR == 1 else 1800.0


def test_each_item_has_one_owner_among_source_agents_and_dibs(folder: Path) -> None:
    seed, stop = sizes.seed(), folder / "stop"
    with vault.harness(folder) as harness:
        board, root = harness.board(), folder / "vault"
        ids = [f"item-{number:04}" for number in range(1 + RACES)]
        actors = harness.actors(4)
        for number, actor in enumerate(actors[2:]):
            actor.play("tests.vault.racing:with_dibs", agent=f"cloud-{number}", items=len(ids), seed=seed + number)
        # A rename is that much faster: on a busy machine those with dibs might get nothing but this one.
        _put(root, ids[0])
        _until_it_is_taken(board, ids[0])
        for number, actor in enumerate(actors[:2]):
            words: dict[str, Any] = {"root": str(root), "stop": str(stop), "appends": number == 0, "interval": 0.15}
            actor.play("tests.vault.source_agent:play", agent=f"local-{number}", **words)
        for id in ids[1:]:
            _put(root, id)
            time.sleep(PAUSE_SECONDS)
        told = [actor.result() for actor in actors[2:]]
        stop.touch()
        told += [actor.result() for actor in actors[:2]]
        holds: list[Hold] = [tuple(hold) for one in told for hold in one["holds"]]
        print(f"seed {seed}: {len(holds)} holds, {Counter((hold[1], hold[4]) for hold in holds)}")
        assert {hold[1].partition("-")[0] for hold in holds} == {"local", "cloud"}, "nobody raced"
        assert not overlaps(holds), f"seed {seed}: {overlaps(holds)[:5]}"
        ended = Counter(hold[0] for hold in holds if hold[4] != "released")
        assert ended == Counter(ids), f"seed {seed}: ended {ended - Counter(ids)}, not {Counter(ids) - ended}"
        assert not [line for one in told for line in one.get("lost", ())], f"seed {seed}"
        settled(board)
        judge(board, root, holds, {id: notes for one in told for id, notes in one.get("notes", {}).items()}, seed)


def test_each_item_has_one_owner_by_the_hub_among_source_agents_in_two_clones(folder: Path) -> None:
    """In each clone an agent of the contract, one with dibs, and a sync now and then. Who loses has its text kept."""
    seed, stop = sizes.seed(), folder / "stop"
    make_hub(folder)
    ids = [f"item-{number:03}" for number in range(RACES_IN_CLONES)]
    roots = [make_clone(folder, name) for name in ("here", "there")]
    clock = vault.harness(folder).recipe()["kwargs"]["clock"]
    boards = [vault.open_board(path=str(root), clock=clock) for root in roots]
    for id in ids:
        put(roots[0], f"Needs_Action/{id}.md", f"# {id}\n\nA person wrote this about {id}.\n")
    for board in boards:
        board.sync()
    with vault.harness(folder) as harness:
        actors = harness.actors(2)
        for number, actor in enumerate(actors):
            words: dict[str, Any] = {"root": str(roots[number]), "stop": str(stop), "appends": number == 0}
            actor.play("tests.vault.source_agent:play", agent=f"local-{number}", **words)
        refusals: list[str] = []
        threads = [
            threading.Thread(target=_work, args=(board, f"cloud-{n}", stop, refusals)) for n, board in enumerate(boards)
        ]
        for thread in threads:
            thread.start()
        try:
            _until_all_is_over(boards, len(ids), refusals)
        finally:
            stop.touch()
            told = [actor.result() for actor in actors]
            for thread in threads:
                thread.join()
    for board in boards:
        settled(board)
    for board in boards * 2:
        board.sync()
    for id in ids:
        owners = owners_by_the_hub(folder / "hub.git", f"{id}.md")
        here, there = (board.get(id) for board in boards)
        assert (here.item.status, here.item.token) == (there.item.status, there.item.token), f"seed {seed}: {id}"
        assert here.item.status == "done", f"seed {seed}: {id} is {here.item.status}, {owners}"
        everything = "\n".join(text for root in roots for text in texts(root, f"{id}*.md").values())
        notes = [note for one in told for note in one["notes"].get(id, ())]
        assert not [note for note in notes if note not in everything], f"seed {seed}: {id} has lost a note"
        assert f"A person wrote this about {id}.\n" in everything
    for board, root in zip(boards, roots, strict=True):
        assert_sound(board, f"seed {seed}:")
        assert not [path for path in files(root) if path.startswith(("Needs_Action/", "In_Progress/"))]
        board.close()


def _put(root: Path, id: str) -> None:
    """As a whole: whoever sees it sees all of its text."""
    hidden = put(root, f"Needs_Action/.{id}.new", f"# {id}\n\nA person wrote this about {id}.\n")
    hidden.rename(root / "Needs_Action" / f"{id}.md")


def _until_it_is_taken(board: Board, id: str) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not board.get(id).runs:
        assert time.monotonic() < end, "nobody takes it"
        time.sleep(0.02)


def _work(board: Board, agent: str, stop: Path, refusals: list[str]) -> None:
    session = board.start_session(agent).id
    held: list[str] = []
    while not stop.exists():
        try:
            held = held or [grant.item.id for grant in board.next(session=session)]
            while held:
                board.done(held[-1], session=session)
                held.pop()
            board.sync()
        except StoreUnavailable as refusal:
            refusals.append(f"{agent}: {refusal.message}")  # nothing was decided: once more


def _until_all_is_over(boards: list[Board], count: int, refusals: list[str]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while any(len(board.list(statuses=("done",), limit=10_000)) < count for board in boards):
        held = [[(line.item.id, line.claim) for line in board.who()] for board in boards]
        assert time.monotonic() < end, (held, len(refusals), refusals[-4:])
        time.sleep(0.2)
