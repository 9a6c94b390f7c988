"""Every short sequence of what two clones of one hub do to one item, and what has to be true whatever they do.

    python -m tests.vault.sequences LOG [PART/PARTS]

plays all sequences that are not in LOG yet, one line for each that was played: a run that was interrupted goes on where
it was. Of two sequences that differ only by which clone is which, one is played; and one with a move that there is
nothing to move for is the same as a shorter one.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
from pathlib import Path

from dibs.board import Board
from dibs.errors import DibsError
from dibs.store.vault import taskfile
from dibs.testing.invariants import assert_sound
from tests.vault.clones import git
from tests.vault.test_git_store import Pair

DEEDS = ("move", "undo", "look", "claim", "done", "sync")
#: So many in a row, of which the first is by the first clone.
LENGTH_MAX = 4
RANDOM = 2000
RANDOM_LENGTHS = (5, 8)
SEED = 14
#: The repositories grow, and with them what each step costs.
PER_PAIR = 40

Step = tuple[str, str]
Sequence = tuple[Step, ...]


def every() -> list[Sequence]:
    steps = list(itertools.product("AB", DEEDS))
    short = [
        sequence
        for length in range(1, LENGTH_MAX + 1)
        for sequence in itertools.product(steps, repeat=length)
        if sequence[0][0] == "A"
    ]
    draw = random.Random(SEED)
    long = [
        (("A", draw.choice(DEEDS)), *draw.choices(steps, k=draw.randint(*RANDOM_LENGTHS) - 1)) for _ in range(RANDOM)
    ]
    return [*short, *long]


def spelled(sequence: Sequence) -> str:
    return " ".join(f"{clone}.{deed}" for clone, deed in sequence)


def read(said: str) -> Sequence:
    words = [word.partition(".") for word in said.split()]
    return tuple((clone, deed) for clone, _, deed in words)


def is_same(sequence: Sequence) -> bool:
    """Whether it is clear without playing it that there is nothing to move. Who talks to the hub may find anything."""
    places: dict[str, str | None] = {"A": "ready", "B": "ready"}
    for clone, deed in sequence:
        place = places[clone]
        if (deed, place) in (("move", "local"), ("undo", "ready"), ("move", "done"), ("undo", "done")):
            return True
        if deed in ("move", "undo"):
            places[clone] = "local" if deed == "move" else "ready"
        elif deed != "look":
            places[clone] = "done" if (deed, place) == ("done", "local") else None
    return False


class Same(Exception):
    """There is nothing to move: the sequence is the same as one without that step."""


class Play:
    """One sequence, about an item of its own."""

    def __init__(self, pair: Pair, item: str, sequence: Sequence) -> None:
        self.pair, self.item, self.sequence = pair, item, sequence
        self.boards: dict[str, Board] = {"A": pair.a, "B": pair.b}
        self.roots = {"A": pair.here, "B": pair.there}
        self.sessions = {"A": pair.alice, "B": pair.bob}
        #: What was acknowledged, in order: the claims, and who ended one.
        self.given: list[tuple[int, str]] = []
        self.ended: str | None = None

    def perform(self) -> None:
        """With the item in both clones, ready."""
        for clone, deed in self.sequence:
            getattr(self, deed)(clone)
        for _ in range(2):
            self.pair.a.sync()
            self.pair.b.sync()
        self.judge()

    def move(self, clone: str) -> None:
        self._rename(clone, "Needs_Action", "In_Progress/local")

    def undo(self, clone: str) -> None:
        self._rename(clone, "In_Progress/local", "Needs_Action")

    def look(self, clone: str) -> None:
        self.boards[clone].get(self.item)

    def sync(self, clone: str) -> None:
        self.boards[clone].sync()

    def claim(self, clone: str) -> None:
        try:
            grant = self.boards[clone].claim(self.item, session=self.sessions[clone])
        except DibsError:
            return
        if (grant.claim.token, grant.claim.session) not in self.given[-1:]:
            self.given.append((grant.claim.token, grant.claim.session))

    def done(self, clone: str) -> None:
        """By a move, of what was taken by a move; by the verb otherwise."""
        try:
            self._rename(clone, "In_Progress/local", "Done")
        except Same:
            try:
                self.boards[clone].done(self.item, session=self.sessions[clone])
            except DibsError:
                return
            assert self.ended is None, f"ended by {self.ended} and by {self.sessions[clone]}"
            self.ended = self.sessions[clone]

    def _rename(self, clone: str, source: str, target: str) -> None:
        root, name = self.roots[clone], f"{self.item}.md"
        (root / target).mkdir(parents=True, exist_ok=True)
        try:
            (root / source / name).rename(root / target / name)
        except FileNotFoundError:
            raise Same from None

    # What has to be true

    def judge(self) -> None:
        a, b = (self._told(board) for board in self.boards.values())
        assert a == b, f"they disagree:\n{a}\n{b}"
        tokens = [token for token, _ in self.given]
        assert tokens == sorted(set(tokens)), f"tokens do not rise: {self.given}"
        owners = owners_by_the_hub(self.pair.folder / "hub.git", f"{self.item}.md")
        for token, session in self.given:
            assert owners.get(token) == session, f"{session} was given {token}; by the hub: {owners}"
        if self.given and self.ended is None:
            assert a["claim"] == list(self.given[-1]), f"{self.given[-1]} was taken away: {a}"
        if self.ended is not None:
            assert a["status"] == "done", f"{self.ended} was told that it is done: {a}"

    def _told(self, board: Board) -> dict[str, object]:
        detail = board.get(self.item)
        claim = detail.claim
        return {
            "status": detail.item.status,
            "token": detail.item.token,
            "claim": None if claim is None else [claim.token, claim.session],
            "agent": None if claim is None else claim.agent,
        }


def owners_by_the_hub(hub: Path, name: str) -> dict[int, str]:
    """Whose each token was, by every commit that the hub ever had. One owner each, and numbers never fall."""
    words = ("log", "--first-parent", "--reverse", "--format=", "--raw", "--no-renames", "--no-abbrev", "main")
    lines = [line.split() for line in git(hub, *words, "--", f"*/{name}").splitlines()]
    owners: dict[int, str] = {}
    last = 0
    for blob in [line[3] for line in lines if line[4] != "D" and not line[5].startswith("Conflicts/")]:
        task = taskfile.read(git(hub, "cat-file", "blob", blob), name)
        token = 0 if task.facts is None else task.facts.token
        assert token >= last, f"the hub's token fell from {last} to {token}"
        last = token
        claim = None if task.facts is None else task.facts.claim
        told = {run.token: run.session for run in task.runs}
        told |= {} if claim is None else {claim.token: claim.session}
        for given, session in told.items():
            owner = owners.setdefault(given, session)
            assert owner == session, f"token {given} is {owner}'s and {session}'s"
    return owners


def play(sequences: list[tuple[int, Sequence]], log: Path | None = None) -> tuple[int, list[str]]:
    """How many were played to the end, and what was wrong with which."""
    played, wrong = 0, []
    todo = []
    for number, sequence in sequences:
        if is_same(sequence):
            _note(log, number, sequence, "same")
        else:
            todo.append((number, sequence))
    with tempfile.TemporaryDirectory() as folder:
        while todo:
            pair = _made(Path(folder) / str(len(todo)), [number for number, _ in todo[:PER_PAIR]])
            for number, sequence in todo[:PER_PAIR]:
                todo.pop(0)
                said = _said(Play(pair, f"s{number}", sequence))
                played += said == "ok"
                _note(log, number, sequence, said)
                if said not in ("ok", "same"):
                    wrong.append(f"{number}: {spelled(sequence)}: {said}")
                    break  # what is wrong with one item may spoil what follows
            else:
                assert_sound(pair.a)
                assert_sound(pair.b)
            pair.a.close()
            pair.b.close()
    return played, wrong


def _made(folder: Path, numbers: list[int]) -> Pair:
    """Two clones with an item for each of these."""
    folder.mkdir()
    pair = Pair(folder)
    for number in numbers:
        pair.a.add("one", id=f"s{number}")
    pair.a.sync()
    pair.b.sync()
    return pair


def _said(play: Play) -> str:
    try:
        play.perform()
    except Same:
        return "same"
    except (AssertionError, DibsError) as failure:
        return f"{type(failure).__name__}: {failure}"
    return "ok"


def _note(log: Path | None, number: int, sequence: Sequence, said: str) -> None:
    if log is not None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps([number, spelled(sequence), said]) + "\n")


def left(log: Path) -> list[tuple[int, Sequence]]:
    """Those that were not played yet, or not well."""
    done = set()
    if log.exists():
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        done = {line[0] for line in lines if line[2] in ("ok", "same")}
    return [(number, sequence) for number, sequence in enumerate(every()) if number not in done]


def main(log: Path, part: str = "1/1") -> None:
    mine, parts = map(int, part.split("/"))
    todo = [one for one in left(log) if one[0] % parts == mine - 1]
    random.Random(SEED).shuffle(todo)
    played, wrong = play(todo, log)
    print(f"{len(every())} sequences, {len(todo)} were left, {played} played to the end, {len(wrong)} wrong")
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
