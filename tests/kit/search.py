"""An exhaustive search of a small board: every interleaving of the verbs, of time and of crashes.

The board here is the rules and a dictionary, nothing else: two sessions, two items, one of which has its queue. From
the empty board every action that anybody could take is taken, zombies with old tokens included, until no new state
turns up. Beside the states the search keeps a ledger of its own, which knows only what was granted and what was ended,
and judges every action by it (S1 to S6, and the order of the queue). States are told apart by what can still make a
difference; times count from now. Left out is what concerns more than an item and its holders: `next` (which is a claim
of what it chose), edits, dependencies, schedules and resources.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dibs.config import Settings
from dibs.errors import DibsError
from dibs.model import ENDED, FAILED, IN_PROGRESS, Agent, Claim, NewItem, Run, Session
from dibs.rules import claiming, ending, fencing, handing, items, queueing, reviewing
from dibs.rules.decision import State, Step
from dibs.rules.limits import Load
from dibs.rules.overdue import due_steps
from dibs.value import Value

TICK = 1000
#: A claim lives for two ticks, so that it can be renewed, nearly lost, and lost.
SETTINGS = Settings(ttl_seconds=2, ttl_seconds_min=1, ttl_seconds_max=10, max_strikes=2, accept_seconds=1)
SESSIONS = ("s1", "s2")
ITEMS = ("a", "b")
#: Claims an item is given in all, so that the states are finite; the soak goes one further.
CLAIMS_MAX = 2
#: Ends from which no verb leads on.
FINAL = ENDED - {FAILED}


class Held(Value):
    """The ledger's line about one item: its latest grant, and whether that was ended."""

    token: int = 0
    session: str = ""
    expires_at: int = 0
    ended: bool = True


class Violation(Exception):
    """An invariant broken, with the actions that led to it."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


class World(Value):
    """One state of the small board."""

    now: int
    states: dict[str, State]
    ledger: dict[str, Held]
    #: What each session was ever given: a zombie may use any of it.
    given: frozenset[tuple[str, str, int]]
    tickets: int

    def key(self) -> tuple[Any, ...]:
        return (*(self._item_key(item) for item in ITEMS), frozenset(self.given))

    def _item_key(self, item: str) -> tuple[Any, ...]:
        state, held = self.states[item], self.ledger[item]
        claim, row, run = state.claim, state.item, state.run
        return (
            row.status,
            row.token,
            row.strikes,
            row.needs_approval,
            row.offered_to,
            None if row.offer_expires_at is None else row.offer_expires_at > self.now,
            None if claim is None else (claim.token, claim.session, max(0, claim.expires_at - self.now)),
            tuple(ticket.session for ticket in state.tickets),
            None if held.ended else (held.token, held.session, max(0, held.expires_at - self.now)),
            None if run is None or row.status in FINAL else (run.session, run.token, run.outcome in fencing.LAPSED),
        )


class Search:
    """Breadth first from the empty board. `queued` are the items with a queue: each one multiplies the states."""

    def __init__(self, *, states_max: int, queued: tuple[str, ...] = ("a",)) -> None:
        self.states_max = states_max
        self.queued = queued
        self.seen = 0
        self.taken: dict[str, int] = {}

    def run(self) -> None:
        """Look at everything that can happen; raise the first violation with the shortest way to it."""
        start = first_world()
        known = {start.key()}
        waiting: deque[tuple[World, tuple[str, ...]]] = deque([(start, ())])
        while waiting:
            world, path = waiting.popleft()
            self.seen += 1
            for name, action in actions(world, self.queued):
                after = self._after(world, name, action, path)
                if after is None or after.key() in known:
                    continue
                if len(known) >= self.states_max:
                    raise AssertionError(f"more than {self.states_max} states: the model is not small")
                known.add(after.key())
                waiting.append((after, (*path, name)))

    def _after(self, world: World, name: str, action: Callable[[World], World], path: tuple[str, ...]) -> World | None:
        verb = name.split(" ", 1)[0]
        try:
            after = action(world)
        except DibsError as refusal:
            self._count(f"{verb} {refusal.code}")
            return None
        except Violation as violation:
            raise Violation(violation.invariant, f"{violation} after {' > '.join((*path, name))}") from violation
        except AssertionError as nonsense:
            raise Violation("S6", f"{nonsense} after {' > '.join((*path, name))}") from nonsense
        self._count(verb)
        return after

    def _count(self, what: str) -> None:
        self.taken[what] = self.taken.get(what, 0) + 1


def first_world() -> World:
    states = {}
    for id in ITEMS:
        step = items.add(0, NewItem(id=id, title=id), actor="tester", token_floor=0)
        states[id] = State(item=step.item)
    return World(now=0, states=states, ledger={id: Held() for id in ITEMS}, given=frozenset(), tickets=0)


def actions(world: World, queued: tuple[str, ...]) -> Iterator[tuple[str, Callable[[World], World]]]:
    """Everything that anybody could do next."""
    yield "tick", tick
    for session in SESSIONS:
        yield f"heartbeat {session}", partial(heartbeat, session=session)
    for item in ITEMS:
        for verb, act in PLAIN.items():
            if verb not in APPROVALS or item not in queued:
                yield f"{verb} {item}", partial(_on, item, act)
        for session in SESSIONS:
            if world.states[item].item.token < CLAIMS_MAX:
                yield f"claim {item} {session}", partial(claim, item=item, session=session)
            if item in queued:
                yield f"wait {item} {session}", partial(wait, item=item, session=session)
                yield f"leave {item} {session}", partial(leave, item=item, session=session)
    for session, item, token in sorted(world.given):
        for verb, end in ENDS.items():
            if verb in APPROVALS and item in queued:
                continue
            name = f"{verb} {item} {session} token {token}"
            yield name, partial(fenced, item=item, session=session, token=token, end=end)
        if world.states[item].item.token < CLAIMS_MAX or world.states[item].item.token != token:
            name = f"recover {item} {session} token {token}"
            yield name, partial(recover, item=item, session=session, token=token)
            for to in SESSIONS:
                name = f"hand {item} {session} token {token} to {to}"
                yield name, partial(hand, item=item, session=session, token=token, to=to)


def _on(item: str, act: Callable[[World, str], World], world: World) -> World:
    return act(world, item)


def tick(world: World) -> World:
    return world.replace(now=world.now + TICK)


def claim(world: World, item: str, session: str, unless_after: int | None = None) -> World:
    state = world.states[item]
    decision = claiming.claim(
        world.now, state, _claimant(world, session), ttl_seconds=None, settings=SETTINGS, unless_after=unless_after
    )
    world = take(world, item, decision.steps)
    if decision.refusal is not None:
        if decision.steps:
            return world
        raise decision.refusal
    if decision.renewed is not None:
        return _renew(world, item, decision.renewed)
    return world


def recover(world: World, item: str, session: str, token: int) -> World:
    """The claim of a holder that comes back, which nobody else may have been given meanwhile."""
    after = claim(world, item, session, token)
    granted = after.ledger[item].token > world.ledger[item].token
    if granted and world.ledger[item].token != token:
        raise Violation("S5", f"{session} came back to what {world.ledger[item].session} was given since")
    return after


def heartbeat(world: World, session: str) -> World:
    """What a store does in one statement: renew every live claim of the session."""
    for item, state in world.states.items():
        if state.claim is not None and state.claim.session == session and fencing.live(state.claim, world.now):
            world = _renew(world, item, fencing.renew(state.claim, world.now))
    return world


def fenced(world: World, item: str, session: str, token: int, end: Callable[..., Step]) -> World:
    """An end of a run, by whoever was given this token, however long ago."""
    state, held = world.states[item], _fence(world, item, session, token)
    return take(world, item, queueing.follow(world.now, state, end(world.now, state, held), SETTINGS))


def hand(world: World, item: str, session: str, token: int, to: str) -> World:
    """Both halves of a hand-over, or none. Afterwards the other one holds it, and who waits waits as before."""
    state, held = world.states[item], _fence(world, item, session, token)
    step = handing.hand(world.now, state, held, _session(to), reason=None)
    after = claim(take(world, item, (step,)), item, to)
    if after.ledger[item].session != to or after.ledger[item].token != token + 1:
        raise Violation("S1", f"handed to {to}; the ledger says {after.ledger[item]}")
    left = [one.session for one in state.tickets if one.session != to]
    if [one.session for one in after.states[item].tickets] != left:
        raise Violation("L3", f"the queue was {left} before {item} was handed to {to}")
    return after


def _fence(world: World, item: str, session: str, token: int) -> Claim:
    state, held = world.states[item], world.ledger[item]
    asked = state.run if state.run is not None and state.run.token == token else _old_run(item, session, token)
    claim = fencing.fence(world.now, state, session=session, token=token, asked=asked)
    if held.ended or (held.token, held.session) != (token, session) or held.expires_at <= world.now:
        raise Violation("S3", f"token {token} of {session} was honoured; the ledger says {held}")
    return claim


def sweep(world: World, item: str) -> World:
    steps, _ = due_steps(world.now, world.states[item], SETTINGS)
    return take(world, item, tuple(steps))


def owner_died(world: World, item: str) -> World:
    state = world.states[item]
    if state.claim is None:
        return world
    return take(world, item, queueing.follow(world.now, state, ending.owner_died(world.now, state, SETTINGS), SETTINGS))


def by_a_person(decide: Callable[[int, State], Step]) -> Callable[[World, str], World]:
    """What somebody decides about an item, whoever holds it."""

    def act(world: World, item: str) -> World:
        state = world.states[item]
        return take(world, item, queueing.follow(world.now, state, decide(world.now, state), SETTINGS))

    return act


def leave(world: World, item: str, session: str) -> World:
    state = world.states[item]
    ticket, onward = queueing.leave(world.now, state, session, SETTINGS, "enough")
    left = state.replace(tickets=tuple(one for one in state.tickets if one.id != ticket.id))
    return take(world.replace(states={**world.states, item: left}), item, onward)


def wait(world: World, item: str, session: str) -> World:
    state = world.states[item]
    if state.item.token >= CLAIMS_MAX:
        return world
    ticket = queueing.wait(world.now, state, _session(session), 1_000, SETTINGS)
    if ticket.id:
        return world
    ticket = ticket.replace(id=world.tickets + 1)
    state = state.replace(tickets=(*state.tickets, ticket))
    world = world.replace(states={**world.states, item: state}, tickets=world.tickets + 1)
    if state.item.status == "ready" and state.item.offered_to is None:
        return take(world, item, (queueing.available(world.now, state, SETTINGS),))
    return world


ENDS: dict[str, Callable[..., Step]] = {
    "release": lambda now, state, claim: ending.release(now, state, claim, reason=None),
    "done": lambda now, state, claim: ending.done(now, state, claim, note=None, links={}, cost={}),
    "fail": lambda now, state, claim: ending.fail(
        now, state, claim, reason=None, links={}, cost={}, settings=SETTINGS, uniform=0.5
    ),
    "submit": lambda now, state, claim: ending.submit(now, state, claim, draft="so", note=None, links={}, cost={}),
    "reject": lambda now, state, claim: ending.reject(now, state, claim, reason="never"),
    "progress": lambda now, state, claim: fencing.progress(now, state, claim, note="on it", meta={}),
}


#: What happens to an item without anybody's token.
PLAIN: dict[str, Callable[[World, str], World]] = {
    "sweep": sweep,
    "owner_died": owner_died,
    "force_release": by_a_person(
        lambda now, state: ending.force_release(now, state, actor="admin", reason="now", token=None)
    ),
    "cancel": by_a_person(lambda now, state: ending.cancel(now, state, actor="admin", reason=None)),
    "retry": by_a_person(lambda now, state: items.retry(now, state, actor="admin", reason=None)),
    "reopen": by_a_person(lambda now, state: items.reopen(now, state, actor="admin", reason=None, token_floor=0)),
    "park": by_a_person(lambda now, state: items.park(now, state, actor="admin", reason=None)),
    "unpark": by_a_person(lambda now, state: items.unpark(now, state, actor="admin", reason=None)),
    "approve": by_a_person(
        lambda now, state: reviewing.approve(now, state, state.run, actor="admin", comment=None, done=False)
    ),
    "send_back": by_a_person(lambda now, state: reviewing.send_back(now, state, actor="admin", comment="again")),
    "turn_down": by_a_person(lambda now, state: reviewing.reject(now, state, actor="admin", reason="never")),
}


#: What only the item without a queue goes through: both at once would make a million states of tens of thousands.
APPROVALS = frozenset({"park", "unpark", "submit", "approve", "send_back", "turn_down", "reject", "progress", "reopen"})


def take(world: World, item: str, steps: tuple[Step, ...]) -> World:
    """Write the steps as a store would, and judge each by the ledger."""
    for step in steps:
        state, held = world.states[item], world.ledger[item]
        held, given = _judged(world, state, held, step), world.given
        if step.event.kind == "claimed":
            given = given | {(held.session, item, held.token)}
        after = step.after(state)
        world = world.replace(states={**world.states, item: after}, ledger={**world.ledger, item: held}, given=given)
        _conserved(after)
    return world


def _judged(world: World, state: State, held: Held, step: Step) -> Held:
    """The ledger after a step, if the step may be taken at all."""
    event, live = step.event, not held.ended and held.expires_at > world.now
    if event.number != state.item.revision + 1:
        raise Violation("S8", f"event {event.number} after {state.item.revision}")
    if event.kind == "claimed":
        if live:
            raise Violation("S1", f"given to {event.session} while {held.session} holds it")
        if not held.ended:
            raise Violation("S4", f"token {held.token} was never ended")
        if event.token != held.token + 1 or step.claim is None:
            raise Violation("S2", f"token {event.token} after {held.token}")
        if state.item.offered_to not in (None, event.session):
            raise Violation("L3", f"offered to {state.item.offered_to}, taken by {event.session}")
        return Held(token=event.token, session=event.session or "", expires_at=step.claim.expires_at, ended=False)
    if step.run is not None and step.run.outcome is not None:
        if held.ended or held.token != step.run.token:
            raise Violation("S4", f"token {step.run.token} was ended again")
        if step.run.outcome == "expired" and live:
            raise Violation("S5", f"token {held.token} expired before its time")
        return held.replace(ended=True)
    if held.ended:
        return held
    if step.claim is None:
        raise Violation("S6", f"the claim under token {held.token} vanished without an end")
    return held.replace(expires_at=step.claim.expires_at)


def _renew(world: World, item: str, claim: Claim) -> World:
    state, held = world.states[item], world.ledger[item]
    if held.ended or held.expires_at <= world.now or held.token != claim.token:
        raise Violation("S5", f"token {claim.token} was brought back to life")
    return world.replace(
        states={**world.states, item: state.replace(claim=claim)},
        ledger={**world.ledger, item: held.replace(expires_at=claim.expires_at)},
    )


def _conserved(state: State) -> None:
    item, claim = state.item, state.claim
    if (item.status == IN_PROGRESS) != (claim is not None):
        raise Violation("S6", f"{item.id} is {item.status} with claim {claim}")
    if item.status in ENDED and state.tickets:
        raise Violation("L3", f"{item.id} is {item.status} and still has a queue")


def _claimant(world: World, session: str) -> claiming.Claimant:
    claims = [state.claim for state in world.states.values() if state.claim is not None]
    held = sum(claim.session == session and fencing.live(claim, world.now) for claim in claims)
    load = Load(held=held, held_total=held, bucket=0, bucket_at=0, next_expiry_at=None)
    return claiming.Claimant(session=_session(session), agent=Agent(name=session, max_claims=1), load=load)


def _session(session: str) -> Session:
    return Session(id=session, agent=session)


def _old_run(item: str, session: str, token: int) -> Run:
    return Run(item=item, token=token, session=session, agent=session, started_at=0, ended_at=0, outcome="released")
