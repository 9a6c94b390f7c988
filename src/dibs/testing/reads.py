"""Reads held against claims: what a read says of an item is what a claim by the same caller meets at that instant.

`Storm` does random things to a board whose clock stands still between them: claims, tickets, schedules, approvals, time
that passes, owner processes that are killed. `compare` reads an item, then claims it, and lists every difference;
`everything` is all that can be read, to be compared with itself after a sweep has recorded what was due.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter

from dibs.errors import DibsError
from dibs.model import ENDED, FAILED, IN_PROGRESS, PENDING_APPROVAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model import Detail, Item, Run, Stats
    from dibs.testing.clock import Clock

LIMIT = 100_000
AGENTS: dict[str, dict[str, Any]] = {
    "coder": {},
    "modest": {"max_claims": 1},
    "team": {"max_claims_total": 2},
    "clerk": {"allowed_actions": ["task"], "sensitive_actions": ["send"]},
    "hasty": {"claims_per_minute": 6, "claims_burst": 2},
}
#: Past the end of an offer, of a ticket, of a schedule, of a claim.
SECONDS = (0.5, 5, 14.9, 15, 31, 60, 61, 90, 301)
SESSIONS = 8
ITEMS = 10


class Storm:
    """Random acts on one project of a board. Every session of it may have an owner process, and that may be dead."""

    def __init__(self, board: Board, clock: Clock, seed: int) -> None:
        self.board, self.clock = board, clock
        self.random = random.Random(seed)
        self.reached: Counter[str] = Counter()
        self._project = 0
        self._added = 0
        self._owners: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: list[str] = []
        for name, limits in AGENTS.items():
            board.set_agent(name, **limits)
        clock.freeze()
        self.begin_project()

    def close(self) -> None:
        for session in list(self._owners):
            self._kill(session)

    @property
    def project(self) -> str:
        return f"project-{self._project}"

    def begin_project(self) -> None:
        """Forget what there is: it would only be read again and again."""
        for item in self.board.list(limit=LIMIT):
            if item.status not in ENDED:
                self.board.cancel(item.id)
        self.board.sweep()
        self.clock.advance(1)
        self.board.prune(older_than_seconds=0)
        self._project += 1
        self.items: list[str] = []

    def session(self) -> str:
        """One that is alive, as far as anybody knows."""
        while len(self._sessions) < SESSIONS:
            self._start_session()
        return self.random.choice(self._sessions)

    def act(self) -> None:
        """Do one thing; what is refused is left at that."""
        acts = (Storm._add,) if len(self.items) < ITEMS else ACTS
        act = self.random.choice(acts)
        try:
            act(self)
        except DibsError:
            pass

    def _start_session(self) -> None:
        agent = self.random.choice(list(AGENTS))
        pid = None
        if self.random.random() < 0.6:
            owner = subprocess.Popen(["sleep", "900"], stdin=subprocess.DEVNULL)
            pid = owner.pid
        session = self.board.start_session(agent, owner_pid=pid).id
        self._sessions.append(session)
        if pid is not None:
            self._owners[session] = owner

    def _kill(self, session: str) -> None:
        owner = self._owners.pop(session)
        owner.kill()
        owner.wait()

    def _item(self) -> str:
        return self.random.choice(self.items)

    def _add(self) -> None:
        self._added += 1
        chance = self.random.random
        fields: dict[str, Any] = {"id": f"i{self._added}", "project": self.project, "title": "storm"}
        if self.items and chance() < 0.2:
            fields["depends_on"] = [self._item()]
        if chance() < 0.25:
            fields["not_before"] = self.clock.now() + round(1000 * self.random.choice(SECONDS))
        if chance() < 0.4:
            fields["resources"] = [self.random.choice(("src", "src/api", "docs"))]
        if chance() < 0.2:
            fields["action"] = "send"
        if chance() < 0.1:
            fields["needs_approval"] = True
        fields["priority"] = self.random.choice((1, 5, 9))
        fields["retries"] = self.random.choice((0, 1))
        self.board.add(**fields)
        self.items.append(fields["id"])

    def _replace(self) -> None:
        """Forget an item that has ended; the next act adds another."""
        for id in self.items:
            if self.board.get(id).item.status in ENDED:
                self.items.remove(id)
                return

    def _claim(self) -> None:
        self.board.claim(self._item(), session=self.session(), ttl_seconds=self.random.choice((60, 90, 300)))

    def _next(self) -> None:
        self.board.next(session=self.session(), projects=[self.project], ttl_seconds=60)

    def _wait(self) -> None:
        self.board.wait(self._item(), session=self.session(), ttl_seconds=self.random.choice((30, 120)))

    def _let_go(self) -> None:
        lines = [line for line in self.board.who() if line.claim is not None]
        claim = self.random.choice([line.claim for line in lines]) if lines else None
        if claim is None:
            return
        verb = self.random.choice(("release", "done", "fail", "submit"))
        more: dict[str, Any] = {"draft": "as it could be"} if verb == "submit" else {}
        getattr(self.board, verb)(claim.item, session=claim.session, token=claim.token, **more)

    def _decide(self) -> None:
        for id in self.items:
            status = self.board.get(id).item.status
            if status == PENDING_APPROVAL:
                self.board.approve(id)
            elif status == FAILED:
                self.board.retry(id)

    def _park(self) -> None:
        item = self._item()
        (self.board.park if self.random.random() < 0.5 else self.board.unpark)(item)

    def _heartbeat(self) -> None:
        self.board.heartbeat(session=self.session())

    def _pass_time(self) -> None:
        self.clock.advance(self.random.choice(SECONDS))

    def _leave(self) -> None:
        """End a session as its owner would."""
        session = self.session()
        self._sessions.remove(session)
        self.board.end_session(session)
        if session in self._owners:
            self._kill(session)

    def _die(self) -> None:
        """Kill the owner process of a session that holds something, if there is one."""
        holders = [line.claim.session for line in self.board.who() if line.claim is not None]
        owned = [session for session in holders if session in self._owners]
        if owned:
            session = self.random.choice(owned)
            self._kill(session)
            self._sessions.remove(session)
            self.reached["killed"] += 1


ACTS = (
    *(Storm._claim,) * 4,
    *(Storm._next,) * 2,
    *(Storm._wait,) * 3,
    *(Storm._let_go,) * 2,
    *(Storm._pass_time,) * 4,
    *(Storm._replace,) * 2,
    Storm._decide,
    Storm._park,
    Storm._heartbeat,
    Storm._leave,
    *(Storm._die,) * 2,
)


def compare(storm: Storm) -> list[str]:
    """Read an item, then claim it as the same caller: what the reads said and the claim did not bear out."""
    board, item, session = storm.board, storm.random.choice(storm.items), storm.session()
    detail, reasons = board.get(item), board.why(item, session=session)
    found = _reads_agree(board, storm.project, detail)
    recorded = board.events(item=item, newest=True, limit=1)[0]
    if (recorded.status, None if recorded.kind != "offered" else recorded.session) != (
        detail.item.status,
        detail.item.offered_to,
    ):
        storm.reached["overtaken"] += 1
        storm.reached[f"overtaken: {recorded.status} to {detail.item.status}"] += 1
    foretold = reasons[0].code
    storm.reached[foretold] += 1
    try:
        grant = board.claim(item, session=session)
    except DibsError as error:
        met, text = error.code, error.message
        facts = error.facts
        found += _differ("code", foretold, met)
        found += _differ("words", _without_statuses(reasons[0].text), _without_statuses(text))
        if met == "TASK_ALREADY_CLAIMED":
            claim = detail.claim
            holder = claim and {"session": claim.session, "agent": claim.agent, "token": claim.token}
            found += _differ("holder", holder, facts["holder"])
        elif met == "TASK_NOT_CLAIMABLE":
            found += _differ("status", detail.item.status, facts["status"])
            found += _differ("offered to", detail.item.offered_to, facts.get("offered_to"))
            if "blocked_by" in facts:
                found += _differ("blockers", [one.item for one in detail.blockers], facts["blocked_by"])
    else:
        found += _differ("claimable", reasons[0].claimable, True)
        token = detail.claim.token if foretold == "OWN" and detail.claim else detail.item.token + 1
        found += _differ("token", token, grant.claim.token)
        found += _differ("strikes", detail.item.strikes, grant.item.strikes)
        if foretold != "OWN" and grant.previous is not None:
            found += _differ("previous run", _timeless(detail.runs[0]), _timeless(grant.previous.run))
    return [f"{item} for {session}: {what}" for what in found]


def everything(board: Board) -> dict[str, Any]:
    """All that can be read, apart from what tells when it was recorded."""
    stats = board.stats()
    items = board.list(limit=LIMIT)
    return {
        "items": [_unrecorded(item) for item in items],
        "details": {item.id: _detail(board.get(item.id)) for item in items if item.status not in ENDED},
        "by status": {item.id: item.status for status in stats.items for item in board.list(statuses=[status])},
        "who": [line.replace(item=_unrecorded(line.item)) for line in board.who()],
        "runs": [_timeless(run) for run in board.runs(limit=LIMIT)],
        "sessions": [
            view.replace(recent=tuple(map(_timeless, view.recent))) for view in board.sessions(ended=True, limit=LIMIT)
        ],
        "live": [view.session.id for view in board.sessions(limit=LIMIT)],
        "stats": stats.replace(claim_duration_seconds=None),
        "agents": {name: _unforgotten(board.stats(agent=name)) for name in AGENTS},
        "pulse": board.store.pulse(),
        **_of_dashboards(board),
    }


def _of_dashboards(board: Board) -> dict[str, Any]:
    view, page = board.view(), board.page(limit=500)
    return {
        "view": {
            item.id: (item.status, item.offered_to, item.strikes, item.waiters, item.open_blockers)
            for item in view.items
            if item.status not in ENDED
        },
        "counts of the view": (view.counts, view.left_off),
        "holdings": {held.item: held for held in view.holdings},
        "seats": {seat.id: (seat.holding, seat.ended, seat.score) for seat in view.sessions},
        "page": (page.total, page.counts, {item.id: item.status for item in page.items}),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name]]


def _reads_agree(board: Board, project: str, detail: Detail) -> list[str]:
    """`list`, by status and whole, and `who` say the same of the item as `get`."""
    item = detail.item
    listed = {one.id: one for one in board.list(projects=[project], limit=LIMIT)}
    same = {one.id for one in board.list(projects=[project], statuses=[item.status], limit=LIMIT)}
    held = {line.item.id: line.claim for line in board.who() if line.soft is None}
    found = _differ("list", item, listed.get(item.id))
    found += _differ("list by status", item.id in same, True)
    found += _differ("who", detail.claim, held.get(item.id))
    found += _differ("in progress", item.status == IN_PROGRESS, detail.claim is not None)
    return found


def _differ(what: str, read: object, met: object) -> list[str]:
    return [] if read == met else [f"{what}: read {read!r}, met {met!r}"]


def _without_statuses(text: str) -> str:
    """A claim reads of what an item waits for only what was recorded, so it may not know yet that it failed."""
    return text.replace(f" ({FAILED})", "")


def _detail(detail: Detail) -> Detail:
    return detail.replace(item=_unrecorded(detail.item), runs=tuple(map(_timeless, detail.runs)))


def _unrecorded(item: Item) -> Item:
    return item.replace(updated_at=0, revision=0)


def _unforgotten(stats: Stats) -> Stats:
    """Without what is counted among the refusals that are kept: a sweep forgets the oldest of them."""
    return stats.replace(claim_duration_seconds=None, conflicts_avoided=0, claim_success_rate=None)


def _timeless(run: Run) -> Run:
    return run.replace(ended_at=None)
