"""States: every verb over every one of the ten statuses, against the transition table: legal ones lead where it says,
and nothing else happens. A verb the table knows and this walk does not is a failure: the walk has to grow with the
table.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.model import BLOCKED, CANCELLED, DONE, FAILED, IN_PROGRESS, PARKED, READY, REJECTED, SCHEDULED, STATUSES
from dibs.rules.table import RESTING, TRANSITIONS
from dibs.testing.conformance.asking import TTL_SECONDS, expire, session, whole
from dibs.testing.conformance.walking import AWAY, BACK, REACHES, TIMELY, VERBS, Subject, bring
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def attempt(subject: Subject, verb: str) -> DibsError | None:
    try:
        VERBS[verb](subject)
    except DibsError as refusal:
        return refusal
    return None


def table_verb(verb: str) -> str:
    """`reject by a person` is a way to do the table's `reject`."""
    return verb.partition(" ")[0]


def legal(verb: str, status: str) -> tuple[str, ...]:
    """Where the table lets the verb lead from there, in the way it is done here; nowhere if it is illegal."""
    if verb in AWAY and status not in AWAY[verb]:
        return ()
    return TRANSITIONS[table_verb(verb)].get(status, ())


class TestStates:
    def test_the_walk_knows_every_verb_and_status_of_the_table(self, harness: Harness) -> None:
        board = harness.board()
        assert {table_verb(verb) for verb in VERBS} == set(TRANSITIONS)
        for status in STATUSES:
            with Subject(harness, board, status) as subject:
                bring(subject, status)

    def test_every_legal_transition_leads_where_the_table_says(self, harness: Harness) -> None:
        board = harness.board()
        wrong = []
        for verb in VERBS:
            for status in STATUSES:
                if not legal(verb, status):
                    continue
                with Subject(harness, board, f"{verb}-{status}".replace(" ", "-")) as subject:
                    bring(subject, status)
                    refusal = attempt(subject, verb)
                    after = subject.board.get(subject.id).item
                    if refusal is not None or after.status not in legal(verb, status):
                        wrong.append(f"{verb} of a {status} item: {refusal or after.status}")
        assert not wrong, "\n".join(wrong)

    def test_every_illegal_transition_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        wrong, refusals = [], 0
        for verb in VERBS:
            for status in STATUSES:
                if legal(verb, status):
                    continue
                with Subject(harness, board, f"{verb}-{status}".replace(" ", "-")) as subject:
                    bring(subject, status)
                    before: dict[str, Any] = whole(subject.board, subject.id)
                    refusal = attempt(subject, verb)
                    if whole(subject.board, subject.id) != before:
                        wrong.append(f"{verb} of a {status} item changed it")
                    # Time and death ask nobody: they have nothing to refuse, and find nothing to do.
                    if refusal is None and verb not in TIMELY:
                        wrong.append(f"{verb} of a {status} item was not refused")
                    refusals += refusal is not None
        assert not wrong, "\n".join(wrong)
        assert refusals >= 100, "the walk met too few refusals to have shown anything"

    def test_whatever_lets_go_of_an_item_leads_to_where_it_rests(self, harness: Harness) -> None:
        """Release, expiry, a death, a forced release, a failure with retries: not blindly to ready."""
        board = harness.board()
        wrong = []
        for verb in BACK:
            for wanted in RESTING:
                with Subject(harness, board, f"{verb}-to-{wanted}", retries=3) as subject:
                    subject.claim()
                    if not REACHES[wanted](subject):
                        continue
                    VERBS[verb](subject)
                    after = subject.board.get(subject.id).item.status
                    if after != (SCHEDULED if (verb, wanted) == ("fail", READY) else wanted):
                        wrong.append(f"{verb}: {after}, it rests {wanted}")
        assert not wrong, "\n".join(wrong)

    def test_what_is_over_elsewhere_is_cancelled_by_whatever_lets_go_of_it(self, harness: Harness) -> None:
        """Also when it is parked, forgotten, or released because its session ends; and nobody is offered it."""
        board = harness.board()
        over = {"external": {"state": "closed", "over": "closed on GitHub"}}
        ways = {verb: VERBS[verb] for verb in (*BACK, "release and park")} | {
            "forget": lambda it: it.board.heartbeat(session=it.holder, holding={}),
            "end_session": lambda it: it.board.end_session(it.holder),
        }
        for verb, let_go in ways.items():
            with Subject(harness, board, verb.replace(" ", "-"), retries=3) as subject:
                subject.claim()
                board.wait(subject.id, session=session(board, "waiter"))
                assert board.edit(subject.id, payload=over).status == IN_PROGRESS
                if verb == "expire":
                    expire(harness)
                    assert board.get(subject.id).item.status == CANCELLED, "also to those who only read"
                let_go(subject)
                after, event = board.get(subject.id), board.log(subject.id)[-1]
                assert (after.item.status, after.waiters, after.claim) == (CANCELLED, (), None), verb
                assert (event.status, event.data["over"]) == (CANCELLED, "closed on GitHub"), verb
                assert after.runs[0].outcome == event.kind != "cancelled", "the run ended as runs do"
        assert_sound(board)

    def test_the_holder_of_what_is_over_elsewhere_ends_it_with_a_result(self, harness: Harness) -> None:
        board = harness.board()
        ends = {"done": "done", "submit": "pending_approval", "fail": FAILED, "hand": IN_PROGRESS}
        for verb, status in ends.items():
            with Subject(harness, board, verb, payload={"external": {"over": "closed"}}) as subject:
                subject.claim()
                VERBS[verb](subject)
                assert board.get(subject.id).item.status == status
        for number, external in enumerate(({"over": ""}, {"over": 1}, ["over"])):
            with Subject(harness, board, f"not-{number}", payload={"external": external}) as subject:
                subject.claim()
                VERBS["release"](subject)
                assert board.get(subject.id).item.status == READY
        assert_sound(board)

    def test_what_is_set_aside_or_failed_comes_back_to_where_it_rests(self, harness: Harness) -> None:
        board = harness.board()
        ended = (("reopen", status) for status in (DONE, CANCELLED, REJECTED))
        for verb, status in (("unpark", PARKED), ("retry", FAILED), *ended):
            for wanted in (BLOCKED, READY):
                with Subject(harness, board, f"{verb}-{status}-to-{wanted}") as subject:
                    bring(subject, status)
                    REACHES[wanted](subject)
                    VERBS[verb](subject)
                    assert subject.board.get(subject.id).item.status == wanted, verb

    def test_an_item_can_be_edited_in_every_status_and_stays_in_it(self, harness: Harness) -> None:
        board = harness.board()
        for status in STATUSES:
            with Subject(harness, board, f"edited-{status}") as subject:
                bring(subject, status)
                before = subject.board.get(subject.id)
                assert subject.board.edit(subject.id, title="edited").status == status
                after = subject.board.get(subject.id)
                assert (after.item.title, after.claim, after.runs) == ("edited", before.claim, before.runs)

    def test_an_edit_moves_what_nobody_holds_to_where_it_rests_then(self, harness: Harness) -> None:
        board = harness.board()
        for wanted in (BLOCKED, SCHEDULED, READY):
            for status in (BLOCKED, SCHEDULED, READY):
                with Subject(harness, board, f"{status}-to-{wanted}") as subject:
                    bring(subject, status)
                    subject.board.edit(subject.id, depends_on=[], not_before=None)
                    assert REACHES[wanted](subject)
                    assert subject.board.get(subject.id).item.status == wanted

    def test_an_item_that_came_back_can_be_edited(self, harness: Harness) -> None:
        board = harness.board()
        for verb in ("release", "force_release", "expire", "owner_died"):
            with Subject(harness, board, f"back-by-{verb}") as subject:
                subject.claim()
                VERBS[verb](subject)
                runs = subject.board.get(subject.id).runs
                assert subject.board.edit(subject.id, priority=9).status == READY
                assert subject.board.get(subject.id).runs == runs
                assert subject.board.claim(subject.id, session=session(subject.board)).claim.token == 2

    def test_the_last_strike_leads_to_failed(self, harness: Harness) -> None:
        board = harness.board()
        for verb in ("expire", "owner_died"):
            with Subject(harness, board, f"struck-by-{verb}") as subject:
                for _ in range(subject.board.settings.max_strikes - 1):
                    subject.board.claim(subject.id, session=session(subject.board), ttl_seconds=TTL_SECONDS)
                    expire(harness)
                    subject.board.sweep()
                    assert subject.board.get(subject.id).item.status == READY
                subject.claim()
                VERBS[verb](subject)
                after = subject.board.get(subject.id)
                assert after.item.status == FAILED, verb
                assert after.runs[0].outcome in ("expired", "owner_died")
                assert after.runs[0].reason, "the run does not say why the item failed"

    def test_every_way_into_ready_tells_that_it_can_be_claimed(self, harness: Harness) -> None:
        board = harness.board()
        ways = {"release", "expire", "owner_died", "force_release", "unpark", "retry", "approve", "send_back", "settle"}
        ways.add("reopen")
        for verb in sorted(ways):
            status = next(iter(TRANSITIONS[verb]))
            with Subject(harness, board, f"freed-by-{verb}") as subject:
                bring(subject, status)
                assert status == IN_PROGRESS or subject.board.get(subject.id).item.status == status
                VERBS[verb](subject)
                last = subject.board.log(subject.id)[-2:]
                assert (last[1].kind, last[1].status, last[1].at) == ("claimable", READY, last[0].at), verb
