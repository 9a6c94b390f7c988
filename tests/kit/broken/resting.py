"""Mistakes in where items rest and how boards are kept: dependencies, schedules, parking, pruning, backups."""

from __future__ import annotations

import json
import random
import time

from dibs.errors import Invalid, ItemNotClaimable
from dibs.model import Agent
from dibs.text import json_text, wire
from tests.kit.broken.mistake import Mistake, after, answers, asks, before, caught, caught_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.model import Edited, Ended, Grant, Item, Prune, Sweep

MILLION = 1_000_000


class Moves(Mistake):
    """Puts items where it thinks they belong."""

    def put(self, item: str, status: str) -> None:
        self.raw("UPDATE items SET status = :status WHERE id = :item", status=status, item=item)

    def dependents(self, item: str) -> list[Item]:
        return [one for one in self.inner.list(limit=10_000) if item in one.depends_on]


@caught_by("dependencies", "test_any_other_end_keeps_it_blocked_and_is_named_as_not_moving")
class FailedSatisfies(Moves):
    def fail(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.fail(item, **asked)
        for one in self.dependents(item):
            self.put(one.id, "ready")
        return ended


@caught_by("dependencies", "test_an_item_is_blocked_until_all_it_depends_on_is_done")
class OneOfAllIsEnough(Moves):
    def done(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.done(item, **asked)
        for one in self.dependents(item):
            self.put(one.id, "ready")
        return ended


@caught_by("dependencies", "test_approving_as_done_satisfies")
class ApprovalFreesNobody(Moves):
    def approve(self, item: str, **asked: Any) -> Item:
        approved = self.inner.approve(item, **asked)
        for one in self.dependents(item):
            self.put(one.id, "blocked")
        return approved


@caught_by("dependencies", "test_two_parents_that_finish_at_once_free_the_child")
class CountsThenFrees(Moves):
    """Looks at the other parents before it takes its turn: each of two sees the other at work."""

    def done(self, item: str, **asked: Any) -> Ended:
        waiting = [one for one in self.dependents(item) if len(self.inner.get(one.id).blockers) > 1]
        time.sleep(0.002)
        ended = self.inner.done(item, **asked)
        for one in waiting:
            self.put(one.id, "blocked")
        return ended


@caught_by("dependencies", "test_a_child_added_while_its_parent_finishes_is_free")
class LooksThenAdds(Moves):
    """Decides that a new item is blocked before it takes its turn."""

    def add(self, items: Any, **asked: Any) -> tuple[Item, ...]:
        blocked = [
            item.id for item in items if any(self.inner.get(parent).item.status != "done" for parent in item.depends_on)
        ]
        time.sleep(0.002)
        added = self.inner.add(items, **asked)
        for item in blocked:
            self.put(item, "blocked")
        return added


@caught_by("dependencies", "test_a_circle_is_refused_and_nothing_changes")
class AllowsCircles(Mistake):
    def edit(self, item: str, changes: Any, **asked: Any) -> Item:
        try:
            return self.inner.edit(item, changes, **asked)
        except Invalid:
            return self.inner.get(item).item


@caught_by("dependencies", "test_an_unknown_dependency_is_refused_and_nothing_is_added")
class DropsTheUnknown(Mistake):
    def add(self, items: Any, **asked: Any) -> tuple[Item, ...]:
        known = {item.id for item in (*self.inner.list(limit=10_000), *items)}
        fit = [item.replace(depends_on=tuple(one for one in item.depends_on if one in known)) for item in items]
        return self.inner.add(fit, **asked)


@caught_by("schedules", "test_a_sweep_moves_on_what_is_due")
class NeverPromotes(Mistake):
    def sweep(self, **asked: Any) -> Sweep:
        swept = self.inner.sweep(**asked)
        for item in swept.due:
            self.raw("UPDATE items SET status = 'scheduled' WHERE id = :item", item=item)
        return swept


@caught_by("schedules", "test_next_moves_on_what_is_due_before_it_chooses")
class NextForgetsSchedules(Mistake):
    """Needs a sweep before it sees what has fallen due."""

    def next(self, **asked: Any) -> tuple[Grant, ...]:
        self.raw("UPDATE items SET not_before = not_before + 1000000000 WHERE status = 'scheduled'")
        grants = self.inner.next(**asked)
        self.raw("UPDATE items SET not_before = not_before - 1000000000 WHERE status = 'scheduled'")
        return grants


@caught_by("schedules", "test_an_item_waits_for_its_time")
class HandsOutEarly(Moves):
    def claim(self, item: str, **asked: Any) -> Grant:
        self.raw("UPDATE items SET not_before = NULL, status = 'ready' WHERE id = :item", item=item)
        return self.inner.claim(item, **asked)


class BacksOff(Mistake):
    """Knows better how long a failed item is kept back."""

    def delay_seconds(self, failures: int) -> float:
        raise NotImplementedError

    def fail(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.fail(item, **asked)
        if ended.item.status == "failed":
            return ended
        at = ended.item.updated_at + round(self.delay_seconds(ended.item.failures) * 1000)
        self.raw("UPDATE items SET not_before = :at WHERE id = :item", at=at, item=item)
        return ended.replace(item=ended.item.replace(not_before=at))


@caught_by("schedules", "test_the_backoff_doubles_is_capped_and_spreads")
class IgnoresTheBackoff(BacksOff):
    def delay_seconds(self, failures: int) -> float:
        return 0


@caught_by("schedules", "test_the_backoff_doubles_is_capped_and_spreads")
class BacksOffInStep(BacksOff):
    """No jitter: a crowd that failed together comes back together."""

    def delay_seconds(self, failures: int) -> float:
        return min(30.0 * 2.0 ** (failures - 1), 3600.0)


@caught_by("schedules", "test_the_backoff_doubles_is_capped_and_spreads")
class BacksOffWithoutCap(BacksOff):
    def delay_seconds(self, failures: int) -> float:
        return random.random() * 30.0 * 2.0 ** (failures - 1)


@caught_by("schedules", "test_the_backoff_doubles_is_capped_and_spreads")
class BacksOffWithoutGrowth(BacksOff):
    def delay_seconds(self, failures: int) -> float:
        return random.random() * 30.0


@caught_by("schedules", "test_retry_forgives_and_asks_for_no_patience")
class RetryForgivesNothing(Mistake):
    def retry(self, item: str, **asked: Any) -> Item:
        before = self.inner.get(item).item
        after = self.inner.retry(item, **asked)
        self.raw("UPDATE items SET failures = :failures WHERE id = :item", failures=before.failures, item=item)
        return after.replace(failures=before.failures)


@caught_by("schedules", "test_when_time_will_change_something_is_known")
class KnowsOnlyExpiries(Mistake):
    def due_seconds(self, item: str | None = None) -> float | None:
        left = [line.remaining_seconds for line in self.inner.who() if item in (None, line.item.id)]
        return min(left, default=None)


@caught_by("parking", "test_a_parked_item_can_be_claimed_by_id")
class ParkedIsOutOfReach(Mistake):
    def claim(self, item: str, **asked: Any) -> Grant:
        if self.inner.get(item).item.status == "parked":
            raise ItemNotClaimable(f"{item} is parked", item=item, status="parked", why="it is parked")
        return self.inner.claim(item, **asked)


@caught_by("parking", "test_whatever_rests_can_be_parked_and_comes_back_to_the_same_rest")
class UnparksToReady(Moves):
    def unpark(self, item: str, **asked: Any) -> Item:
        self.inner.unpark(item, **asked)
        self.put(item, "ready")
        return self.inner.get(item).item


class Floors(Mistake):
    floor = ""

    def prune(self, **asked: Any) -> Prune:
        pruned = self.inner.prune(**asked)
        self.raw("UPDATE meta SET value = 0 WHERE name = :name", name=self.floor)
        return pruned


@caught_by("pruning", "test_a_new_item_of_a_pruned_id_goes_on_above_the_floor")
class PruneForgetsTheTokenFloor(Floors):
    floor = "token_floor"


@caught_by("pruning", "test_a_cursor_from_before_what_was_pruned_is_refused")
class PruneForgetsTheEventFloor(Floors):
    floor = "event_floor"


class Forgets(Mistake):
    """An export without one kind of record."""

    kind = ""

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        taken = list(records)
        self.inner.load([record for record in taken if record[0] != self.kind])
        return len(taken)


@caught_by("exporting", "test_records_that_name_what_is_not_there_are_refused")
class LoadsSessionsOfNobody(Mistake):
    """Takes a session whose agent it was not given."""

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        taken = list(records)
        if any(kind == "agent" for kind, _ in taken):
            return self.inner.load(taken)
        names = {data["agent"] for kind, data in taken if kind == "session"}
        made = [("agent", wire.encode(Agent(name=name, created_at=1, updated_at=1))) for name in names]
        count = self.inner.load([*taken[:1], *made, *taken[1:]])
        self.raw("DELETE FROM agents")
        return count


@caught_by("exporting", "test_a_record_that_no_verb_could_have_written_is_refused")
class LoadsAnyId(Mistake):
    """Writes down what it is given as an item's id."""

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        taken, strange = [], ""
        for kind, data in records:
            if kind == "item" and str(data["id"]).startswith((".", "-")):
                strange, data = data["id"], {**data, "id": "harmless"}
            taken.append((kind, data))
        count = self.inner.load(taken)
        if strange:
            self.raw("UPDATE items SET id = :id WHERE id = 'harmless'", id=strange)
        return count


@caught_by("exporting", "test_a_board_comes_back_record_for_record")
class LoadForgetsTickets(Forgets):
    kind = "ticket"


@caught_by("exporting", "test_a_board_comes_back_record_for_record")
class LoadForgetsRequests(Forgets):
    kind = "request"


@caught_by("exporting", "test_a_board_comes_back_record_for_record")
class LoadForgetsRates(Forgets):
    kind = "bucket"


@caught_by("exporting", "test_a_record_that_was_changed_on_its_way_is_loaded_as_changed")
class LoadsTheTextOfAChangedRecord(Mistake):
    """Takes an object of a record as it was when it was exported."""

    def load(self, records: Any) -> int:
        taken = [(kind, {name: _as_exported(held) for name, held in data.items()}) for kind, data in records]
        return self.inner.load(taken)


def _as_exported(held: Any) -> Any:
    return json_text.loads(held.text) if type(held) is json_text.Encoded else held


@caught_by("exporting", "test_an_export_is_of_one_instant")
class ExportsAsItGoes(Mistake):
    """Each record of another instant."""

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for kind in dict.fromkeys(kind for kind, _ in list(self.inner.export())):
            yield from [record for record in self.inner.export() if record[0] == kind]


@caught_by("exporting", "test_a_board_with_something_on_it_is_not_loaded_into")
class LoadsOverWhatIsThere(Mistake):
    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        try:
            return self.inner.load(records)
        except Invalid:
            return 0


@caught_by("exporting", "test_a_broken_record_is_refused_and_nothing_is_kept")
class KeepsHalfAnImport(Mistake):
    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        taken = list(records)
        try:
            return self.inner.load(taken)
        except Invalid:
            self.inner.load(taken[:5])
            raise


@caught_by("restoring", "test_no_token_of_before_is_worth_anything")
class RestoreKeepsTokens(Mistake):
    def restore(self, path: str, **asked: Any) -> int:
        moved = self.inner.restore(path, **asked)
        self.raw("UPDATE items SET token = token - :far WHERE token > :far", far=MILLION)
        self.raw("UPDATE meta SET value = 0 WHERE name = 'token_floor'")
        return moved


@caught_by("restoring", "test_event_ids_move_on_past_everything_ever_given")
class RestoreNumbersEventsAgain(Mistake):
    def restore(self, path: str, **asked: Any) -> int:
        moved = self.inner.restore(path, **asked)
        sql = """UPDATE events SET id = id - (SELECT min(id) FROM events WHERE id > :far) + 1
                                         + (SELECT max(id) FROM events WHERE id <= :far) WHERE id > :far"""
        self.raw(sql, far=MILLION)
        self.raw("UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM events) WHERE name = 'events'")
        return moved


@caught_by("restoring", "test_requests_are_forgotten")
class RestoreKeepsRequests(Mistake):
    def restore(self, path: str, **asked: Any) -> int:
        kept = [data for kind, data in self.inner.export() if kind == "request"]
        moved = self.inner.restore(path, **asked)
        for data in kept:
            answer = data["answer"] if isinstance(data["answer"], str) else json.dumps(data["answer"])
            sql = "INSERT INTO requests (actor, id, fingerprint, answer, at) VALUES (:actor, :id, :hash, :answer, :at)"
            self.raw(sql, actor=data["actor"], id=data["id"], hash=data["fingerprint"], answer=answer, at=data["at"])
        return moved


@caught_by("states", "test_what_is_over_elsewhere_is_cancelled_by_whatever_lets_go_of_it")
class BringsBackWhatIsOver(Moves):
    """Lets a forced release return every item to the board."""

    def force_release(self, item: str, **asked: Any) -> Ended:
        ended = self.inner.force_release(item, **asked)
        self.put(item, "ready")
        return ended


@caught_by("items", "test_who_may_not_relabel_changes_no_type_and_no_action")
class LetsAgentsCancel(Mistake):
    """Asks for no right to say that an item is over."""

    def edit(self, item: str, changes: Any, *, relabel: bool = True, **asked: Any) -> Edited:
        return self.inner.edit(item, changes, relabel=relabel or "payload" in changes, **asked)


caught(
    "dependencies",
    "test_next_does_not_hand_out_what_is_blocked",
    hands_out_the_blocked=before("next", "UPDATE items SET status = 'ready' WHERE status = 'blocked'"),
)
caught(
    "schedules",
    "test_a_failed_run_is_tried_again_later_while_retries_remain",
    retries_for_ever=before("fail", "UPDATE items SET retries = retries + 1 WHERE id = :item"),
)
caught(
    "parking",
    "test_next_does_not_hand_out_what_is_parked",
    hands_out_the_parked=before("next", "UPDATE items SET status = 'ready' WHERE status = 'parked'"),
)
caught("parking", "test_a_holder_can_let_go_and_park", release_forgets_to_park=asks("release", park=False))
caught(
    "pruning", "test_only_what_ended_long_enough_ago_is_forgotten", prunes_the_young=asks("prune", older_than_seconds=0)
)
caught(
    "pruning",
    "test_what_somebody_waits_for_in_vain_is_kept",
    prunes_what_is_waited_for=before("prune", "DELETE FROM dependencies"),
)
caught("pruning", "test_pruning_is_bounded_batch_by_batch", prunes_without_bound=asks("prune", limit=10**6))
caught(
    "exporting",
    "test_a_board_comes_back_record_for_record",
    export_drops_soft_claims=answers(
        "export", lambda records: iter([record for record in records if record[0] != "soft_claim"])
    ),
)
caught(
    "exporting",
    "test_the_histories_of_items_are_those_of_the_export",
    histories_drop_runs_that_ended=answers(
        "histories",
        lambda records: iter([(kind, one) for kind, one in records if kind != "run" or one.outcome is None]),
    ),
)
caught(
    "restoring",
    "test_queues_and_offers_are_over",
    restore_keeps_tickets=after("restore", "UPDATE tickets SET closed_at = NULL, reason = NULL"),
)
