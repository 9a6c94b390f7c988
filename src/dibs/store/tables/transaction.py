"""One transaction: the rows a decision needs, and the writing of what was decided.

Everything a verb reads and writes goes through here, so that each statement stands in one place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs import jsontext
from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, ItemNotFound, SessionNotFound
from dibs.model import BLOCKED, DONE, ENDED, Approval, Blocker, Note, Owner, Previous
from dibs.rules import holding, queueing, resting
from dibs.rules.claiming import Asker
from dibs.rules.decision import Decision, State, Step
from dibs.rules.freshening import freshen
from dibs.rules.limits import Load, filled
from dibs.rules.resources import Hold
from dibs.store.tables import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar, NoReturn, TypeVar

    from dibs.config import Settings
    from dibs.model import Agent, Claim, Item, Run, Session, Ticket

    T = TypeVar("T")

#: How many notes of the previous run a claim's answer carries.
NOTES_MAX = 20
#: The events by which an item can be had: by anybody, or by whose turn it is.
FREED = frozenset({"claimable", "offered"})


#: What stands for the status of a dependency that a file of a vault names and that is no item yet.
MISSING = "missing"


def blocker(item: str, status: str) -> Blocker:
    return Blocker(item=item, status=status, will_move=status not in (*ENDED, MISSING))


class Refused(Exception):
    """A refusal that comes with something to write: commit, then raise what it carries."""

    def __init__(self, refusal: DibsError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class Transaction(ABC):
    """`now` is the decision's instant: read by the store's clock, after what was decided on is locked."""

    now: int
    settings: Settings
    writable: bool
    changed: bool = False
    #: Whether something can be had that could not, by this transaction.
    freed: bool = False
    #: Items that are not to be given to anybody just now, whatever the rows say.
    passed_over: frozenset[str] = frozenset()
    #: What the database raises when a row does not fit its table.
    misfits: ClassVar[tuple[type[Exception], ...]] = ()

    # Statements, by name

    @abstractmethod
    def one(self, statement: str, /, **parameters: Any) -> tuple[Any, ...] | None: ...

    @abstractmethod
    def all(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def each(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Rows one by one: what is not asked for is not read."""

    @abstractmethod
    def run(self, statement: str, parameters: dict[str, Any]) -> None: ...

    @abstractmethod
    def run_one(self, statement: str, parameters: dict[str, Any]) -> None:
        """Run a statement that must hit exactly one row, else the rows are not those that were decided on."""

    # What a store with many writers at a time has to do

    @abstractmethod
    def lock_items(self, items: Iterable[str]) -> None:
        """Have these items to oneself, in the one order in which everybody takes them."""

    @abstractmethod
    def lock_dependencies(self) -> None:
        """Be the only one who changes what existing items wait for."""

    @abstractmethod
    def lock_new_session(self, session: str) -> None:
        """Be the only one who starts a session of this id."""

    @abstractmethod
    def lock_session(self, session: str) -> None:
        """Have this session, if there is one, to oneself: before any item."""

    @abstractmethod
    def lock_item(self, item: str) -> None:
        """Have this item, if there is one, to oneself; `now` is read after that."""

    @abstractmethod
    def ahead_of(self, asker: Asker, item: Item, most: int) -> int:
        """How many items, counted up to `most`, this asker would be given before this one."""

    @abstractmethod
    def number_events_past(self, number: int) -> None:
        """Have the next event numbered above this one."""

    # Loading

    def state(self, item: str) -> State:
        self.lock_item(item)
        row = self.one("item_by_id", id=item)
        if row is None:
            raise ItemNotFound(f"there is no item {item}", item=item)
        return self.state_of(rows.item(row))

    def fresh(self, item: str) -> State:
        """The item as it is once what time has done to it is written down."""
        state = self.state(item)
        steps, state = freshen(self.now, state, self.settings)
        for step in steps:
            self.take(step)
        return state

    def state_of(self, item: Item) -> State:
        return State(
            item=item,
            claim=self.claim_of(item.id),
            run=self.latest_run(item.id),
            blockers=self.blockers_of(item.id) if item.depends_on else (),
            tickets=tuple(rows.ticket(row) for row in self.all("open_tickets", item=item.id)),
        )

    def states(self, items: Iterable[str]) -> dict[str, State]:
        """The states of many items, in a fixed number of statements. Only for reading: nothing is locked."""
        found = {id: State(item=item) for id, item in self._each_of(rows.item, "items_by_id", items)}
        claims = dict(self._each_of(rows.claim, "claims_of_items", found))
        runs = dict(self._each_of(rows.run, "latest_runs", found))
        tickets: dict[str, list[Ticket]] = {}
        for item, ticket in self._each_of(rows.ticket, "open_tickets_of_items", found):
            tickets.setdefault(item, []).append(ticket)
        blockers: dict[str, list[Blocker]] = {}
        for item, needs, status in self.all("blockers_of_items", items=jsontext.dumps(list(found))):
            blockers.setdefault(item, []).append(blocker(needs, status))
        return {
            id: state.replace(
                claim=claims.get(id),
                run=runs.get(id),
                tickets=tuple(tickets.get(id, ())),
                blockers=tuple(blockers.get(id, ())),
            )
            for id, state in found.items()
        }

    def _each_of(
        self, make: Callable[[tuple[Any, ...]], T], statement: str, items: Iterable[str]
    ) -> Iterator[tuple[str, T]]:
        """What a statement finds about these items, each with the item's id, which is the first column."""
        ids = list(items)
        for row in self.all(statement, items=jsontext.dumps(ids)) if ids else ():
            yield row[0], make(row)

    def owners(
        self, boot_id: str, pid_namespace: int, among: Iterable[str] | None = None
    ) -> tuple[tuple[str, Owner], ...]:
        """Live sessions that hold something, with their owner processes in this namespace."""
        sessions = None if among is None else jsontext.dumps(list(among))
        found = self.all("owned_sessions", boot_id=boot_id, pid_namespace=pid_namespace, among=sessions)
        return tuple((id, Owner(**dict(zip(Owner._fields, owner, strict=True)))) for id, *owner in found)

    def blockers_of(self, item: str) -> tuple[Blocker, ...]:
        """The dependencies that are not done. One that is gone was done when it was pruned, and is forgotten."""
        return tuple(blocker(needs, status) for needs, status in self.all("blockers", item=item))

    def claim_of(self, item: str) -> Claim | None:
        row = self.one("claim_of_item", item=item)
        return None if row is None else rows.claim(row)

    def latest_run(self, item: str) -> Run | None:
        row = self.one("latest_run", item=item)
        return None if row is None else rows.run(row)

    def run_of(self, item: str, token: int) -> Run | None:
        row = self.one("run_by_token", item=item, token=token)
        return None if row is None else rows.run(row)

    def session(self, session: str) -> Session:
        """A session that is known and has not ended."""
        self.lock_session(session)
        row = self.one("session_by_id", id=session)
        found = None if row is None else rows.session(row)
        if found is None or found.ended_at is not None:
            how = "is not known" if found is None else f"has ended ({found.end_reason or 'no reason given'})"
            raise SessionNotFound(f"the session {session} {how}", session=session, ended=found is not None)
        return found

    def asker(self, session: str, agent: str | None, project: str | None = None) -> Asker:
        """Who asks, with what its limits count and, if a project is named, what others hold there."""
        me, my_agent = self.session_and_agent(session, agent)
        return Asker(
            session=me,
            agent=my_agent,
            load=self.load(me, my_agent),
            holds=() if project is None else self.holds(project),
        )

    def load(self, session: Session, agent: Agent) -> Load:
        """What the agent's limits count; what they do not ask for is not counted."""
        name, limited = agent.name, agent.max_claims is not None or agent.max_claims_total is not None
        total = 0 if agent.max_claims_total is None else self._number("live_claim_count_of_agent", agent=name)
        row = (0.0, 0) if agent.claims_per_minute is None else self.one("bucket_of_agent", name=name)
        expiry = self.one("next_expiry_of_agent", agent=name, now=self.now) if limited else None
        assert row is not None
        if row[1] > self.now:
            row = self._set_clock_of_bucket(name, row[0])
        return Load(
            held=self._number("live_claim_count", session=session.id) if limited else 0,
            held_total=total,
            bucket=row[0],
            bucket_at=row[1],
            next_expiry_at=None if expiry is None else expiry[0],
        )

    def _set_clock_of_bucket(self, agent: str, bucket: float) -> tuple[float, int]:
        """The clock was set back: what is in the bucket stays, and fills from now on, not once the clock caught up."""
        if self.writable:
            self.run("set_bucket", {"name": agent, "bucket": bucket, "bucket_at": self.now})
        return bucket, self.now

    def holds(self, project: str) -> tuple[Hold, ...]:
        """Every resource in use in a project."""
        return tuple(
            Hold(resource=resource, item=item, session=session, agent=agent)
            for resources, item, session, agent in self.all("holds", project=project, now=self.now)
            for resource in rows.names(resources)
        )

    def session_and_agent(self, session: str, agent: str | None) -> tuple[Session, Agent]:
        found = self.session(session)
        if agent is not None and agent != found.agent:
            raise Invalid(
                f"session {session} is {found.agent}'s, not {agent}'s; start another session for {agent}",
                field="agent",
                session=session,
                agent=found.agent,
            )
        return found, self.agent(found.agent)

    def agent(self, name: str) -> Agent:
        row = self.one("agent_by_name", name=name)
        assert row is not None, "a session's agent is created with it"
        return rows.agent(row)

    def held(self, session: str) -> int:
        return self._number("live_claim_count", session=session)

    def _number(self, name: str, **parameters: Any) -> int:
        row = self.one(name, **parameters, now=self.now)
        return 0 if row is None else int(row[0])

    def figure(self, statement: str, /, **parameters: Any) -> float | None:
        """The one number that a statement finds."""
        row = self.one(statement, **parameters)
        return None if row is None else row[0]

    def fenced(self, item: str, session: str, token: int | None) -> tuple[State, Claim]:
        """The item and the live claim that this session holds of it, or the refusal that says why not."""
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
            self.session(session)
        return state, holding.fence(self.now, state, session=session, token=token, asked=asked)

    def previous(self, run: Run | None) -> Previous | None:
        """Where an earlier holder stopped."""
        if run is None:
            return None
        row = self.one("comment_on_run", item=run.item, token=run.token) if run.draft is not None else None
        return Previous(run=run, notes=self.notes(run), comment=None if row is None else row[0])

    def draft(self, item: str) -> Run | None:
        """The latest run that was submitted."""
        row = self.one("latest_draft", item=item)
        return None if row is None else rows.run(row)

    def approved_draft(self, item: Item) -> int | None:
        """The token of the run whose draft the approval that holds is about."""
        row = self.one("latest_approval", item=item.id) if item.approved else None
        return None if row is None else row[3]

    def approval(self, item: Item) -> Approval | None:
        """The approval that holds, with the run whose draft was approved."""
        row = self.one("latest_approval", item=item.id) if item.approved else None
        if row is None:
            return None
        actor, at, comment, token = row
        return Approval(actor=actor, at=at, comment=comment, run=None if token is None else self.run_of(item.id, token))

    def notes(self, run: Run) -> tuple[Note, ...]:
        """The latest notes of a run, oldest first."""
        found = self.all("notes_of_run", item=run.item, token=run.token, limit=NOTES_MAX)
        return tuple(Note(at=at, **jsontext.loads(data)) for at, data in reversed(found))

    # Writing

    def write(self, decision: Decision) -> None:
        """Write what was decided; if that was a refusal, end the verb with it."""
        for step in decision.steps:
            self.take(step)
        if decision.renewed is not None:
            self.run_one("renew_claim", rows.encode(decision.renewed))
        if decision.activity is not None:
            self.run("insert_activity", rows.encode(decision.activity))
            if isinstance(decision.refusal, ItemAlreadyClaimed):
                self.run("count_conflict", {})
        if decision.refusal is not None:
            self.refuse(decision.refusal)

    def carry_out(self, state: State, move: Step) -> Step:
        """Write a step and all that follows from it: offers to who waits, and the freedom of who depended on it.

        The answer is the last step of the item itself.
        """
        for step in queueing.follow(self.now, state, move, self.settings):
            self.take(step)
            move = step
        if move.item.status == DONE:
            self._free_dependents(move.item.id)
        return move

    def _free_dependents(self, item: str) -> None:
        for (dependent,) in self.all("blocked_by", needs=item):
            state = self.state(dependent)
            if state.item.status != BLOCKED:
                continue
            step = resting.settle(self.now, state)
            if step is not None:
                self.carry_out(state, step)

    def spend(self, asker: Asker, claims: int) -> None:
        """Take so many claims from the agent's bucket, if its rate is limited."""
        agent, load = asker.agent, asker.load
        if agent.claims_per_minute is not None and claims:
            left = filled(self.now, agent, load) - claims
            self.run("set_bucket", {"name": agent.name, "bucket": left, "bucket_at": self.now})

    def refuse(self, refusal: DibsError) -> NoReturn:
        raise Refused(refusal)

    def take(self, step: Step) -> None:
        """Write one step: the item, its claim, its run, and the event that tells it."""
        kind, item = step.event.kind, rows.encode(step.item)
        if kind == "added":
            self.run("insert_item", item)
            self._put_dependencies(step.item, "put_dependency")
        elif kind == "edited":
            self.run_one("rewrite_item", item)
            if "depends_on" in step.event.data:
                self.run("drop_dependencies", {"item": step.item.id})
                self._put_dependencies(step.item, "put_dependency_if_there")
        else:
            self.run_one("move_item", item)
        if kind == "claimed":
            assert step.claim is not None
            assert step.run is not None, "a claim opens a run"
            self.run("insert_claim", rows.encode(step.claim))
            self.run("insert_run", rows.encode(step.run))
        elif kind == "progress":
            assert step.claim is not None, "progress renews"
            self.run_one("renew_claim", rows.encode(step.claim))
        elif kind == "annotated":
            assert step.run is not None, "an annotation is of a run"
            self.run_one("annotate_run", rows.encode(step.run))
        elif step.run is not None and step.claim is None:
            ended = rows.encode(step.run)
            self.run_one("delete_claim", {"item": ended["item"], "token": ended["token"]})
            self.run_one("end_run", ended)
        for ticket in step.closed:
            self.run_one("close_ticket", rows.encode(ticket))
        self.run("insert_event", rows.encode(step.event))
        self.changed = True
        self.freed = self.freed or kind in FREED

    def _put_dependencies(self, item: Item, statement: str) -> None:
        for needs in item.depends_on:
            self.run(statement, {"item": item.id, "needs": needs})

    def see(self, session: str) -> None:
        """Note that it was here: to five seconds, since a row that every verb changed would collect its old versions
        faster than anybody can clean them away."""
        self.run("see_session", {"id": session, "now": self.now})
