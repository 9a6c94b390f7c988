"""What an agent is told while it works on a vault, and whether it is still so after the power was cut.

Both are scenes, played by processes of their own: nothing of the tests keeps the disk from being taken out.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.store.vault.store import VaultStore
from dibs.testing.actors import say
from dibs.testing.invariants import assert_sound
from tests.vault.conftest import places

AGENT = "ann"
FOLDERS = {
    "claimed": f"In_Progress/{AGENT}",
    "progress": f"In_Progress/{AGENT}",
    "done": "Done",
    "released": "Needs_Action",
}
#: Few pages, so that the WAL is soon written over. Only a WAL that does not grow leaves the journal of the file system
#: alone: a commit that makes it longer would bring the folders to the disk, too.
WAL_PAGES = 60
#: One acknowledgement: item, kind of its event, token, request id, checksum of the file.
Said = tuple[str, str, int, str, int]


def work(board: Board, *, most: int) -> None:
    """Claim, note, finish and give back, and say each as soon as it is acknowledged; at most so many."""
    store = board.store
    assert isinstance(store, VaultStore)
    store.engine.connection().wal_autocheckpoint(WAL_PAGES)
    session = board.start_session(AGENT, id=AGENT).id
    left = most

    def told(item: str, kind: str, token: int, request: str) -> None:
        nonlocal left
        text = Path(store.root, FOLDERS[kind], f"{item}.md").read_bytes()
        left -= 1
        say({"said": [item, kind, token, request, crc32(text)]})

    while left > 0 and (grants := board.next(session=session, request_id=f"next-{left}")):
        item, token = grants[0].item.id, grants[0].claim.token
        told(item, "claimed", token, f"next-{left}")
        for kind in ("progress", *_end(item, token)):
            if left > 0:
                request = f"{kind}-{left}"
                _ask(board, item, kind, request)
                told(item, kind, token, request)


def _end(item: str, token: int) -> tuple[str, ...]:
    """A third is finished, a third given back once, a third kept."""
    number = int(item[-2:]) % 3
    return ("done",) if number == 0 or token > 1 else ("released",) if number == 1 else ()


def _ask(board: Board, item: str, kind: str, request: str) -> object:
    """Asked again under the same request id, the answer is the same."""
    verbs: dict[str, Callable[[], object]] = {
        "claimed": lambda: board.next(session=AGENT, request_id=request),
        "progress": lambda: board.progress(item, f"a note on {item}", session=AGENT, request_id=request),
        "done": lambda: board.done(item, session=AGENT, request_id=request),
        "released": lambda: board.release(item, session=AGENT, request_id=request),
    }
    return verbs[kind]()


def broken_promises(board: Board, *, said: list[Said], is_idle: bool) -> list[str]:
    """Which of this is not so. Unless the agent was idle, it was at its next verb, mostly on the item that it was last
    told of. What nobody was told of may have happened in part: the file was moved, which then counts as a person's."""
    going_on = None if is_idle else said[-1][0]
    wrong = [why for item in dict.fromkeys(one[0] for one in said) if (why := _is_broken(board, item, said, going_on))]
    wrong = wrong or [*_other_answers(board, said), *_given_twice(board, said, going_on)]
    if not wrong:
        assert_sound(board)
    return wrong


def _is_broken(board: Board, item: str, said: list[Said], going_on: str | None) -> str | None:
    store = board.store
    assert isinstance(store, VaultStore)
    told = [one for one in said if one[0] == item]
    _, kind, token, _, mark = told[-1]
    kinds = [one[1] for one in told]
    events = [event.kind for event in board.log(item) if event.kind in FOLDERS]
    if events[: len(kinds)] != kinds or len(events) > len(kinds) + (item == going_on):
        return f"{item}: told {kinds}, and its events are {events}"
    found = board.get(item).item
    if not token <= found.token <= token + (item == going_on):
        return f"{item} was {kind} under {token} and is {found.status} under {found.token}"
    file = Path(store.root, FOLDERS[kind], f"{item}.md")
    if item != going_on and (not file.exists() or crc32(file.read_bytes()) != mark):
        return f"{item} was {kind} in {file}, and the file is missing or another"
    return None


def _other_answers(board: Board, said: list[Said]) -> list[str]:
    before = _count_events(board, said)
    wrong = []
    for item, kind, token, request, _ in said:
        answer: Any = _ask(board, item, kind, request)
        if kind == "claimed" and (answer[0].item.id, answer[0].claim.token) != (item, token):
            wrong.append(f"{request} gave {item} under {token}, and now {answer[0].item.id}")
    return wrong or ([] if _count_events(board, said) == before else ["a request was done again"])


def _count_events(board: Board, said: list[Said]) -> int:
    return sum(len(board.log(item)) for item in {one[0] for one in said})


def _given_twice(board: Board, said: list[Said], going_on: str | None) -> list[str]:
    """Items that another gets although they are held or done."""
    kept = {item: kind for item, kind, *_ in said if item != going_on}
    other = board.start_session("ben").id
    got = []
    while grants := board.next(session=other):
        got.append(grants[0].item.id)
    return [f"{item} is {kept[item]} and was given again" for item in got if kept.get(item, "released") != "released"]


def names_and_texts(root: str, names: list[str], line: str) -> list[str]:
    """Files that are missing or twice, or lack a line that a person wrote."""
    files = places(Path(root))
    if sorted(file.rpartition("/")[2] for file in files) != names:
        return [f"there are {files}"]
    return [file for file in files if line not in (Path(root) / file).read_text()]
