"""docs/guides/server-contracts.md: its requests are sent to a server, one after the other, and its answers compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dibs.errors import DibsError, ItemChanged, NotTrusted
from dibs.server.compat.session_task_models import RegisterSession
from dibs.server.compat.session_task_views import EVENTS
from dibs.text.times import parse_instant
from tests.docs.markdown import blocks, code, read, section, table
from tests.docs.test_reference import kinds
from tests.server.calling import Reused, Served
from tests.server.conftest import reused

__all__ = ["reused"]

CONTRACTS = read("docs/guides/server-contracts.md")
START = "2025-12-28T12:00:00Z"
#: How many requests stand in the document.
REQUESTS = 20

Step = tuple[float, str, str, str | None, int, Any]


@pytest.fixture
def server(reused: Reused) -> Served:
    server = reused.anew()
    server.clock.advance((parse_instant(START) - server.clock.now()) / 1000)
    for phase, title in (("phase3", "Phase 3: Delegation"), ("phase4", "Phase 4: Delegation Metrics")):
        server.board.add(title, id=phase)
    server.board.add("Phase 5: Dashboard", id="phase5", phase="implementation", depends_on=["phase4"])
    return server


def steps(text: str) -> Iterator[Step]:
    """Each request: after how many minutes, method, path, body; status and answer (None: of no interest)."""
    for block in blocks(text, "http"):
        parts = re.split(r"^(?=# |GET |POST )", block, flags=re.MULTILINE)
        minutes = 0.0
        for part in filter(str.strip, parts):
            later = re.fullmatch(r"# (\d+) minutes later\s*", part)
            if later:
                minutes = float(later[1])
                continue
            asked, _, told = part.partition("\n\n")
            line, _, body = asked.partition("\n")
            method, path = line.split()
            status, _, answer = told.strip().partition("\n")
            yield minutes, method, path, body.strip() or None, int(status), json.loads(answer) if answer else None
            minutes = 0.0


def check_answers(text: str, server: Served) -> int:
    number = 0
    for minutes, method, path, body, status, answer in steps(text):
        server.clock.advance(minutes * 60)
        reply = server.admin.ask(method, path, None if body is None else body.encode())
        assert reply.status == status, (method, path, reply.body)
        assert answer is None or reply.body == answer, (method, path, reply.body)
        number += 1
    return number


def check_codes(text: str) -> None:
    told = {code(name)[0]: int(status) for name, status, _ in table(text, "code", "HTTP", "when")}
    known = {kind.code: kind.http_status for kind in kinds(DibsError)}
    assert told.items() <= known.items()
    others = set(code(section(text, "### Refusals").rpartition("protocol.md#refusals")[2]))
    # No verb of the contract takes a revision, and what is on the server's own machine it does not tell.
    assert others | set(told) == set(known) - {"ERROR", ItemChanged.code, NotTrusted.code}


def check_events(text: str) -> None:
    told = {code(kind)[0] for kind, *_ in table(text, "type", "data", "when")}
    assert told == set(EVENTS.values())
    words = set(code(section(text, "### Events").rpartition("`reason`, and")[2]))
    assert {kind for kind, type in EVENTS.items() if type == "task:released"} - {"done"} <= words


def check_fields(text: str) -> None:
    told = {name for fields, _ in table(text, "field", "meaning") for name in code(fields)}
    assert told == set(RegisterSession.model_fields)


def test_every_request_is_answered_as_it_stands_there(server: Served) -> None:
    assert check_answers(CONTRACTS, server) == REQUESTS


def test_codes_events_and_fields_are_those_of_the_code() -> None:
    check_codes(CONTRACTS)
    check_events(CONTRACTS)
    check_fields(CONTRACTS)


@pytest.mark.parametrize(
    ("truth", "lie"),
    [
        ('"remainingMs": 900000', '"remainingMs": 900001'),
        ("\n409\n", "\n404\n"),
        ('"heartbeatCount": 1', '"heartbeatCount": 2'),
        ("# 26 minutes later", "# 27 minutes later"),
    ],
)
def test_a_lie_is_found_out(server: Served, truth: str, lie: str) -> None:
    assert truth in CONTRACTS
    with pytest.raises(AssertionError):
        check_answers(CONTRACTS.replace(truth, lie, 1), server)


def test_a_lie_in_a_table_is_found_out() -> None:
    for check, truth, lie in (
        (check_codes, "| `CLAIM_EXPIRED` | 410 |", "| `CLAIM_EXPIRED` | 404 |"),
        (check_events, "| `task:claim-expired` |", "| `task:expired` |"),
        (check_events, "`force_released`", "`forced`"),
        (check_fields, "`contextPercent`, `meta`", "`meta`"),
    ):
        assert truth in CONTRACTS
        with pytest.raises(AssertionError):
            check(CONTRACTS.replace(truth, lie))
