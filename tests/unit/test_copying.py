"""A copy that is not the same is found out, whichever way it differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board, connect
from dibs.cli.progress import Progress
from dibs.errors import StoreUnusable
from dibs.maintenance.copying import Tally, copy

Record = tuple[str, dict[str, Any]]


def tally(*records: Record) -> Tally:
    told = Tally(lambda: None)
    assert tuple(told.counting(records)) == records
    return told


A, B = ("item", {"id": "a", "n": 1}), ("item", {"id": "b", "n": 1})


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ([A, B], [B, A], []),
        ([A], [("item", {"n": 1, "id": "a"})], []),
        ([A, B], [A], ["item"]),
        ([A, A], [B, B], ["item"]),
        ([A], [("item", {"id": "a", "n": 2})], ["item"]),
        ([A], [("event", A[1])], ["event", "item"]),
        ([A], [], ["item"]),
        ([], [], []),
    ],
)
def test_two_tallies_differ_if_their_records_do(one: list[Record], other: list[Record], differ: list[str]) -> None:
    assert tally(*one).differences(tally(*other)) == differ
    assert tally(*other).differences(tally(*one)) == differ


def loses_an_event(records: Iterable[Record]) -> Iterator[Record]:
    lost = False
    for kind, value in records:
        if kind != "event" or lost:
            yield kind, value
        lost = lost or kind == "event"


def changes_a_title(records: Iterable[Record]) -> Iterator[Record]:
    for kind, value in records:
        yield kind, {**value, "title": "other"} if kind == "item" else value


@pytest.mark.parametrize(("mistake", "kind"), [(loses_an_event, "event"), (changes_a_title, "item")])
def test_a_store_that_does_not_keep_what_it_is_given_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., Iterator[Record]], kind: str
) -> None:
    with connect(str(tmp_path / "a.db"), folder=str(tmp_path), create=True) as board:
        board.add("Fix login")
    load = Board.load
    monkeypatch.setattr(Board, "load", lambda self, records: load(self, mistake(records)))
    with pytest.raises(StoreUnusable, match="do not use it") as refused:
        copy(str(tmp_path / "a.db"), str(tmp_path / "b.db"), progress=Progress(""), total=lambda _: None)
    assert refused.value.facts["kinds"] == [kind]
