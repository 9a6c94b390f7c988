"""A judge of recorded concurrent histories: could these answers have come from a board that keeps its word?

Each item is looked at alone, its claims in the order of their tokens, in time linear in the number of calls. A call
took effect at some instant between its beginning and its end; an answer is wrong only if no choice of such instants
explains it. Calls without an answer (their process was killed) may or may not have taken effect.
"""

from __future__ import annotations

from collections import defaultdict

from dibs.testing.recording import Call
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.board import Board
    from dibs.model import Event

#: What closes a run when its holder asks for it.
ENDS = {"done": "done", "fail": "failed", "release": "released", "submit": "submitted"}
#: Ends a claim, and gives the next.
HAND = "hand"
PAGE = 10_000


class Grant(Value):
    """A claim as its holder was told of it: whose, and the bounds of the instant at which it was given."""

    item: str
    token: int
    session: str
    start_ns: int
    end_ns: int


def check(calls: Sequence[Call], board: Board | None = None) -> list[str]:
    """What in these calls cannot be explained, one sentence each; with a board, also what it has forgotten."""
    granted, found = _grants(calls)
    uses = _uses_by_claim(calls)
    for claims in _by_item(granted.values()):
        found += _tokens_follow_time(claims)
        found += _holders_kept_within_their_claims(claims, uses)
    found += _nothing_used_without_a_claim(uses, granted)
    if board is not None:
        found += _acknowledged_is_recorded(granted, uses, board)
    return found


def _grants(calls: Iterable[Call]) -> tuple[dict[tuple[str, int], Grant], list[str]]:
    """Claims given, and those given to two sessions. The first answer counts: later ones are the same claim again."""
    granted: dict[tuple[str, int], Grant] = {}
    found = []
    for call in calls:
        for item, token in call.grants if call.end_ns is not None else ():
            session = call.holder or call.session
            assert session is not None
            assert call.end_ns is not None
            before = granted.get((item, token))
            if before is not None and before.session != session:
                found.append(f"{item} token {token} was given to {before.session} and to {session}")
            if before is None or call.end_ns < before.end_ns:
                granted[item, token] = Grant(
                    item=item, token=token, session=session, start_ns=call.start_ns, end_ns=call.end_ns
                )
    return granted, found


def _by_item(claims: Iterable[Grant]) -> list[list[Grant]]:
    """The claims of each item, in the order of their tokens."""
    grouped: dict[str, list[Grant]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.token):
        grouped[claim.item].append(claim)
    return list(grouped.values())


def _uses_by_claim(calls: Iterable[Call]) -> dict[tuple[str, int], list[Call]]:
    """The acknowledged calls of each claim's holder that were allowed only while it was live."""
    uses: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in calls:
        if call.end_ns is None or call.code is not None:
            continue
        for pair in call.renewed:
            uses[pair].append(call)
        if call.ended is not None and call.verb in ENDS:
            uses[call.ended[:2]].append(call)
        if call.verb == HAND and call.item is not None and call.token is not None:
            uses[call.item, call.token].append(call)
    return uses


def _tokens_follow_time(claims: Sequence[Grant]) -> list[str]:
    """A claim with a higher token was not over and done with before one with a lower token was even asked for."""
    found = []
    for earlier, later in _with_latest_start_before(claims):
        if later.end_ns < earlier.start_ns:
            found.append(f"{later.item}: token {later.token} was given before token {earlier.token}")
    return found


def _with_latest_start_before(claims: Sequence[Grant]) -> Iterable[tuple[Grant, Grant]]:
    latest: Grant | None = None
    for claim in claims:
        if latest is not None:
            yield latest, claim
        if latest is None or claim.start_ns > latest.start_ns:
            latest = claim


def _holders_kept_within_their_claims(claims: Sequence[Grant], uses: dict[tuple[str, int], list[Call]]) -> list[str]:
    """Nothing was acknowledged to a holder once a later claim was given, or after its own end; done is for good."""
    found = []
    next_end_ns: int | None = None  # when the earliest-heard claim with a higher token was heard of
    for claim in reversed(claims):
        mine = uses.get((claim.item, claim.token), [])
        for call in mine:
            if next_end_ns is not None and call.start_ns > next_end_ns:
                found.append(
                    f"{claim.item}: {call.verb} under token {claim.token} was accepted after a later claim was given"
                )
        found += _one_end(claim, mine)
        next_end_ns = claim.end_ns if next_end_ns is None else min(next_end_ns, claim.end_ns)
    return found + _nothing_after_done(claims, uses)


def _one_end(claim: Grant, mine: Sequence[Call]) -> list[str]:
    ends = [call for call in mine if call.ended is not None or call.verb == HAND]
    where = f"{claim.item} token {claim.token}"
    found = []
    if len({call.request or index for index, call in enumerate(ends)}) > 1:
        found.append(f"{where}: ended {len(ends)} times ({', '.join(call.verb for call in ends)})")
    for call in mine:
        if any(call.start_ns > (end.end_ns or 0) for end in ends if end is not call and not call.request):
            found.append(f"{where}: {call.verb} was accepted after the claim's end")
    return found


def _nothing_after_done(claims: Sequence[Grant], uses: dict[tuple[str, int], list[Call]]) -> list[str]:
    done = [
        call
        for claim in claims
        for call in uses.get((claim.item, claim.token), [])
        if call.ended is not None and call.ended[2] == "done" and not call.request
    ]
    if len(done) > 1:
        return [f"{claims[0].item}: done {len(done)} times"]
    return [
        f"{claim.item}: token {claim.token} was given after the item was done"
        for call in done
        for claim in claims
        if claim.start_ns > (call.end_ns or 0)
    ]


def _nothing_used_without_a_claim(
    uses: dict[tuple[str, int], list[Call]], granted: dict[tuple[str, int], Grant]
) -> list[str]:
    found = []
    for (item, token), calls in uses.items():
        claim = granted.get((item, token))
        for call in calls:
            if claim is not None and call.session != claim.session:
                found.append(f"{item} token {token}: {call.verb} by {call.session}, held by {claim.session}")
            if claim is not None and (call.end_ns or 0) < claim.start_ns:
                found.append(f"{item} token {token}: {call.verb} was accepted before the claim was asked for")
    return found


def _acknowledged_is_recorded(
    granted: dict[tuple[str, int], Grant], uses: dict[tuple[str, int], list[Call]], board: Board
) -> list[str]:
    """What anybody heard is in the history, as they heard it."""
    events = read_feed(board)
    given = {(event.item, event.token): event.session for event in events if event.kind == "claimed"}
    ends = {(event.item, event.token, event.kind) for event in events}
    found = []
    for pair, claim in granted.items():
        if given.get(pair) != claim.session:
            found.append(
                f"{claim.item} token {claim.token} was acknowledged to {claim.session}; {given.get(pair)} has it"
            )
    for (item, token), calls in uses.items():
        found += [
            f"{item} token {token}: {call.verb} was acknowledged and is not in the history"
            for call in calls
            if call.ended is not None and (item, token, call.ended[2]) not in ends
        ]
    return found


def read_feed(board: Board) -> list[Event]:
    """The whole feed, read page by page with its own cursor."""
    events: list[Event] = []
    while page := board.events(after=events[-1].id if events else None, limit=PAGE):
        events.extend(page)
    return events
