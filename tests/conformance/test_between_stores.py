"""A backup or an export of any store is restored or imported into any other: four kinds of stores. At every commit each
kind is once where a file comes from and once where it goes; at night all pairs are tried."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board, files
from dibs.errors import DibsError, Invalid
from dibs.maintenance import doctor
from dibs.testing.conformance.asking import added, session
from dibs.testing.conformance.used_board import records, refused_all, used
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.kit import postgres, sqlite, vault
from tests.kit.http import Host, HttpHarness
from tests.kit.postgres_server import PostgresServer
from tests.kit.soak import in_a_soak, nightly

KINDS = ("sqlite", "postgres", "vault", "http")
RING = list(zip(KINDS, (*KINDS[1:], KINDS[0]), strict=True))
PAIRS = [
    *RING,
    *nightly(*(pair for pair in product(KINDS, KINDS) if pair not in RING)),
]
#: The last one is what a server sends of a board.
FILES = ("backup", "export", "sent")
STRIDE = 1_000_000
#: Fields of an item that a restore leaves as they are.
CONTENT = ("title", "body", "payload", "priority", "depends_on", "resources", "labels", "created_at", "retries")
#: A claim of the backup has ended: the status of its item after the restore, and in the backup.
LOST = ("ready", "in_progress")
#: A retry of the backup has become due.
DUE = ("ready", "scheduled")
Record = tuple[str, dict[str, Any]]
Make = Callable[[str], Harness]


class Source:
    """A used board of one kind, and the files that were made of it."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        harness.clock.freeze()
        board = harness.board()
        used(harness, board)
        # Files of a vault have no place for some of a board; what it says of itself is what counts.
        self.records = records(board)
        self.given = [(run.item, run.token, run.session) for run in board.runs(limit=10_000)]
        self.now = harness.clock.now()
        self.backup, self.export, self.sent = (str(folder / name) for name in FILES)
        board.backup(self.backup)
        with open(self.export, "w", encoding="ascii") as file:
            file.writelines(json.dumps({"record": kind, "value": value}) + "\n" for kind, value in board.export())
        with open(self.sent, "w", encoding="ascii") as file:
            file.writelines(json.dumps([kind, value]) + "\n" for kind, value in board.export())


@pytest.fixture
def make(postgres_server: PostgresServer, http_host: Host, folder: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(_harness(kind, postgres_server, http_host, folder))


@pytest.fixture(scope="module")
def sources(
    postgres_server: PostgresServer, http_host: Host, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Source]:
    made: dict[str, Source] = {}

    def source(kind: str) -> Source:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            with _harness(kind, postgres_server, http_host, folder) as harness:
                made[kind] = Source(harness, folder)
        return made[kind]

    return source


def _harness(kind: str, server: PostgresServer, host: Host, folder: Path) -> Harness:
    here = folder / f"{kind}-{os.urandom(3).hex()}"
    here.mkdir()
    if kind == "postgres":
        return postgres.harness(server, here)
    if kind == "vault":
        return vault.harness(here)
    return HttpHarness(sqlite.harness(here), [host]) if kind == "http" else sqlite.harness(here)


@pytest.mark.parametrize("file", ["backup", "export", *in_a_soak("sent")])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_file_of_any_store_is_restored_into_any_other(
    sources: Callable[[str], Source], make: Make, source: str, target: str, file: str
) -> None:
    taken, harness = sources(source), make(target)
    harness.clock.advance((taken.now - harness.clock.now()) / 1000)
    board = harness.board()
    added(board, *(f"own-{number}" for number in range(3)))
    mine = session(board)
    own = [(f"own-{number}", board.claim(f"own-{number}", session=mine).claim.token, mine) for number in range(3)]
    board.add_webhook("https://example.org/hook", kinds=["done"], id="own")
    last = board.events()[-1].id
    board.restore(getattr(taken, file), actor="admin")
    assert board.who() == ()
    found = records(board)
    before, after = _items(taken.records), _items(found)
    assert after.keys() == before.keys()
    for id, item in after.items():
        assert {name: item[name] for name in CONTENT} == {name: before[id][name] for name in CONTENT}, id
        assert item["status"] == before[id]["status"] or (item["status"], before[id]["status"]) in (LOST, DUE), id
    for kind in ("agent", "session", "dependency", "activity", "event"):
        had, has = (_of(kind, one) for one in (taken.records, found))
        assert set(had) <= set(has), kind
    assert [webhook.id for webhook in board.webhooks()] == ["own"]
    for item_id, token, me in taken.given:
        if item_id in after:
            refused_all(board, item_id, token, me, f"{source} to {target}")
    floors = dict(found)["board"]
    assert floors["token_floor"] > max(token for _, token, _ in taken.given + own) + STRIDE - 1
    assert all(event.id > last for event in board.events(after=last))
    fresh = session(board)
    assert board.claim("held", session=fresh).claim.token > STRIDE
    assert board.events()[-1].id > STRIDE
    assert_sound(board)
    # The server of the tests runs without fsync, and doctor says so. Doctor reads the clock of the machine: by that of
    # the test, the retry of x may have become due meanwhile.
    found_wrong = [finding.what for finding in doctor.examine(board) if "fsync" not in finding.what]
    assert [what for what in found_wrong if what != "x is ready, and should be scheduled"] == []
    board.close()
    again = harness.board()
    assert dict(records(again))["board"]["token_floor"] == floors["token_floor"], "lost when the store was opened again"
    assert {item.id for item in again.list()} == before.keys()
    assert _of("event", records(again))[: len(had)] == had


@pytest.mark.parametrize("file", ["backup", "export", *in_a_soak("sent")])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_file_of_any_store_is_imported_into_any_other(
    sources: Callable[[str], Source], make: Make, source: str, target: str, file: str
) -> None:
    taken, harness = sources(source), make(target)
    harness.clock.freeze()
    harness.clock.advance((taken.now - harness.clock.now()) / 1000)
    board = harness.board()
    with open(getattr(taken, file), "rb") as opened, files.records(opened) as found:
        assert board.load(found) == len(taken.records)
    assert _sorted(records(board)) == _sorted(taken.records)
    assert_sound(board)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_backup_that_was_cut_off_or_changed_is_neither_restored_nor_imported(
    sources: Callable[[str], Source], make: Make, folder: Path, source: str, target: str
) -> None:
    taken, harness = sources(source), make(target)
    board = harness.board()
    with open(taken.backup, "rb") as file:
        whole = file.read()
    lines = whole.splitlines(keepends=True)
    damaged = {
        "half": whole[: len(whole) // 2],
        "without its last line": b"".join(lines[:-1]),
        "its last line alone": lines[-1],
        "a word changed": whole.replace(b"half way", b"all way!"),
        "a line twice": b"".join([*lines[:3], *lines[2:]]),
        "more": whole + b"{}\n",
        "nothing": b"",
    }
    if whole.startswith(b"SQLite"):
        # Pages have no checksums, so only damage to their structure is found.
        damaged = {"half": damaged["half"], "a page": whole[:8192] + b"\xff" * 4096 + whole[12288:], "nothing": b""}
    for what, content in damaged.items():
        path = folder / "damaged"
        path.write_bytes(content)
        for load in (_restore, _import):
            before = records(board)
            with pytest.raises(DibsError) as refused:
                load(board, path)
            assert str(refused.value).isprintable(), what
            assert "not an error" not in str(refused.value), what
            assert records(board) == before, what


def test_what_is_neither_is_refused_in_one_line(make: Make, folder: Path) -> None:
    path = folder / "nonsense"
    path.write_bytes(b"no board at all\n" * 1000)
    for kind in KINDS:
        board = make(kind).board()
        with pytest.raises(DibsError, match="neither a backup nor an export"):
            board.restore(str(path))
        with pytest.raises(Invalid):
            _import(board, path)


def _restore(board: Board, path: Path) -> int:
    return board.restore(str(path))


def _import(board: Board, path: Path) -> int:
    with io.BytesIO(path.read_bytes()) as file, files.records(file) as found:
        return board.load(found)


def _items(found: list[Record]) -> dict[str, dict[str, Any]]:
    return {value["id"]: value for kind, value in found if kind == "item"}


def _of(kind: str, found: list[Record]) -> list[str]:
    return [json.dumps(value, sort_keys=True) for one, value in found if one == kind]


def _sorted(found: list[Record]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in found)
