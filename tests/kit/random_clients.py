"""Every verb at once: clients that do anything, on few items and with few sessions, each in the way of all others.

`mingle` is a scene: threads that share a handle, each with random calls of all verbs until the time is up. What they
are refused is counted; what is no refusal at all is a mistake of the store, and told word for word.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter, deque

from dibs.errors import DibsError
from dibs.testing.actors import pass_gate, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board
    from dibs.model import Grant

    Verb = Callable[["Client"], object]

#: So many items that have not ended; more are added as they do.
ITEMS_MAX = 12
SESSIONS = tuple(f"session-{number}" for number in range(8))
AGENTS = ("ann", "bob", "cat")
PROJECTS = ("north", "south")
SUBJECTS_AT_A_TIME = 6
RESOURCES = ((), (), ("src",), ("src/a", "port:80"), ("src/b",), ("port:80",))
#: Short lives, so that claims, offers and schedules run out under the eyes of all.
SETTINGS = {
    "ttl_seconds": 2.0,
    "ttl_seconds_min": 0.01,
    "accept_seconds": 0.3,
    "ticket_ttl_seconds": 1.0,
    "retry_backoff_seconds": 0.2,
    "lock_wait_seconds": 30.0,
}
#: What keeps a board busy; everything else is once among these.
OFTEN = {"add": 8, "add_many": 2, "edit": 4, "claim": 6, "claim in turn": 2, "claim_subject": 3, "hand": 3, "next": 10,
         "finish and next": 4, "heartbeat": 3, "progress": 3, "release": 3, "done": 4, "fail": 2, "submit": 3,
         "approve": 3, "unpark": 2, "retry": 2, "wait": 2}  # fmt: skip
OK = "ok"
REMEMBERED = 20
#: One id is added only within so long, often by several at once, and never again once it was pruned: what depended on
#: the first of that name does not wait for the second, which nobody could tell from the history. What is pruned has
#: ended for longer than anybody takes from looking for an id to adding it. An item of a subject is named after it, so
#: subjects are replaced by others, too.
SAME_ID_SECONDS = 0.5
SAME_SUBJECTS_SECONDS = 8 * SAME_ID_SECONDS
PRUNED_SECONDS = 2 * SAME_SUBJECTS_SECONDS
ENDED = ("done", "failed", "rejected", "cancelled")


def prepare(board: Board) -> None:
    """The items and sessions that all are at."""
    for name in SESSIONS:
        board.start_session(agent_of(name), id=name)
    board.add_many({"id": f"item-{n}", "title": "first", "project": PROJECTS[n % 2]} for n in range(ITEMS_MAX))


def mingle(board: Board, *, seed: int, threads: int, seconds: float, gate: str) -> dict[str, Any]:
    """What came of each verb, how often; mistakes; and how often the store had to do something again."""
    crowd = Crowd(board)
    clients = [Client(board, random.Random(seed * 1000 + number), crowd) for number in range(threads)]
    say({"at_gate": True})
    pass_gate(gate)
    end = time.monotonic() + seconds
    running = [threading.Thread(target=client.live, args=(end,)) for client in clients]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    counts: Counter[tuple[str, str]] = Counter()
    for client in clients:
        counts.update(client.counts)
    store: Any = board.store
    return {
        "counts": [[verb, code, count] for (verb, code), count in counts.items()],
        "mistakes": [mistake for client in clients for mistake in client.mistakes],
        "slowest": max(client.slowest for client in clients),
        "conflicts": store.conflicts,
        "reconnects": store.reconnects,
    }


class Crowd:
    """What the clients of one process know: which items there are, and which were given lately, to whom."""

    def __init__(self, board: Board) -> None:
        self.items = tuple(item.id for item in board.list())
        self.given: deque[tuple[str, str, int]] = deque(maxlen=REMEMBERED)


class Client:
    """One of many."""

    def __init__(self, board: Board, draw: random.Random, crowd: Crowd) -> None:
        self.board, self.draw, self.crowd = board, draw, crowd
        self.counts: Counter[tuple[str, str]] = Counter()
        self.mistakes: list[str] = []
        self.slowest: tuple[float, str] = (0.0, "")

    def live(self, end: float) -> None:
        names = list(VERBS)
        weights = [OFTEN.get(name, 1) for name in names]
        while time.monotonic() < end:
            (name,) = self.draw.choices(names, weights)
            begun = time.monotonic()
            try:
                VERBS[name](self)
                self.counts[name, OK] += 1
            except DibsError as refusal:
                self.counts[name, refusal.code] += 1
                if refusal.code == "STORE_UNAVAILABLE":
                    self.mistakes.append(f"{name}: {refusal.message}")
            except Exception:
                self.mistakes.append(f"{name}: {traceback.format_exc()}")
            self.slowest = max(self.slowest, (time.monotonic() - begun, name))

    # Whom and what a call is about

    def item(self, *statuses: str) -> str:
        """Any item, or one that was lately of one of these statuses."""
        found = [item.id for item in self.board.list(statuses=statuses)] if statuses else []
        return self.draw.choice(found or self.crowd.items)

    def items(self, most: int) -> list[str]:
        return self.draw.sample(self.crowd.items, min(len(self.crowd.items), self.draw.randint(0, most)))

    def new(self, count: int) -> list[str]:
        """Ids for new items, that others may be adding as well; if there are enough items, of some that are there."""
        there = self.board.list()
        self.crowd.items = tuple(item.id for item in there) or self.crowd.items
        going_on = [item.id for item in there if item.status not in ENDED]
        if len(going_on) >= ITEMS_MAX:
            return self.draw.sample(going_on, count)
        window = int(time.time() / SAME_ID_SECONDS)
        return [f"item-{window}-{number}" for number in self.draw.sample(range(4), count)]

    def subject(self) -> str:
        window = int(time.time() / SAME_SUBJECTS_SECONDS)
        return f"github:acme/shop#{window * SUBJECTS_AT_A_TIME + self.draw.randrange(SUBJECTS_AT_A_TIME)}"

    def session(self) -> str:
        return self.draw.choice(SESSIONS)

    def held(self) -> tuple[str, dict[str, Any]]:
        """An item with the session that was lately given it, and its token or none."""
        claims = [line.claim for line in self.board.who() if line.claim is not None] if self.chance(0.7) else []
        if claims:
            claim = self.draw.choice(claims)
            item, session, token = claim.item, claim.session, claim.token
        elif self.crowd.given:
            item, session, token = self.crowd.given[self.draw.randrange(len(self.crowd.given))]
        else:
            return self.item(), {"session": self.session()}
        return item, {"session": session, "token": token if self.chance(0.7) else None}

    def took(self, *grants: Grant) -> None:
        self.crowd.given.extend((grant.item.id, grant.claim.session, grant.claim.token) for grant in grants)

    def request(self) -> str | None:
        return None if self.draw.random() < 0.5 else f"r-{self.draw.randrange(10_000)}-{threading.get_ident()}"

    def chance(self, share: float) -> bool:
        return self.draw.random() < share


def agent_of(session: str) -> str:
    return AGENTS[SESSIONS.index(session) % len(AGENTS)]


def _add(c: Client) -> None:
    c.board.add(
        "again",
        id=c.new(1)[0],
        project=c.draw.choice(PROJECTS),
        depends_on=c.items(2),
        resources=c.draw.choice(RESOURCES),
        priority=c.draw.randint(1, 3),
        retries=c.draw.randint(0, 2),
        needs_approval=c.chance(0.2),
        request_id=c.request(),
    )


def _add_many(c: Client) -> None:
    c.board.add_many({"id": id, "title": "many", "depends_on": c.items(1)} for id in c.new(2))


def _edit(c: Client) -> None:
    changes: dict[str, Any] = c.draw.choice(
        (
            {"depends_on": c.items(2)},
            {"depends_on": []},
            {"priority": c.draw.randint(1, 3)},
            {"resources": c.draw.choice(RESOURCES)},
            {"title": f"title {c.draw.random()}"},
            {"project": c.draw.choice(PROJECTS)},
        )
    )
    c.board.edit(c.item(), request_id=c.request(), **changes)


def _claim(c: Client) -> None:
    c.took(c.board.claim(c.item("ready", "parked", "in_progress"), session=c.session(), request_id=c.request()))


def _claim_in_turn(c: Client) -> None:
    c.took(c.board.claim(c.item("in_progress", "ready"), session=c.session(), wait_seconds=0.05))


def _claim_subject(c: Client) -> None:
    c.took(c.board.claim_subject(c.subject(), session=c.session(), request_id=c.request()))


def _edit_subject(c: Client) -> None:
    """Subjects of ended items are free again, now and then."""
    c.board.edit(c.item("in_progress", "done", "cancelled"), subject=c.subject() if c.chance(0.75) else None)


def _hand(c: Client) -> None:
    item, known = c.held()
    c.took(c.board.hand(item, to=c.session(), **known, request_id=c.request()))


def _next(c: Client) -> None:
    asked: dict[str, Any] = {"projects": [c.draw.choice(PROJECTS)]} if c.chance(0.3) else {}
    c.took(*c.board.next(session=c.session(), n=c.draw.randint(1, 3), request_id=c.request(), **asked))


def _finish_and_next(c: Client) -> None:
    session = c.session()
    mine = [line.claim for line in c.board.who() if line.claim is not None and line.claim.session == session]
    done = {claim.item: claim.token for claim in mine}
    c.took(*c.board.next(session=session, n=c.draw.randint(1, 2), done=done, request_id=c.request()))


def _recover(c: Client) -> None:
    item, known = c.held()
    c.took(c.board.recover(item, **known))


def _heartbeat(c: Client) -> None:
    holding = dict.fromkeys(c.items(4)) if c.chance(0.5) else None
    c.board.heartbeat(session=c.session(), holding=holding)


def _renew(c: Client) -> None:
    item, known = c.held()
    c.board.renew(item, **known)


def _progress(c: Client) -> None:
    item, known = c.held()
    c.board.progress(item, "on it", **known, request_id=c.request())


def _release(c: Client) -> None:
    item, known = c.held()
    c.board.release(item, **known, park=c.chance(0.2), request_id=c.request())


def _done(c: Client) -> None:
    item, known = c.held()
    c.board.done(item, **known, recover=c.chance(0.5), request_id=c.request())


def _done_many(c: Client) -> None:
    session = c.session()
    mine = [line.claim for line in c.board.who() if line.claim is not None and line.claim.session == session]
    c.board.done_many({claim.item: claim.token for claim in mine}, session=session, request_id=c.request())


def _fail(c: Client) -> None:
    item, known = c.held()
    c.board.fail(item, **known, request_id=c.request())


def _submit(c: Client) -> None:
    item, known = c.held()
    c.board.submit(item, draft="so", **known, request_id=c.request())


def _approve(c: Client) -> None:
    c.board.approve(c.item("pending_approval"), actor="boss", done=c.chance(0.3), request_id=c.request())


def _send_back(c: Client) -> None:
    c.board.send_back(c.item("pending_approval"), actor="boss", comment="again")


def _reject(c: Client) -> None:
    if c.chance(0.5):
        c.board.reject(c.item("pending_approval"), actor="boss", reason="no")
    else:
        item, known = c.held()
        c.board.reject(item, reason="no", **known)


def _annotate(c: Client) -> None:
    cost = {"tokens": c.draw.randrange(3)}
    c.board.annotate(c.item(), cost=cost, checks={"ci": c.draw.choice(("passed", "failed"))}, request_id=c.request())


def _park(c: Client) -> None:
    c.board.park(c.item("ready", "blocked", "scheduled"), request_id=c.request())


def _unpark(c: Client) -> None:
    c.board.unpark(c.item("parked"))


def _cancel(c: Client) -> None:
    c.board.cancel(c.item())


def _retry(c: Client) -> None:
    c.board.retry(c.item("failed"))


def _reopen(c: Client) -> None:
    c.board.reopen(c.item("done", "cancelled", "rejected"))


def _wait(c: Client) -> None:
    c.board.wait(c.item("in_progress"), session=c.session(), ttl_seconds=2)


def _leave(c: Client) -> None:
    session = c.session()
    item = c.item("in_progress")
    c.board.wait(item, session=session)
    c.board.leave(item, session=session)


def _ticket(c: Client) -> None:
    c.board.ticket(c.item(), session=c.session())


def _soft_claim(c: Client) -> None:
    c.board.soft_claim(c.item(), session=c.session())


def _soft_release(c: Client) -> None:
    session, item = c.session(), c.item()
    c.board.soft_claim(item, session=session)
    c.board.soft_release(item, session=session)


def _force_release(c: Client) -> None:
    c.board.force_release(c.item("in_progress"), reason="wanted", request_id=c.request())


def _end_session(c: Client) -> None:
    session = c.session()
    try:
        c.board.end_session(session)
    finally:
        c.board.start_session(agent_of(session), id=session)


def _start_session(c: Client) -> None:
    session = c.session()
    c.board.start_session(agent_of(session), id=session)


def _set_agent(c: Client) -> None:
    """What it may is changed now and then, and mostly nothing is forbidden."""
    limits: dict[str, Any] = c.draw.choice(
        (
            {},
            {},
            {"max_claims": 2},
            {"max_claims_total": 4},
            {"claims_per_minute": 6000.0, "claims_burst": 50},
            {"allowed_actions": ["task"]},
            {"sensitive_actions": ["task"]},
            {"allowed_actions": ["task"], "sensitive_actions": ["task"]},
        )
    )
    c.board.set_agent(c.draw.choice(AGENTS), **limits)


def _prune(c: Client) -> None:
    c.board.prune(older_than_seconds=PRUNED_SECONDS)


VERBS: dict[str, Verb] = {
    "add": _add,
    "add_many": _add_many,
    "edit": _edit,
    "claim": _claim,
    "claim in turn": _claim_in_turn,
    "claim_subject": _claim_subject,
    "edit subject": _edit_subject,
    "hand": _hand,
    "next": _next,
    "finish and next": _finish_and_next,
    "recover": _recover,
    "heartbeat": _heartbeat,
    "renew": _renew,
    "progress": _progress,
    "release": _release,
    "done": _done,
    "done_many": _done_many,
    "fail": _fail,
    "submit": _submit,
    "approve": _approve,
    "send_back": _send_back,
    "reject": _reject,
    "annotate": _annotate,
    "park": _park,
    "unpark": _unpark,
    "cancel": _cancel,
    "retry": _retry,
    "reopen": _reopen,
    "wait": _wait,
    "leave": _leave,
    "ticket": _ticket,
    "soft_claim": _soft_claim,
    "soft_release": _soft_release,
    "force_release": _force_release,
    "sweep": lambda c: c.board.sweep(),
    "end_session": _end_session,
    "start_session": _start_session,
    "set_agent": _set_agent,
    "prune": _prune,
    "get": lambda c: c.board.get(c.item()),
    "list": lambda c: c.board.list(),
    "events": lambda c: c.board.events(newest=True, limit=20),
    "log": lambda c: c.board.log(c.item()),
    "runs": lambda c: c.board.runs(limit=20),
    "activity": lambda c: c.board.activity(limit=20),
    "who": lambda c: c.board.who(),
    "stats": lambda c: c.board.stats(),
    "why": lambda c: c.board.why(c.item(), session=c.session()),
    "agents": lambda c: c.board.agents(),
    "sessions": lambda c: c.board.sessions(),
    "check": lambda c: c.board.check(),
    "export": lambda c: list(c.board.export()),
}
