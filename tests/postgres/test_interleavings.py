"""Any two verbs at once, the first of them not yet committed: they end as if one had come after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.model import Session, SessionEnd
from dibs.testing import sizes
from dibs.testing.invariants import violations
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.postgres.pausing import Stage

#: A verb about the items and sessions of one play, whose names begin with `p`.
Verb = Callable[[Board, str], object]

#: So many pairs are drawn in CI; a soak plays all.
PAIRS = 100
LIMIT = 100_000


def prepare(harness: PostgresHarness, board: Board, p: str) -> None:
    """x is held by s, and others wait for it, each in its way; o is held by s, and t waits for it; lapsed was held by s
    until just now."""
    on_x = {"depends_on": [f"{p}x"]}
    items: dict[str, dict[str, Any]] = {
        "x": {},
        "approvable": {**on_x, "needs_approval": True},
        "blocked": on_x,
        "parked": on_x,
        "ready": {"resources": ["src"]},
        "below": {"resources": ["src/a"]},
        "onward": {"depends_on": [f"{p}below"]},
        "o": {},
        "draft": {},
        "after": {"depends_on": [f"{p}draft"]},
        "lapsed": {},
    }
    board.add_many({"id": f"{p}{name}", "title": name, "project": p, **fields} for name, fields in items.items())
    for name in "st":
        board.start_session(f"{p}agent", id=f"{p}{name}")
    board.claim(f"{p}lapsed", session=f"{p}s", ttl_seconds=board.settings.ttl_seconds_min)
    board.edit(f"{p}lapsed", depends_on=[f"{p}x"])
    harness.clock.advance(board.settings.ttl_seconds_min + 1)
    for name in ("x", "o", "draft"):
        board.claim(f"{p}{name}", session=f"{p}s")
    board.submit(f"{p}draft", session=f"{p}s", draft="so")
    board.edit(f"{p}draft", depends_on=[f"{p}x"])
    board.wait(f"{p}o", session=f"{p}t")
    board.park(f"{p}parked")
    board.park(f"{p}after")


VERBS: dict[str, Verb] = {
    "done": lambda b, p: b.done(f"{p}x", session=f"{p}s"),
    "done_many": lambda b, p: b.done_many({f"{p}x": None, f"{p}o": None, f"{p}lapsed": None}, session=f"{p}s"),
    "release": lambda b, p: b.release(f"{p}x", session=f"{p}s"),
    "fail": lambda b, p: b.fail(f"{p}x", session=f"{p}s"),
    "submit": lambda b, p: b.submit(f"{p}x", session=f"{p}s", draft="so"),
    "reject": lambda b, p: b.reject(f"{p}x", session=f"{p}s", reason="no"),
    "progress": lambda b, p: b.progress(f"{p}x", "half", session=f"{p}s"),
    "heartbeat": lambda b, p: b.heartbeat(session=f"{p}s"),
    "heartbeat of nothing": lambda b, p: b.heartbeat(session=f"{p}s", holding={}),
    "force_release": lambda b, p: b.force_release(f"{p}x", reason="wanted"),
    "cancel": lambda b, p: b.cancel(f"{p}x"),
    "cancel blocked": lambda b, p: b.cancel(f"{p}blocked"),
    "release o": lambda b, p: b.release(f"{p}o", session=f"{p}s"),
    "done o": lambda b, p: b.done(f"{p}o", session=f"{p}s"),
    "approve": lambda b, p: b.approve(f"{p}approvable", actor="boss"),
    "approve draft": lambda b, p: b.approve(f"{p}draft", actor="boss"),
    "approve draft as done": lambda b, p: b.approve(f"{p}draft", actor="boss", done=True),
    "send_back": lambda b, p: b.send_back(f"{p}draft", comment="again", actor="boss"),
    "unpark": lambda b, p: b.unpark(f"{p}parked"),
    "unpark after": lambda b, p: b.unpark(f"{p}after"),
    "park blocked": lambda b, p: b.park(f"{p}blocked"),
    "park ready": lambda b, p: b.park(f"{p}ready"),
    "claim parked": lambda b, p: b.claim(f"{p}parked", session=f"{p}t"),
    "claim blocked": lambda b, p: b.claim(f"{p}blocked", session=f"{p}t"),
    "claim ready": lambda b, p: b.claim(f"{p}ready", session=f"{p}t"),
    "claim below": lambda b, p: b.claim(f"{p}below", session=f"{p}s"),
    "claim lapsed": lambda b, p: b.claim(f"{p}lapsed", session=f"{p}t"),
    "recover lapsed": lambda b, p: b.recover(f"{p}lapsed", session=f"{p}s"),
    "done lapsed": lambda b, p: b.done(f"{p}lapsed", session=f"{p}s"),
    "cancel lapsed": lambda b, p: b.cancel(f"{p}lapsed"),
    "park lapsed": lambda b, p: b.park(f"{p}lapsed"),
    "claim o": lambda b, p: b.claim(f"{p}o", session=f"{p}t"),
    "next": lambda b, p: b.next(session=f"{p}t", projects=[p]),
    "next of all": lambda b, p: b.next(session=f"{p}s", projects=[p], n=9),
    "edit to wait for x": lambda b, p: b.edit(f"{p}ready", depends_on=[f"{p}x"]),
    "edit to wait for o": lambda b, p: b.edit(f"{p}x", depends_on=[f"{p}o"]),
    "edit o to wait for draft": lambda b, p: b.edit(f"{p}o", depends_on=[f"{p}draft"]),
    "edit below to wait for blocked": lambda b, p: b.edit(f"{p}below", depends_on=[f"{p}blocked"]),
    "edit x to wait for onward": lambda b, p: b.edit(f"{p}x", depends_on=[f"{p}onward"]),
    "edit to wait for nothing": lambda b, p: b.edit(f"{p}blocked", depends_on=[]),
    "edit what is touched": lambda b, p: b.edit(f"{p}ready", resources=["port:80"]),
    "add what o touches": lambda b, p: b.edit(f"{p}o", add_resources=["src"], session=f"{p}s"),
    "edit the project": lambda b, p: b.edit(f"{p}ready", project=f"{p}other"),
    "add one that waits": lambda b, p: b.add("new", id=f"{p}new", depends_on=[f"{p}x", f"{p}blocked"]),
    "add the same": lambda b, p: b.add("other", id=f"{p}new"),
    "wait": lambda b, p: b.wait(f"{p}x", session=f"{p}t"),
    "wait for ready": lambda b, p: b.wait(f"{p}ready", session=f"{p}t"),
    "leave": lambda b, p: b.leave(f"{p}o", session=f"{p}t"),
    "soft_claim": lambda b, p: b.soft_claim(f"{p}x", session=f"{p}t"),
    "end_session of s": lambda b, p: b.end_session(f"{p}s"),
    "end_session of t": lambda b, p: b.end_session(f"{p}t"),
    "start_session for ann": lambda b, p: b.start_session("ann", id=f"{p}u"),
    "start_session for bob": lambda b, p: b.start_session("bob", id=f"{p}u"),
    "start_session again": lambda b, p: b.start_session(f"{p}agent", id=f"{p}s", owner_pid=1),
    "set_agent": lambda b, p: b.set_agent(f"{p}agent", max_claims_total=2),
    "sweep": lambda b, p: b.sweep(),
}


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def test_any_two_verbs_at_once(harness: PostgresHarness) -> None:
    seed = sizes.seed()
    pairs = list(product(VERBS, VERBS))
    random.Random(seed).shuffle(pairs)
    if sizes.FACTOR == 1:
        del pairs[PAIRS:]
    with Stage(harness.server, harness.database) as stage:
        wrong = play(harness, stage, pairs)
        print(f"seed {seed}: {len(pairs)} pairs, in {stage.waited} of which the second waited for the first")
        assert stage.waited > 0
        assert stage.passed > 0
    assert not wrong, f"seed {seed}: {len(wrong)} wrong:\n" + "\n".join(wrong[:40])


def test_of_a_holder_that_adds_and_a_claim_of_the_same_one_comes_first(harness: PostgresHarness) -> None:
    adding = "add what o touches"
    pairs = [pair for claim in ("claim ready", "next") for pair in ((adding, claim), (claim, adding))]
    with Stage(harness.server, harness.database) as stage:
        assert play(harness, stage, pairs) == []
        assert stage.waited == len(pairs)


def play(harness: PostgresHarness, stage: Stage, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """What went wrong with these pairs, one sentence each."""
    wrong = []
    for number, (one, other) in enumerate(pairs):
        p, context = f"p{number}-", f"{one!r} beside {other!r}"
        prepare(harness, stage.usual, p)
        answers = stage.play(_about(p, VERBS[one]), _about(p, VERBS[other]))
        told = dict(zip((one, other), answers, strict=True))
        wrong += [f"{context}: {found}" for found in contradictions(stage.usual, p, told)]
    for found in violations(stage.usual):
        named = found.partition("-")[0].rpartition("p")[2]
        context = " beside ".join(map(repr, pairs[int(named)])) if named.isdigit() else "somebody"
        wrong.append(f"{context}: {found}")
    return wrong


def _about(p: str, verb: Verb) -> Callable[[Board], object]:
    return lambda board: verb(board, p)


def contradictions(board: Board, p: str, answers: dict[str, object]) -> Iterator[str]:
    """Answers that cannot both be true, where the record of the items does not show it."""
    for answer in answers.values():
        if isinstance(answer, StoreUnavailable):
            yield answer.message
    started = [answer for verb, answer in answers.items() if verb in ("start_session for ann", "start_session for bob")]
    if len(started) == 2 and all(isinstance(answer, Session) for answer in started):
        yield "one session was given to two agents"
    ended, again = answers.get("end_session of s"), answers.get("start_session again")
    if isinstance(ended, SessionEnd) and isinstance(again, Session) and again.started_at == ended.session.started_at:
        live = {view.session.id for view in board.sessions(limit=LIMIT)}
        if f"{p}s" in live:
            yield "a session that had ended goes on"
