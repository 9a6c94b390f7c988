"""The story-011 contract over HTTP: claimed or not, and what was wrong with the call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dibs.server.compat.story_011 import WorkItemClaimed, WorkItemError
from tests.server.calling import Caller, Reply, Served

PATH = "/functions/v1/agent-claim"
ITEM = "3f2b8f0e-6a53-4c0d-9a55-0f6c1d1a7f10"
INSTANCE = "coder-instance-1"
CLAIMERS = 10


@pytest.fixture
def coder(server: Served) -> Caller:
    server.board.add("Fix login", id=ITEM)
    return server.caller("agent", "coder")


def claim(caller: Caller, **changed: Any) -> Reply:
    return caller.post(PATH, {"workItemId": ITEM, "agentType": "coder", "agentInstanceId": INSTANCE, **changed})


def assert_claimed(reply: Reply, claimed: bool) -> None:
    WorkItemClaimed.model_validate(reply.body)
    assert (reply.status, reply.body) == (200, {"success": True, "claimed": claimed})


def refused(reply: Reply, status: int = 400) -> str:
    WorkItemError.model_validate(reply.body)
    assert (reply.status, reply.body["success"], set(reply.body)) == (status, False, {"success", "error"})
    assert reply.headers["content-type"] == "application/json"
    error: str = reply.body["error"]
    return error


def test_the_sources_example(server: Served, coder: Caller) -> None:
    assert_claimed(claim(coder), True)
    held = server.board.get(ITEM).claim
    assert held is not None
    assert (held.agent, held.session) == ("coder", INSTANCE)


def test_an_instance_is_a_session_of_the_callers_key(server: Served, coder: Caller) -> None:
    claim(coder)
    session = server.board.find_session(INSTANCE)
    assert (session.agent, session.kind) == ("coder", "http")
    thief = server.caller("agent", "coder")
    assert INSTANCE in refused(claim(thief), 403)
    native = thief.post(f"/v1/items/{ITEM}/release", {"session": INSTANCE})
    assert native.status == 403


def test_an_instance_claims_more_than_one_item(server: Served, coder: Caller) -> None:
    server.board.add("Another", id="another")
    assert_claimed(claim(coder), True)
    assert_claimed(claim(coder, workItemId="another"), True)
    assert_claimed(claim(coder), True)
    assert server.board.stats().total_claims == 2, "what it holds already, it holds"


def test_an_instance_that_has_ended_begins_again(server: Served, coder: Caller) -> None:
    claim(coder)
    server.board.end_session(INSTANCE)
    assert_claimed(claim(coder), True)
    assert server.board.find_session(INSTANCE).ended_at is None


class TestNotClaimed:
    """Whatever keeps the item from the instance: no error, and false."""

    def test_another_instance_has_it(self, server: Served, coder: Caller) -> None:
        claim(coder)
        assert_claimed(claim(coder, agentInstanceId="coder-instance-2"), False)
        assert server.board.stats().conflicts_avoided == 1

    def test_it_is_not_there(self, coder: Caller) -> None:
        assert_claimed(claim(coder, workItemId="00000000-0000-0000-0000-000000000000"), False)

    def test_it_is_not_ready(self, server: Served, coder: Caller) -> None:
        server.board.add("Later", id="blocked", depends_on=[ITEM])
        assert_claimed(claim(coder, workItemId="blocked"), False)

    def test_its_resources_are_in_use(self, server: Served, coder: Caller) -> None:
        for id in ("one", "two"):
            server.board.add("Port", id=id, resources=["port:8080"])
        claim(coder, workItemId="one")
        assert_claimed(claim(coder, workItemId="two", agentInstanceId="coder-instance-2"), False)

    def test_the_agent_has_enough_or_is_too_fast(self, server: Served, coder: Caller) -> None:
        for id in ("one", "two"):
            server.board.add("More", id=id)
        server.board.set_agent("coder", max_claims=1)
        claim(coder)
        assert_claimed(claim(coder, workItemId="one"), False)
        server.board.set_agent("coder", claims_per_minute=1)
        claim(coder, workItemId="one", agentInstanceId="coder-instance-2")
        assert_claimed(claim(coder, workItemId="two", agentInstanceId="coder-instance-2"), False)

    def test_the_agents_policy_does_not_hand_it_out(self, server: Served, coder: Caller) -> None:
        server.board.set_agent("coder", allowed_actions=["read"])
        assert_claimed(claim(coder), False)

    def test_nine_of_ten(self, server: Served, coder: Caller) -> None:
        instances = [f"instance-{number}" for number in range(CLAIMERS)]
        with ThreadPoolExecutor(CLAIMERS) as pool:
            replies = list(pool.map(lambda instance: claim(coder, agentInstanceId=instance), instances))
        assert sorted(reply.body["claimed"] for reply in replies) == [False] * (CLAIMERS - 1) + [True]
        assert server.board.stats().conflicts_avoided == CLAIMERS - 1


class TestErrors:
    @pytest.mark.parametrize("field", ["workItemId", "agentType", "agentInstanceId"])
    def test_what_is_missing_or_no_name_is_said(self, coder: Caller, field: str) -> None:
        assert refused(claim(coder, **{field: None})).startswith(f"{field}: ")
        assert refused(claim(coder, **{field: 7})).startswith(f"{field}: ")
        assert refused(claim(coder, **{field: "a b"}))
        assert refused(claim(coder, **{field: "\0"}))

    @pytest.mark.parametrize("body", [b"{", b"", b"[]", b"\xff", b"[" * 100_000])
    def test_a_body_that_makes_no_sense(self, coder: Caller, body: bytes) -> None:
        refused(coder.ask("POST", PATH, body))

    def test_an_instance_of_another_agent(self, server: Served, coder: Caller) -> None:
        claim(coder)
        assert "coder" in refused(claim(server.admin, agentType="boss"))

    def test_a_key_of_one_agent_makes_no_instances_of_another(self, coder: Caller) -> None:
        refused(claim(coder, agentType="boss"), 403)

    def test_a_viewer_and_a_stranger(self, server: Served, coder: Caller) -> None:
        refused(claim(server.caller("viewer")), 403)
        refused(claim(server.stranger), 401)


def test_it_is_in_the_document_with_examples(server: Served) -> None:
    document = server.admin.get("/openapi.json").body
    answers = document["paths"][PATH]["post"]["responses"]
    assert set(answers) >= {"200", "400", "401", "403", "503"}
    assert "WorkItemError" in str(answers["400"])
    known = document["components"]["schemas"]
    assert known["ClaimWorkItem"]["examples"]
    assert known["WorkItemClaimed"]["examples"] == [{"success": True, "claimed": True}]
