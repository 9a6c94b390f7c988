"""One write transaction: the rows a decision needs, and the writing of what was decided.

The clock is read once, after the lock is held; that instant is the decision's `now`. Everything a verb reads and writes
goes through here, so that each statement stands in one place.
"""

from __future__ import annotations

from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, ItemNotFound, SessionNotFound
from dibs.model import Note, Previous
from dibs.rules import holding
from dibs.rules.decision import Decision, State, Step
from dibs.store.sqlite import rows
from dibs.store.sqlite.queries import PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    import apsw

    from dibs.config import Settings
    from dibs.model import Agent, Claim, Item, Run, Session

#: How many notes of the previous run a claim's answer carries.
NOTES_MAX = 20


class Refused(Exception):
    """A refusal that comes with something to write: commit, then raise what it carries."""

    def __init__(self, refusal: DibsError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class Transaction:
    def __init__(self, cursor: apsw.Cursor, now: int, settings: Settings) -> None:
        self.now = now
        self.settings = settings
        self.changed = False
        self._cursor = cursor

    # Statements

    def one(self, sql: str, **parameters: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._cursor.execute(sql, parameters).fetchone()
        return row

    def all(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._cursor.execute(sql, parameters).fetchall()
        return found

    def run(self, sql: str, parameters: dict[str, Any]) -> None:
        self._cursor.execute(sql, parameters)

    def run_one(self, sql: str, parameters: dict[str, Any]) -> None:
        """Run a statement that must hit exactly one row, else the rows are not those that were decided on."""
        self._cursor.execute(sql, parameters)
        hit = self._cursor.connection.changes()
        if hit != 1:
            raise AssertionError(f"hit {hit} rows instead of one: {sql}")

    # Loading

    def state(self, item: str) -> State:
        row = self.one(PATH["item_by_id"], id=item)
        if row is None:
            raise ItemNotFound(f"there is no item {item}", item=item)
        return self.state_of(rows.item(row))

    def state_of(self, item: Item) -> State:
        return State(item=item, claim=self.claim_of(item.id), run=self.run_of(item.id, item.token))

    def claim_of(self, item: str) -> Claim | None:
        row = self.one(PATH["claim_of_item"], item=item)
        return None if row is None else rows.claim(row)

    def run_of(self, item: str, token: int) -> Run | None:
        row = self.one(PATH["run_by_token"], item=item, token=token)
        return None if row is None else rows.run(row)

    def session(self, session: str) -> Session:
        """A session that is known and has not ended."""
        row = self.one(PATH["session_by_id"], id=session)
        found = None if row is None else rows.session(row)
        if found is None or found.ended_at is not None:
            how = "is not known" if found is None else f"has ended ({found.end_reason or 'no reason given'})"
            raise SessionNotFound(f"the session {session} {how}", session=session, ended=found is not None)
        return found

    def session_and_agent(self, session: str, agent: str | None) -> tuple[Session, Agent]:
        found = self.session(session)
        if agent is not None and agent != found.agent:
            raise Invalid(
                f"session {session} is {found.agent}'s, not {agent}'s; start another session for {agent}",
                field="agent",
                session=session,
                agent=found.agent,
            )
        row = self.one(PATH["agent_by_name"], name=found.agent)
        assert row is not None, "a session's agent is created with it"
        return found, rows.agent(row)

    def held(self, session: str) -> int:
        row = self.one(PATH["live_claim_count"], session=session, now=self.now)
        return 0 if row is None else int(row[0])

    def fenced(self, item: str, session: str, token: int | None) -> tuple[State, Claim]:
        """The item and the live claim that this session holds of it, or the refusal that says why not."""
        state = self.state(item)
        if token is None:
            row = self.one(PATH["last_run_of_session"], item=item, session=session)
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
        return None if run is None else Previous(run=run, notes=self.notes(run))

    def notes(self, run: Run) -> tuple[Note, ...]:
        """The latest notes of a run, oldest first."""
        found = self.all(PATH["notes_of_run"], item=run.item, token=run.token, limit=NOTES_MAX)
        return tuple(Note(at=at, **rows.loads(data)) for at, data in reversed(found))

    # Writing

    def write(self, decision: Decision) -> None:
        """Write what was decided; if that was a refusal, end the verb with it."""
        for step in decision.steps:
            self.take(step)
        if decision.renewed is not None:
            self.run_one(PATH["renew_claim"], rows.encode(decision.renewed))
        if decision.activity is not None:
            self.run(PATH["insert_activity"], rows.encode(decision.activity))
            if isinstance(decision.refusal, ItemAlreadyClaimed):
                self.run(PATH["count_conflict"], {})
        if decision.refusal is not None:
            self.refuse(decision.refusal)

    def refuse(self, refusal: DibsError) -> NoReturn:
        raise Refused(refusal)

    def take(self, step: Step) -> None:
        """Write one step: the item, its claim, its run, and the event that tells it."""
        kind, item = step.event.kind, rows.encode(step.item)
        if kind == "added":
            self.run(PATH["insert_item"], item)
        elif kind == "edited":
            self.run_one(PATH["rewrite_item"], item)
        else:
            self.run_one(PATH["move_item"], item)
        if kind == "claimed":
            assert step.claim is not None
            assert step.run is not None, "a claim opens a run"
            self.run(PATH["insert_claim"], rows.encode(step.claim))
            self.run(PATH["insert_run"], rows.encode(step.run))
        elif kind == "progress":
            assert step.claim is not None, "progress renews"
            self.run_one(PATH["renew_claim"], rows.encode(step.claim))
        elif step.run is not None and step.claim is None:
            ended = rows.encode(step.run)
            self.run_one(PATH["delete_claim"], {"item": ended["item"], "token": ended["token"]})
            self.run_one(PATH["end_run"], ended)
        self.run(PATH["insert_event"], rows.encode(step.event))
        self.changed = True

    def see(self, session: str) -> None:
        self.run(PATH["see_session"], {"id": session, "now": self.now})
