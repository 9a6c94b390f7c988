"""People in their editors, as processes that save all the time, in the ways in which editors save.

Each appends a numbered line to the text that it read, and knows which lines it believes to be saved: all but those that
it has overwritten itself, by a save of a text without them.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

from dibs.board import Board
from dibs.store.vault.layout import FOLDERS
from dibs.system.renaming import Renaming

#: In place; through a descriptor that was open before; by a new file that is renamed over the old one.
WAYS = ("in place", "held open", "renamed over")


def edit(board: Board, *, root: str, name: str, way: str, saves: int, who: str, seed: int) -> dict[str, Any]:
    """Save that often, each time with one more line."""
    board.close()
    draw = random.Random(seed)
    editor = Editor(Path(root), name, who)
    while editor.saves < saves and editor.misses < 50 * saves:
        editor.save(way, draw)
        time.sleep(draw.random() * 0.03)
    return {
        "lines": [line for line in editor.lines if line not in editor.overwritten],
        "saves": editor.saves,
        "misses": editor.misses,
        "overwritten": len(editor.overwritten),
    }


class Editor:
    def __init__(self, root: Path, name: str, who: str) -> None:
        self.root, self.name, self.who = root, name, who
        self.lines: list[str] = []
        self.overwritten: set[str] = set()
        self.saves = self.misses = 0

    def save(self, way: str, draw: random.Random) -> None:
        place = self._found()
        if place is None:
            self.misses += 1
            return
        try:
            if way == "renamed over":
                self._rename_over(place, draw)
            else:
                self._write_in_place(place, draw, held=way == "held open")
        except FileNotFoundError:
            self.misses += 1

    def _found(self) -> Path | None:
        """Where the file lies now; it may be elsewhere when it is opened."""
        agents = (f"In_Progress/{agent}" for agent in ("cloud", "local"))
        folders = [*agents, *(folder for folder in FOLDERS.values() if folder != "In_Progress")]
        return next((path for folder in folders if (path := self.root / folder / self.name).exists()), None)

    def _with_a_line(self, text: str) -> tuple[str, str]:
        line = f"- {self.who} {self.saves:04} {os.urandom(4).hex()}"
        marker = "\n<!-- dibs: runs -->"
        head, found, rest = text.partition(marker)
        return line, f"{head.rstrip()}\n{line}\n{found}{rest}"

    def _write_in_place(self, place: Path, draw: random.Random, *, held: bool) -> None:
        descriptor = os.open(place, os.O_RDWR)
        try:
            line, text = self._with_a_line(_all(descriptor))
            if held:
                time.sleep(draw.random() * 0.01)  # the window stays open for a while
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            _write(descriptor, text)
        finally:
            os.close(descriptor)
        self._saved(line)

    def _rename_over(self, place: Path, draw: random.Random) -> None:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            line, text = self._with_a_line(_all(descriptor))
        finally:
            os.close(descriptor)
        draft = place.with_name(f".{self.name}.{self.who}.tmp")
        draft.write_text(text, encoding="utf-8", newline="")
        time.sleep(draw.random() * 0.003)
        overwritten = _renamed_over(draft, place)
        self.overwritten |= {own for own in self.lines if own in overwritten and own not in text}
        self._saved(line)

    def _saved(self, line: str) -> None:
        self.lines.append(line)
        self.saves += 1


def _renamed_over(draft: Path, place: Path) -> str:
    """As `rename` does, for all who look; the text that was overwritten by it."""
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        Renaming().swap((folder, draft.name), (folder, place.name), (folder, f"{draft.name}.spare"))
        overwritten = draft.read_text(encoding="utf-8", errors="replace")
        draft.unlink()
    except FileNotFoundError:
        os.rename(draft, place)
        return ""
    finally:
        os.close(folder)
    return overwritten


def _all(descriptor: int) -> str:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces).decode()


def _write(descriptor: int, text: str) -> None:
    rest = memoryview(text.encode())
    while rest:
        rest = rest[os.write(descriptor, rest) :]
