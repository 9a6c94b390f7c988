"""The assignment service's worker, in Python, over dibs in Python and over dibs in SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board, connect, make
from tests.docs.production import Production, production
from tests.kit.postgres_server import PostgresServer
from tests.sources.assignment_service.services import InPython, InSql
from tests.sources.assignment_service.worker import PRIORITIES, WorkItem, process, work

#: The document's own example of an item.
PAYLOAD = {
    "event_type": "issues.labeled",
    "issue_number": 42,
    "label": "bug",
    "title": "Application crashes on startup",
}

Service = Callable[[str], InPython | InSql]


class Over(Exception):
    """The loop of the document has no end."""


def end(seconds: float) -> None:
    raise Over


@pytest.fixture(scope="module")
def made(postgres_server: PostgresServer) -> Iterator[Production]:
    with production(postgres_server) as made:
        yield made


@pytest.fixture(params=["python", "sql"])
def ways(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Board, Service]]:
    """A board, and the service for an instance of the agent `reviewer`."""
    if request.param == "python":
        make(str(tmp_path / "board.db"))
        with connect(str(tmp_path / "board.db")) as board:
            yield board, lambda instance: InPython(board, "reviewer", instance)
    else:
        made: Production = request.getfixturevalue("made")
        made.empty()
        with made.board("dibs_app") as board:
            yield board, lambda instance: InSql(made.url("dibs_sql"), "reviewer", instance)


def test_its_loop_takes_the_highest_priority_first_and_tells_every_outcome(ways: tuple[Board, Service]) -> None:
    board, service = ways
    for name, priority in reversed(PRIORITIES.items()):
        board.add(name, id=name, priority=priority)
    board.add("Triage", id="issue", type="issue_triage", priority=8, payload=PAYLOAD)
    done: list[str] = []

    def perform(work_item: WorkItem) -> None:
        done.append(work_item.id)
        if work_item.id == "issue":
            assert work_item.work_type == "issue_triage"
            assert work_item.payload.items() >= PAYLOAD.items()
        if work_item.id == "feature" and done.count("feature") == 1:
            raise TimeoutError
        if work_item.id == "documentation":
            raise ValueError("no such page")

    with service("one") as first, pytest.raises(TimeoutError):
        work(first, "reviewer", perform, end)
    with service("two") as second, pytest.raises(Over):
        work(second, "reviewer", perform, end)
    assert done == [*("critical_bug", "security_issue", "bug", "issue"), "feature", "feature", *list(PRIORITIES)[4:]]
    statuses = {item.id: item.status for item in board.list()}
    assert statuses == dict.fromkeys([*PRIORITIES, "issue"], "done") | {"documentation": "failed"}
    runs = board.get("feature").runs
    assert [(run.session, run.outcome) for run in runs] == [("two", "done"), ("one", "released")], "newest first"


def test_of_ten_workers_at_once_each_gets_an_item_of_its_own_or_none(ways: tuple[Board, Service]) -> None:
    board, service = ways
    ids = [f"item-{number}" for number in range(7)]
    board.add_many([{"title": id, "id": id} for id in ids])
    ready, leased = threading.Barrier(10), list[str | None]()

    def lease(number: int) -> None:
        with service(f"worker-{number}") as mine:
            ready.wait()
            work_item = mine.lease_next_work_item("reviewer")
            leased.append(None if work_item is None else work_item.id)
            ready.wait()

    threads = [threading.Thread(target=lease, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(leased, key=str) == [*([None] * 3), *ids]


def test_an_agent_at_capacity_gets_none_until_it_completes_one(ways: tuple[Board, Service]) -> None:
    board, service = ways
    board.add_many([{"title": id, "id": id} for id in ("a", "b", "c")])
    board.set_agent("reviewer", max_claims_total=2)
    with service("one") as one, service("two") as two:
        first, second = one.lease_next_work_item("reviewer"), two.lease_next_work_item("reviewer")
        assert first is not None
        assert second is not None
        assert two.lease_next_work_item("reviewer") is None
        process(one, first, lambda work_item: None)
        third = two.lease_next_work_item("reviewer")
        assert third is not None
        assert {first.id, second.id, third.id} == {"a", "b", "c"}
        for work_item in (second, third):
            two.complete_work_item(work_item, outcome="success")
