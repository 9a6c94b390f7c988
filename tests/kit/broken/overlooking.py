"""Mistakes in what reads make of time and death: each forgets one rule, in every read alike."""

from __future__ import annotations

import copy

from tests.kit.broken.mistake import MistakenTransactions, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from dibs.rules.decision import State
    from dibs.store.contract import Store
    from dibs.store.sql.transaction import Transaction

#: So late that nothing becomes due by it.
NEVER = 2**62
GROUP = "reads_against_time"


class ForgetfulReads(MistakenTransactions):
    """Reads see every state without what one rule would go by; writes are sound."""

    kinds = ("read",)

    def forget(self, state: State) -> State:
        raise NotImplementedError

    def mistake(self, t: Transaction) -> None:
        states = t.states

        def forgotten(items: Iterable[str]) -> dict[str, State]:
            return {id: self.forget(state) for id, state in states(items).items()}

        vars(t)["states"] = forgotten


@caught_by(GROUP, "test_an_expired_claim_is_over_in_every_read")
class ReadsForgetExpiry(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.claim is None else state.replace(claim=state.claim.replace(expires_at=NEVER))


@caught_by(GROUP, "test_the_last_strike_has_failed_the_item")
class ReadsForgetTheLastStrike(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state.replace(item=state.item.replace(strikes=-100))


@caught_by(GROUP, "test_a_schedule_that_has_come_is_ready")
class ReadsForgetSchedules(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state if state.item.not_before is None else state.replace(item=state.item.replace(not_before=NEVER))


@caught_by(GROUP, "test_a_lapsed_offer_is_the_next_ones")
class ReadsForgetThatOffersLapse(ForgetfulReads):
    def forget(self, state: State) -> State:
        offered = state.item.offer_expires_at is not None
        return state.replace(item=state.item.replace(offer_expires_at=NEVER)) if offered else state


@caught_by(GROUP, "test_what_expired_is_offered_to_the_first_in_line")
class ReadsForgetWhoWaits(ForgetfulReads):
    def forget(self, state: State) -> State:
        return state.replace(tickets=())


@caught_by(GROUP, "test_what_a_dead_process_held_is_free_in_every_read")
class ReadsForgetTheDead(MistakenTransactions):
    """Verbs that write find them."""

    kinds = ("read",)

    def __init__(self, inner: Store, raw: Callable[[str, dict[str, Any]], None]) -> None:
        sound = copy.copy(inner)
        vars(inner).update(reap_dead_owners=sound.reap_dead_owners, sweep=sound.sweep)
        super().__init__(inner, raw)

    def mistake(self, t: Transaction) -> None:
        vars(t)["dead_owners"] = lambda among=None: []
