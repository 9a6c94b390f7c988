"""One transaction: it loads the rows that a decision needs and writes the steps that were decided."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs.errors import DibsError, ItemAlreadyClaimed
from dibs.model import DONE, Approval, Ended, Note, Owner, Previous
from dibs.rules import fencing, overdue, queueing, refusals
from dibs.rules.claiming import Claimant
from dibs.rules.decision import Decision, State, Step
from dibs.rules.limits import Load, bucket_level
from dibs.rules.resources import Hold
from dibs.store.sql import rows
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, ClassVar, NoReturn, TypeVar

    from dibs.config import Settings
    from dibs.model import Agent, Blocker, Claim, Grant, Item, Run, Session, Ticket

    T = TypeVar("T")

#: How many notes of the previous run the answer of a claim has.
NOTES_MAX = 20
#: How often `seen_at` of a session is written, in milliseconds.
SEEN_EVERY = 5000
#: Events that make an item claimable, by every session or by the one that it is offered to.
FREED = frozenset({"claimable", "offered"})


class Refused(Exception):
    """A refusal after which the transaction commits; the store then raises `refusal`."""

    def __init__(self, refusal: DibsError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class Transaction(ABC):
    """`now` is the time of the decision, read from the store's clock after the rows were locked."""

    now: int
    settings: Settings
    writable: bool
    changed: bool = False
    #: Whether this transaction made an item claimable.
    freed: bool = False
    #: Items that `next` skips although their rows are ready: see the vault.
    passed_over: frozenset[str] = frozenset()
    #: Whether clones of the board choose ids at the same time, so that a new id needs a random part.
    has_clones: bool = False
    #: What the database raises for a row that violates a constraint.
    row_errors: ClassVar[tuple[type[Exception], ...]] = ()

    # Statements, by name

    @abstractmethod
    def one(self, statement: str, /, **parameters: Any) -> tuple[Any, ...] | None: ...

    @abstractmethod
    def all(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def each(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Rows one by one, read as they are consumed. `stream` is for those that are few enough for `all`."""

    @abstractmethod
    def stream(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]: ...

    @abstractmethod
    def run(self, statement: str, parameters: dict[str, Any]) -> None: ...

    @abstractmethod
    def run_one(self, statement: str, parameters: dict[str, Any]) -> None:
        """Run a statement, and raise unless it changed exactly one row: the row may have changed since the decision."""

    # Locks, for a store with concurrent writers

    @abstractmethod
    def lock_items(self, items: Iterable[str]) -> None:
        """Lock these items, in the order that all transactions use."""

    @abstractmethod
    def lock(self, statement: str, /, **parameters: str) -> None:
        """Take the lock of this statement, such as `lock_dependencies`, which excludes others that change them;
        `lock_resources` excludes those that claim or add resources in a project, `lock_new_session` those that start a
        session. After sessions, before items; `lock_agent`, of an agent with limits, before the others."""

    @abstractmethod
    def lock_session(self, session: str) -> None:
        """Lock this session, if it exists; before any item."""

    @abstractmethod
    def lock_item(self, item: str) -> None:
        """Lock this item, if it exists, then read `now`."""

    @abstractmethod
    def ahead_of(self, claimant: Claimant, item: Item, most: int) -> int:
        """How many items, up to `most`, `next` would give to this claimant before this one."""

    @abstractmethod
    def claim(self, item: str, *, session: str, agent: str | None, ttl_seconds: float | None) -> Grant:
        """The verb `claim`, as a part of this transaction."""

    @abstractmethod
    def reap(self, dead: Sequence[tuple[str, Owner]]) -> bool:
        """`Store.reap_dead_owners` for these sessions: those whose owners these are still. Whether there were any."""

    @abstractmethod
    def number_events_past(self, number: int) -> None:
        """Give the next event an id above this number."""

    # Loading

    def state(self, item: str) -> State:
        self.lock_item(item)
        row = self.one("item_by_id", id=item)
        if row is None:
            raise refusals.item_not_found(item)
        found, run = rows.item(row), self.one("latest_run", item=item)
        return State(
            item=found,
            claim=self.claim_of(item),
            run=None if run is None else rows.run(run),
            blockers=self.blockers_of(item) if found.depends_on else (),
            tickets=tuple(rows.ticket(row) for row in self.all("open_tickets", item=item)),
        )

    def record_due(self, item: str) -> State:
        """Write the item's overdue steps; the state after them."""
        state = self.state(item)
        steps, state = overdue.due_steps(self.now, state, self.settings)
        for step in steps:
            self.apply(step)
        return state

    def states(self, items: Iterable[str]) -> dict[str, State]:
        """The states of many items, in a fixed number of statements and without locks."""
        found = dict(self._each_of(rows.item, "items_by_id", items))
        claims = dict(self._each_of(rows.claim, "claims_of_items", found))
        runs = dict(self._each_of(rows.run, "latest_runs", found))
        tickets = self.open_tickets(found)
        blockers = rows.grouped(self._each_of(lambda row: rows.blocker(*row[1:]), "blockers_of_items", found))
        return {
            id: State(
                item=item,
                claim=claims.get(id),
                run=runs.get(id),
                blockers=blockers.get(id, ()),
                tickets=tickets.get(id, ()),
            )
            for id, item in found.items()
        }

    def open_tickets(self, items: Iterable[str]) -> dict[str, tuple[Ticket, ...]]:
        """The open tickets of each of these items that has any, in order."""
        return rows.grouped(self._each_of(rows.ticket, "open_tickets_of_items", items))

    def _each_of(self, make: Callable[[rows.Row], T], statement: str, items: Iterable[str]) -> Iterator[tuple[str, T]]:
        """The values that a statement finds for these items, each with the item's id, its first column."""
        ids = list(items)
        for row in self.all(statement, items=json_text.dumps(ids)) if ids else ():
            yield row[0], make(row)

    def dead_owners(self, among: Iterable[str] | None = None) -> list[tuple[str, Owner]]:
        """Live sessions with a claim, or with a descendant that has one, whose owner processes are proven dead."""
        from dibs.system import owner

        def owned(boot_id: str, pid_namespace: int) -> list[tuple[str, Owner]]:
            sessions = None if among is None else json_text.dumps(list(among))
            found = self.all("owned_sessions", boot_id=boot_id, pid_namespace=pid_namespace, among=sessions)
            return [(id, Owner.of_row(tuple(its))) for id, *its in found]

        return owner.dead(owned)

    def blockers_of(self, item: str) -> tuple[Blocker, ...]:
        """The dependencies that are not done. A pruned one was done."""
        return tuple(rows.blocker(needs, status) for needs, status in self.all("blockers", item=item))

    def is_free_id(self, id: str) -> bool:
        return self.one("item_by_id", id=id) is None

    def claim_of(self, item: str) -> Claim | None:
        row = self.one("claim_of_item", item=item)
        return None if row is None else rows.claim(row)

    def run_of(self, item: str, token: int) -> Run | None:
        row = self.one("run_by_token", item=item, token=token)
        return None if row is None else rows.run(row)

    def session(self, session: str) -> Session:
        """The session, which exists and has not ended."""
        self.lock_session(session)
        row = self.one("session_by_id", id=session)
        return refusals.live_session(session, None if row is None else rows.session(row))

    def session_and_agent(self, session: str) -> tuple[Session, Agent]:
        """The session, which exists and has not ended, with its agent."""
        me = self.session(session)
        return me, self.agent(me.agent)

    def claimant(self, session: str, agent: str | None, project: str | None = None) -> Claimant:
        """The session with its load and, with a project, the resources held there. `agent` is the agent that the
        caller takes it for."""
        me, mine = self.session_and_agent(session)
        if agent is not None and agent != me.agent:
            raise refusals.wrong_agent(session, me.agent, agent)
        holds = () if project is None else self.holds(project)
        return Claimant(session=me, agent=mine, load=self.load(me, mine), holds=holds)

    def load(self, session: Session, agent: Agent) -> Load:
        """The load that the agent's limits are compared with; without a limit nothing is counted."""
        name, limited = agent.name, agent.max_claims is not None or agent.max_claims_total is not None
        if not limited and agent.claims_per_minute is None:
            return Load()
        counted = agent.max_claims_total is not None
        total = self.scalar("live_claim_count_of_agent", agent=name, now=self.now) if counted else 0
        row = (0.0, 0) if agent.claims_per_minute is None else self.one("bucket_of_agent", name=name)
        expiry = self.one("next_expiry_of_agent", agent=name, now=self.now) if limited else None
        assert row is not None
        if row[1] > self.now:
            # The clock was set back: the bucket fills from now on, not only once the clock has caught up.
            row = (row[0], self.now)
            if self.writable:
                self.run("set_bucket", {"name": name, "bucket": row[0], "bucket_at": self.now})
        return Load(
            held=self.held(session.id) if limited else 0,
            held_total=int(total or 0),
            bucket=row[0],
            bucket_at=row[1],
            next_expiry_at=None if expiry is None else expiry[0],
        )

    def holds(self, project: str) -> tuple[Hold, ...]:
        """Every resource that claims of a project hold."""
        return tuple(
            Hold(resource=resource, item=item, session=session, agent=agent)
            for resources, item, session, agent in self.all("holds", project=project, now=self.now)
            for resource in rows.names(resources)
        )

    def agent(self, name: str) -> Agent:
        row = self.one("agent_by_name", name=name)
        assert row is not None, "a session's agent is created with it"
        return rows.agent(row)

    def held(self, session: str) -> int:
        return int(self.scalar("live_claim_count", session=session, now=self.now) or 0)

    def scalar(self, statement: str, /, **parameters: Any) -> float | None:
        """The first column of the first row."""
        row = self.one(statement, **parameters)
        return None if row is None else row[0]

    def fenced(self, item: str, session: str, token: int | None) -> tuple[State, Claim]:
        """The item and the live claim that this session holds of it; raises the refusal otherwise."""
        self.lock_session(session)
        state = self.state(item)
        if token is None:
            row = self.one("last_run_of_session", item=item, session=session)
            asked = None if row is None else rows.run(row)
        elif state.run is not None and state.run.token == token:
            asked = state.run
        else:
            asked = self.run_of(item, token)
        if asked is None or asked.session != session:
            self.session(session)  # an unknown session is a refusal of its own
        return state, fencing.fence(self.now, state, session=session, token=token, asked=asked)

    def previous(self, run: Run | None) -> Previous | None:
        """The previous run with its notes, for the next holder."""
        if run is None:
            return None
        row = self.one("comment_on_run", item=run.item, token=run.token) if run.outcome == "submitted" else None
        return Previous(run=run, notes=self.notes(run), comment=None if row is None else row[0])

    def draft(self, item: str) -> Run | None:
        """The latest run that was submitted."""
        row = self.one("latest_draft", item=item)
        return None if row is None else rows.run(row)

    def approved_draft(self, item: Item) -> int | None:
        """The token of the run whose draft the current approval is about."""
        row = self.one("latest_approval", item=item.id) if item.approved else None
        return None if row is None else row[3]

    def approval(self, item: Item) -> Approval | None:
        """The approval in force, with the run whose draft was approved."""
        row = self.one("latest_approval", item=item.id) if item.approved else None
        if row is None:
            return None
        actor, at, comment, token = row
        return Approval(actor=actor, at=at, comment=comment, run=None if token is None else self.run_of(item.id, token))

    def notes(self, run: Run) -> tuple[Note, ...]:
        """The latest notes of a run, oldest first."""
        found = self.all("notes_of_run", item=run.item, token=run.token, limit=NOTES_MAX)
        return tuple(Note.of_known({"at": at, **rows.loads(data)}) for at, data in reversed(found))

    # Writing

    def write(self, decision: Decision) -> None:
        """Write a decision. A refusal ends the verb."""
        for step in decision.steps:
            self.apply(step)
        if decision.renewed is not None:
            self.run_one("renew_claim", rows.plain(decision.renewed))
        if decision.activity is not None:
            self.run("insert_activity", rows.encode(decision.activity))
            if isinstance(decision.refusal, ItemAlreadyClaimed):
                self.run("count_conflict", {})
        if decision.refusal is not None:
            self.refuse(decision.refusal)

    def apply_with_effects(self, state: State, move: Step) -> Step:
        """Write a step and its effects: the offer to the next ticket, and dependents that no longer wait, or wait
        again. Returns the last step of the item itself."""
        for step in queueing.follow(self.now, state, move, self.settings):
            self.apply(step)
            move = step
        if move.item.status == DONE:
            self._settle_dependents(move.item.id, "blocked_by", overdue.unblock)
        elif state.item.status == DONE:
            self._settle_dependents(move.item.id, "dependents", overdue.block)
        return move

    def end(self, state: State, step: Step) -> Ended:
        """Write the end of a run, and its effects."""
        assert step.run is not None
        return Ended(item=self.apply_with_effects(state, step).item, run=step.run)

    def _settle_dependents(self, item: str, found_by: str, settle: Callable[[int, State], Step | None]) -> None:
        for (dependent,) in self.all(found_by, needs=item):
            state = self.state(dependent)
            if (step := settle(self.now, state)) is not None:
                self.apply_with_effects(state, step)

    def spend(self, claimant: Claimant, claims: int) -> None:
        """Subtract this many claims from the agent's bucket, if its rate is limited."""
        agent, load = claimant.agent, claimant.load
        if agent.claims_per_minute is not None and claims:
            left = bucket_level(self.now, agent, load) - claims
            self.run("set_bucket", {"name": agent.name, "bucket": left, "bucket_at": self.now})

    def refuse(self, refusal: DibsError) -> NoReturn:
        raise Refused(refusal)

    def apply(self, step: Step) -> None:
        """Write one step: the item, its claim, its run, its tickets and its event."""
        kind = step.event.kind
        if kind == "added":
            self.put_item("insert_item", step.item)
            self._put_dependencies(step.item, "put_dependencies")
        elif kind == "edited":
            self.put_item("rewrite_item", step.item)
            if "depends_on" in step.event.data:
                self.run("drop_dependencies", {"item": step.item.id})
                self._put_dependencies(step.item, "put_dependencies_if_there")
        else:
            self.run_one("move_item", rows.plain(step.item))
        if kind == "claimed":
            assert step.claim is not None
            assert step.run is not None, "a claim opens a run"
            self.run("insert_claim", rows.plain(step.claim))
            self.run("insert_run", rows.encode(step.run))
        elif kind == "progress":
            assert step.claim is not None, "progress renews"
            self.run_one("renew_claim", rows.plain(step.claim))
        elif kind == "annotated":
            assert step.run is not None, "an annotation is of a run"
            self.run_one("annotate_run", rows.encode(step.run))
        elif step.run is not None and step.claim is None:
            self.run_one("delete_claim", {"item": step.run.item, "token": step.run.token})
            self.run_one("end_run", rows.encode(step.run))
        for ticket in step.closed:
            self.run_one("close_ticket", rows.plain(ticket))
        self.run("insert_event", rows.encode(step.event))
        self.changed = True
        self.freed = self.freed or kind in FREED

    def put_item(self, statement: str, item: Item) -> None:
        """Write all columns of an item."""
        self.run_one(statement, rows.encode(item))

    def _put_dependencies(self, item: Item, statement: str) -> None:
        if item.depends_on:
            self.run(statement, {"item": item.id, "needs": json_text.dumps(item.depends_on)})

    def touch(self, session: Session) -> None:
        """`touch_session` for a session that was loaded, so that it is known whether there is anything to do."""
        if not self.now - SEEN_EVERY < session.seen_at <= self.now:
            self.touch_session(session.id)

    def touch_session(self, session: str) -> None:
        """Set `seen_at`, at most every five seconds: on PostgreSQL each update leaves a dead row version."""
        self.run("touch_session", {"id": session, "now": self.now})
