"""What the processes of the races on a vault's files do: `python -m tests.vault.scenes SCENE ROOT ...`, one line of
input a round, one line of output for each."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dibs.store.vault.disk import Disk, Raced

X = "Needs_Action/x.md"


def move(root: str, me: str, way: str) -> None:
    """Take one file after the other into my folder, all in the same order, and say which I have.

    Whoever comes late finds the first files gone, which is quick, and so catches up: they fight for every file.
    """
    take: Callable[[str], bool] = {
        "native": lambda: _by_disk(Disk(root), me),
        "in-steps": lambda: _by_disk(Disk(root, native=False), me),
        "rename": lambda: _by_rename(root, me),
        "link-then-unlink": lambda: _by_link(root, me),
    }[way]()
    Path(root, "In_Progress", me).mkdir(parents=True)

    def act(line: str) -> str:
        moment, first, end = map(int, line.split())
        _await(moment)
        return " ".join([str(number) for number in range(first, end) if take(f"{number}.md")])

    _each_round(act)


def _by_disk(disk: Disk, me: str) -> Callable[[str], bool]:
    def take(name: str) -> bool:
        try:
            disk.move(f"Needs_Action/{name}", f"In_Progress/{me}/{name}")
        except Raced:
            return False
        return True

    return take


def _by_rename(root: str, me: str) -> Callable[[str], bool]:
    """As the source's agents do."""

    def take(name: str) -> bool:
        try:
            os.rename(f"{root}/Needs_Action/{name}", f"{root}/In_Progress/{me}/{name}")
        except FileNotFoundError:
            return False
        return True

    return take


def _by_link(root: str, me: str) -> Callable[[str], bool]:
    """The mistake: the old name stays for a moment, and whoever takes it then is an owner as well."""

    def take(name: str) -> bool:
        try:
            os.link(f"{root}/Needs_Action/{name}", f"{root}/In_Progress/{me}/{name}")
        except FileNotFoundError:
            return False
        Path(root, "Needs_Action", name).unlink(missing_ok=True)
        return True

    return take


def finish(root: str, source: str, way: str) -> None:
    """Each round: move the file of my folder to Done, where another of its name may come first."""
    disk = Disk(root, native=way == "native")

    def act(line: str) -> str:
        _await(int(line))
        try:
            disk.move(f"{source}/x.md", "Done/x.md")
        except FileExistsError:
            return "exists"
        return "moved"

    _each_round(act)


def exchange(root: str, way: str) -> None:
    """Each round: write over what is there as often as told; how often it was done, and how often a save was met."""
    disk = Disk(root, native=way == "native")

    def act(line: str) -> str:
        met = {"done": 0, "raced": 0}
        for number in range(int(line)):
            try:
                text, _ = disk.read(X)
                disk.exchange(X, text.partition(b"\n")[0] + b"\nwritten by dibs %d\n" % number, text)
                met["done"] += 1
            except Raced:
                met["raced"] += 1
        return f"{met['done']} {met['raced']}"

    _each_round(act)


def edit(root: str) -> None:
    """Each round: save the text of that number in the way that is told."""
    path = Path(root, X)
    # Opened before anything begins, as editors do that keep a file open.
    early: list[int] = []

    def act(line: str) -> str:
        number, way = line.split()
        text = b"save %s " % number.encode() + b"x" * 3000 + b"\n"
        if way == "open":
            early.append(os.open(path, os.O_RDWR))
            return "opened"
        if way == "early":
            descriptor = early.pop()
            os.ftruncate(descriptor, 0)
            _write_in_two(descriptor, text)
        elif way == "in-place":
            # Without O_CREAT: it would fail if the file were missing for a moment.
            _write_in_two(os.open(path, os.O_WRONLY | os.O_TRUNC), text)
        else:
            draft = path.with_name(".x.md.swp")
            draft.write_bytes(text)
            os.rename(draft, path)
        return "saved"

    _each_round(act)


def change(root: str) -> None:
    """Each round: one change of one of a few files, drawn by the number that is told."""
    folders = [Path(root, folder) for folder in ("Needs_Action", "Done", "In_Progress/ann")]

    def act(line: str) -> str:
        draw = random.Random(int(line))
        path = draw.choice(folders) / f"{draw.randrange(5)}.md"
        other = draw.choice(folders) / f"{draw.randrange(5)}.md"
        what = draw.choice(["write", "append", "save", "move", "remove", "touch"])
        if what == "write":
            path.write_bytes(draw.randbytes(10))
        elif what == "save":
            draft = path.with_name(".draft")
            draft.write_bytes(draw.randbytes(10))
            draft.rename(path)
        elif not path.exists():
            path.write_bytes(b"new")
        elif what == "append":
            with open(path, "ab") as file:
                file.write(b"more")
        elif what == "move":
            path.rename(other)
        elif what == "remove":
            path.unlink()
        else:
            os.utime(path)
        return "changed"

    _each_round(act)


def _await(moment_ns: int) -> None:
    """Until that moment, awake: whoever sleeps is woken one after the other."""
    while time.monotonic_ns() < moment_ns:
        pass


def _write_in_two(descriptor: int, text: bytes) -> None:
    os.write(descriptor, text[:1500])
    os.write(descriptor, text[1500:])
    os.close(descriptor)


def _each_round(act: Callable[[str], str]) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        print(act(line.strip()), flush=True)


SCENES: dict[str, Callable[..., None]] = {
    "move": move,
    "finish": finish,
    "exchange": exchange,
    "edit": edit,
    "change": change,
}

if __name__ == "__main__":
    SCENES[sys.argv[1]](*sys.argv[2:])
