"""Added resources: the holder of an item adds what it turns out to touch, if no other session holds that."""

from __future__ import annotations

import random

from dibs.errors import Invalid, NotClaimOwner, ResourceBusy
from dibs.testing import sizes
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, refused, session, whole
from dibs.testing.conformance.resources import TOUCHING
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

ADDERS = 4
ROUNDS, ROUNDS_SOAK = 15, 300


class TestAddedResources:
    def test_a_holder_adds_what_is_free_and_its_claim_holds_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["docs"])
        added(board, "y", resources=["src/api/login.py"])
        ann, bob = session(board, "ann"), session(board, "bob")
        token = board.claim("x", session=ann).claim.token
        edited = board.edit("x", add_resources=["./src/api/", "port:80"], session=ann, token=token)
        assert (edited.resources, edited.before) == (("docs", "src/api", "port:80"), {"resources": ["docs"]})
        assert board.get("x").item.resources == edited.resources
        facts = refused(ResourceBusy, board.claim, "y", session=bob).facts
        assert (facts["resource"], facts["held_for"], facts["holder"]["session"]) == ("src/api", "x", ann)
        assert board.next(session=bob) == ()
        event = board.log("x")[-1]
        assert (event.kind, event.status, event.token, event.actor) == ("edited", "in_progress", token, "ann")
        assert (event.session, event.agent, event.data) == (ann, "ann", {"resources": ["docs", "src/api", "port:80"]})
        assert_sound(board)

    def test_a_holder_is_refused_what_another_holds_as_a_claim_would_be(self, harness: Harness) -> None:
        board = harness.board()
        wrong = []
        for number, (one, other, touch) in enumerate(TOUCHING):
            project = f"case-{number}"
            theirs, mine = f"{project}-theirs", f"{project}-mine"
            added(board, theirs, resources=[one], project=project)
            added(board, mine, project=project)
            ann, bob = session(board, "ann"), session(board, "bob")
            board.claim(theirs, session=ann)
            board.claim(mine, session=bob)
            if not touch:
                board.edit(mine, add_resources=[other], session=bob)
                continue
            before = whole(board, mine)
            try:
                board.edit(mine, title="otherwise", add_resources=["free", other], session=bob)
            except ResourceBusy as refusal:
                facts = refusal.facts
                assert (facts["item"], facts["held_for"]) == (mine, theirs)
                assert facts["holder"] == {"session": ann, "agent": "ann"}
                assert whole(board, mine) == before
                continue
            wrong.append(f"{one} held, {other} added")
        assert not wrong, "\n".join(wrong)

    def test_what_is_free_again_can_be_added(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src"])
        added(board, "y", "z")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        board.claim("y", session=bob)
        refused(ResourceBusy, board.edit, "y", add_resources=["src"], session=bob)
        expire(harness)
        assert board.edit("y", add_resources=["src"], session=bob).resources == ("src",)
        board.claim("z", session=bob)
        assert board.edit("z", add_resources=["src/api"], session=bob).resources == ("src/api",), "its own hold"

    def test_what_the_item_covers_is_not_added_again(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src"])
        me = session(board)
        board.claim("x", session=me)
        before = whole(board, "x")
        edited = board.edit("x", add_resources=["src", "src/api"], session=me)
        assert (edited.resources, edited.before) == (("src",), {})
        assert whole(board, "x") == before
        first = board.edit("x", add_resources=["docs"], session=me, request_id="r")
        number = board.get("x").item.revision
        assert harness.board().edit("x", add_resources=["docs"], session=me, request_id="r") == first
        assert board.get("x").item.revision == number

    def test_only_the_holder_adds_to_a_claimed_item_and_nobody_takes_away(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", resources=["src"])
        ann, bob = session(board, "ann"), session(board, "bob")
        assert board.edit("x", add_resources=["port:80"]).resources == ("src", "port:80")
        board.claim("x", session=ann)
        before = whole(board, "x")
        assert refused(Invalid, board.edit, "x", add_resources=["docs"]).facts["holder"]["session"] == ann
        refused(NotClaimOwner, board.edit, "x", add_resources=["docs"], session=bob)
        for resources in (["src"], ["docs"], []):
            assert refused(Invalid, board.edit, "x", resources=resources, session=ann).facts["field"] == "resources"
        refused(Invalid, board.edit, "x", project="other", add_resources=["docs"], session=ann)
        refused(Invalid, board.edit, "x", resources=["src"], add_resources=["docs"], session=ann)
        refused(Invalid, board.edit, "x", add_resources=["../out"], session=ann)
        refused(Invalid, board.edit, "x", add_resources=["docs"], token=1)
        refused(Invalid, board.edit, "x", add_resources=[f"f{number}" for number in range(63)], session=ann)
        assert whole(board, "x") == before

    def test_what_was_approved_stays_as_it_was_approved(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", needs_approval=True)
        board.approve("x")
        me = session(board)
        board.claim("x", session=me)
        before = whole(board, "x")
        assert refused(Invalid, board.edit, "x", add_resources=["src"], session=me).facts["field"] == "resources"
        assert whole(board, "x") == before

    def test_added_resources_stay_with_the_item_when_its_claim_ends(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "other")
        board.edit("other", resources=["src/api"])
        ann, bob = session(board, "ann"), session(board, "bob")
        for end in ("release", "expiry", "force_release"):
            board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
            board.edit("x", add_resources=["src", end], session=ann)
            if end == "release":
                board.release("x", session=ann)
            elif end == "expiry":
                expire(harness)
            else:
                board.force_release("x", reason="needed")
            board.claim("other", session=bob)
            refused(ResourceBusy, board.claim, "x", session=ann)
            board.release("other", session=bob)
        assert board.get("x").item.resources == ("src", "release", "expiry", "force_release")
        board.claim("x", session=bob)
        refused(ResourceBusy, board.claim, "other", session=ann)
        board.done("x", session=bob)
        assert board.claim("other", session=ann)


class TestAddingTogether:
    """Real processes."""

    def test_of_those_who_add_or_claim_the_same_one_gets_it(self, harness: Harness) -> None:
        board, seed = harness.board(), sizes.seed()
        draw = random.Random(seed)
        actors, gate = harness.actors(ADDERS), harness.gate()
        sessions = [session(board, f"agent-{number}") for number in range(ADDERS)]
        claimed = 0
        for number in range(sizes.rounds(ROUNDS, ROUNDS_SOAK)):
            project = f"round-{number}"
            items = [f"{project}-{n}" for n in range(ADDERS)]
            added(board, items[0], project=project, resources=["src"])
            added(board, *items[1:], project=project)
            actors[0].send("claim", items[0], session=sessions[0], at=gate)
            for actor, me, item in list(zip(actors, sessions, items, strict=True))[1:]:
                board.claim(item, session=me)
                more = draw.choice((".", "src", "src/api"))
                actor.send("edit", item, add_resources=["own", more], session=me, at=gate)
            gate.open()
            codes = [actor.answer().code for actor in actors]
            gate.close()
            context = f"seed {seed}, round {number}: {codes}"
            assert sorted(codes, key=str) == [None, *["RESOURCE_BUSY"] * (ADDERS - 1)], context
            held = [item.id for item in board.list(projects=[project], statuses=["in_progress"]) if item.resources]
            assert held == [items[codes.index(None)]], context
            claimed += codes[0] is None
        print(f"{ADDERS} who add or claim the same, {number + 1} rounds: {claimed} times the claim won, seed {seed}")
        assert_sound(board, f"seed {seed}:")
