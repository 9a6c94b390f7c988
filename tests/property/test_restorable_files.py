"""A board that the command line wrote to, or a vault whose files a person edits and moves, can be restored, copied and
exported, if doctor has no finding about it. See `test_restorable_boards` for the other interfaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dibs.board import connect
from dibs.store.vault.layout import APPROVED, FOLDERS, HELD
from dibs.testing import sizes
from tests.kit.command_server import CommandServer
from tests.kit.waiting import PATIENCE_SECONDS
from tests.property.test_restorable_boards import ITEMS, NAMES, comes_back, wrong

#: What fits into the arguments of a process.
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["", "  ", "A" * 9000, "a\x1b[2J", "-x"]))
COMMANDS = st.one_of(
    st.tuples(st.just("add"), TEXTS, st.just("--id"), ITEMS, st.just("--body"), TEXTS),
    st.tuples(st.sampled_from(["claim", "wait", "done", "show"]), ITEMS),
    st.tuples(st.just("claim"), ITEMS, st.just("--soft")),
    st.tuples(st.sampled_from(["fail", "release", "reject"]), ITEMS, st.just("--reason"), TEXTS),
    st.tuples(st.sampled_from(["progress", "submit"]), ITEMS, TEXTS),
    st.tuples(st.just("edit"), ITEMS, st.just("--title"), TEXTS, st.just("--label"), NAMES),
)
CALLS = st.tuples(st.just("command"), COMMANDS)
HOLDING = f"{HELD}/coder"
PLACES = st.sampled_from([*(folder for folder in FOLDERS.values() if folder != HELD), APPROVED, HELD, HOLDING])
NAMED = ("x", "x", "y", "y", "z", "my item", "PROJ-1 ", "é", "a\u202eb", "-x")
FILES = st.sampled_from([f"{name}.md" for name in NAMED])
FRONTS = st.sampled_from(
    [
        "",
        "---\npriority: high\ntags: [mine]\n---\n",
        "---\ndepends_on: [y]\nresources: [a, b]\n---\n",
        "---\nlabels: l\nnot_before: 2099-01-01\nneeds_approval: true\n---\n",
        "---\nid: y\n---\n",
        "---\npriority: [\n---\n",
    ]
)
DEEDS = st.one_of(
    st.tuples(st.just("write"), st.tuples(PLACES, FILES, st.tuples(FRONTS, st.just("# A title\n\n"), TEXTS))),
    st.tuples(st.just("append"), st.tuples(FILES, TEXTS)),
    *[st.tuples(st.just("move"), st.tuples(FILES, PLACES))] * 2,
    st.tuples(st.just("remove"), st.tuples(FILES)),
)
#: So that moves meet items of every kind.
FIRST: list[tuple[str, Any]] = [
    *(("command", ("add", "t", "--id", id)) for id in ("x", "y", "z")),
    ("command", ("claim", "x")),
    ("move", ("y.md", HOLDING)),
]
AS_OFTEN = settings(
    max_examples=sizes.times(4),
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink],
)


@pytest.fixture(scope="module")
def commands() -> Iterator[CommandServer]:
    with closing(CommandServer({"PATH": os.environ["PATH"]})) as server:
        yield server


@AS_OFTEN
@given(calls=st.lists(CALLS, min_size=2, max_size=6))
def test_a_board_of_the_command_line_comes_back(
    commands: CommandServer, tmp_path_factory: pytest.TempPathFactory, calls: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("board")
    path = folder / "board.db"
    with connect(str(path), create=True) as board:
        for number, (_, words) in enumerate([*FIRST[:-1], *calls]):
            command(commands, folder, path, words, f"s-{number % 2}")
        assert wrong(board) == []
        comes_back(board, folder)


@AS_OFTEN
@given(calls=st.lists(st.one_of(CALLS, DEEDS, DEEDS), min_size=3, max_size=8))
def test_a_vault_that_a_person_edits_comes_back(
    commands: CommandServer, tmp_path_factory: pytest.TempPathFactory, calls: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("board")
    root = folder / "vault"
    made = run(commands, folder, {}, ("vault", "init", str(root)))
    assert made.returncode == 0, made.stderr
    with connect(f"vault:{root}") as board:
        for number, (deed, given) in enumerate([*FIRST, *calls]):
            if deed == "command":
                command(commands, folder, f"vault:{root}", given, f"s-{number % 2}")
            else:
                edit(root, deed, given)
                board.list()  # reads what changed
        about_files = [what for what, _ in board.store.remarks()]
        assert set(wrong(board)) <= set(about_files), "what a person writes is on the board, or is named"
        if not about_files:
            comes_back(board, folder)


def command(commands: CommandServer, folder: Path, store: Path | str, words: tuple[str, ...], session: str) -> None:
    """As a process of its own. It may be refused, but it does not crash."""
    environment = {"DIBS_STORE": str(store), "DIBS_SESSION": session, "DIBS_AGENT": "coder"}
    done = run(commands, folder, environment, tuple(word.replace("\0", "") for word in words))
    assert b"Traceback" not in done.stderr, (words, done.stderr)


def run(commands: CommandServer, folder: Path, environment: dict[str, str], words: tuple[str, ...]) -> Any:
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "LOGNAME": "alice", **environment}
    return commands.run(words, folder=str(folder), environment=given, feed=None, seconds_max=PATIENCE_SECONDS)


def edit(root: Path, deed: str, given: tuple[Any, ...]) -> None:
    """What a person does in a folder of files. A file that is not there is left alone."""
    if deed == "write":
        place, name, pieces = given
        path = root / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(pieces), encoding="utf-8", newline="")
        return
    name, *rest = given
    for path in [found for found in root.rglob(name) if ".dibs" not in found.parts][:1]:
        if deed == "append":
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(rest[0])
        elif deed == "move":
            (root / rest[0]).mkdir(parents=True, exist_ok=True)
            path.rename(root / rest[0] / name)
        else:
            path.unlink()
