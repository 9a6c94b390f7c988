"""The exhaustive search finds no violation in the rules, and one for each mistake seeded into them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from dibs.model import FAILED, Claim
from dibs.rules import claiming, ending, fencing, handing, overdue, queueing, table
from dibs.rules.decision import State, Step
from tests.kit import search
from tests.kit.search import Search, Violation

STATES_MAX = 2_000_000
#: What the search has to have come across, or it has looked at nothing.
RARE = (
    "claim",
    "claim TASK_ALREADY_CLAIMED",
    "claim TASK_NOT_CLAIMABLE",
    "claim AGENT_AT_CAPACITY",
    "done",
    "done CLAIM_EXPIRED",
    "done NOT_CLAIM_OWNER",
    "done TASK_NOT_CLAIMED",
    "recover",
    "recover CLAIM_EXPIRED",
    "hand",
    "hand AGENT_AT_CAPACITY",
    "hand CLAIM_EXPIRED",
    "hand INVALID",
    "hand NOT_CLAIM_OWNER",
    "owner_died",
    "force_release",
    "retry",
    "reopen",
    "wait",
    "wait TASK_NOT_CLAIMABLE",
    "leave",
    "park",
    "unpark",
    "submit",
    "approve",
    "send_back",
    "turn_down",
    "reject",
    "progress",
)


def test_no_interleaving_of_two_sessions_and_two_items_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("DIBS_SOAK"):
        monkeypatch.setattr(search, "CLAIMS_MAX", 3)
    looked = Search(states_max=STATES_MAX)
    looked.run()
    print(f"{looked.seen} states, {sum(looked.taken.values())} actions")
    assert looked.seen > 10_000
    missing = [what for what in RARE if not looked.taken.get(what)]
    assert not missing, f"never came across {missing}; saw {sorted(looked.taken)}"


def reuses_the_token(now: int, state: State, *rest: Any) -> Step:
    return claiming_grant(now, state.replace(item=state.item.replace(token=max(0, state.item.token - 1))), *rest)


def ignores_tokens(now: int, state: State, *, session: str, token: int | None, asked: Any) -> Claim:
    return holding_fence(now, state, session=session, token=None, asked=asked)


def ignores_sessions(now: int, state: State, *, session: str, token: int | None, asked: Any) -> Claim:
    if state.claim is not None and state.claim.expires_at > now:
        return state.claim
    return holding_fence(now, state, session=session, token=token, asked=asked)


def ignores_expiry(now: int, state: State, *, session: str, token: int | None, asked: Any) -> Claim:
    return holding_fence(0, state, session=session, token=token, asked=asked)


def keeps_the_claim(end: Callable[..., Step]) -> Callable[..., Step]:
    return lambda now, state, *rest, **named: end(now, state, *rest, **named).replace(claim=state.claim)


def forgets_the_run(end: Callable[..., Step]) -> Callable[..., Step]:
    return lambda now, state, *rest, **named: end(now, state, *rest, **named).replace(run=None)


def leaves_it_in_progress(end: Callable[..., Step]) -> Callable[..., Step]:
    def ended(now: int, state: State, *rest: Any, **named: Any) -> Step:
        step = end(now, state, *rest, **named)
        return step.replace(item=step.item.replace(status="in_progress"))

    return ended


def expires_early(now: int, state: State, settings: Any) -> Step | None:
    if state.claim is not None:
        return ending.expire(now, state, settings)
    return overdue_next_due(now, state, settings)


def gives_what_is_held(now: int, state: State, *rest: Any) -> Any:
    free = state.replace(claim=None, item=state.item.replace(status="ready"))
    return claiming_reasons(now, free if state.claim is not None else state, *rest)


def ignores_a_takeover(now: int, state: State, claimant: Any, unless_after: Any = None) -> Any:
    return claiming_reasons(now, state, claimant)


def ignores_offers(now: int, state: State, *rest: Any) -> Any:
    return claiming_reasons(now, state.replace(item=state.item.replace(offered_to=None)), *rest)


def offers_to_the_queue(now: int, state: State, *rest: Any, **named: Any) -> Step:
    step = handing_hand(now, state, *rest, **named)
    return step.replace(closed=state.tickets[:1])


def keeps_the_queue(now: int, state: State, move: Step, settings: Any) -> tuple[Step, ...]:
    if move.item.status in ("cancelled", FAILED, "done"):
        return (move,)
    return queueing_follow(now, state, move, settings)


claiming_grant, claiming_reasons = claiming.grant, claiming.reasons
holding_fence, handing_hand = fencing.fence, handing.hand
overdue_next_due, queueing_follow = overdue._next_due, queueing.follow

MISTAKES: dict[str, tuple[Any, str, Any, str]] = {
    "a held item is given again": (claiming, "reasons", gives_what_is_held, "S1|S4|S6"),
    "a late holder takes it back": (claiming, "reasons", ignores_a_takeover, "S5"),
    "an offer is ignored": (claiming, "reasons", ignores_offers, "L3"),
    "a token is given twice": (claiming, "grant", reuses_the_token, "S2|S8"),
    "any token will do": (fencing, "fence", ignores_tokens, "S3"),
    "any session will do": (fencing, "fence", ignores_sessions, "S3"),
    "a zombie may finish": (fencing, "fence", ignores_expiry, "S3"),
    "a heartbeat revives": (fencing, "live", lambda claim, now: True, "S5"),
    "a live claim is swept": (overdue, "_next_due", expires_early, "S5"),
    "a release keeps the claim": (ending, "release", keeps_the_claim(ending.release), "S6"),
    "an expiry keeps the claim": (ending, "expire", keeps_the_claim(ending.expire), "S6"),
    "a hand-over keeps the claim": (ending, "hand", keeps_the_claim(ending.hand), "S6"),
    "a handed run is not ended": (ending, "hand", forgets_the_run(ending.hand), "S4|S6"),
    "a hand-over serves the queue": (handing, "hand", offers_to_the_queue, "L3|S1"),
    "a death keeps the claim": (ending, "owner_died", keeps_the_claim(ending.owner_died), "S6"),
    "a forced release keeps the claim": (ending, "force_release", keeps_the_claim(ending.force_release), "S6"),
    "a cancellation keeps the claim": (ending, "cancel", keeps_the_claim(ending.cancel), "S6"),
    "done is still in progress": (ending, "done", leaves_it_in_progress(ending.done), "S6"),
    "a failed run is not ended": (ending, "fail", forgets_the_run(ending.fail), "S4|S6"),
    "an expired run is not ended": (ending, "expire", forgets_the_run(ending.expire), "S4|S6"),
    "an ended item keeps its queue": (queueing, "follow", keeps_the_queue, "L3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_seeded_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong, invariant = MISTAKES[mistake]
    monkeypatch.setattr(module, name, wrong)
    if wrong is gives_what_is_held:
        # The table would stand in the way of this one; it has to be wrong, too.
        monkeypatch.setitem(table.TRANSITIONS, "claim", {"ready": ("in_progress",), "in_progress": ("in_progress",)})
    with pytest.raises(Violation, match=f"^({invariant})") as found:
        Search(states_max=STATES_MAX).run()
    assert " after " in str(found.value), "the way to it is told"
