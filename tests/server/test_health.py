"""The figures of the claim-by-move contract: its names, its types, and the agent's own numbers."""

from __future__ import annotations

import pytest

from dibs.errors import ItemAlreadyClaimed
from dibs.server.ops.health import Health
from tests.server.calling import Served

#: The source's example, which shows the types.
EXAMPLE = {
    "coordination": {
        "agent_name": "cloud",
        "active_claims": 3,
        "total_claims": 142,
        "claim_conflicts_avoided": 12,
        "claim_success_rate": 0.98,
    }
}


@pytest.fixture
def busy(server: Served) -> Served:
    """Two agents: one holds an item, has done one, and lost two races; the other holds what they were about."""
    board = server.board
    for id in ("a", "b", "c"):
        board.add("Move", id=id)
    for agent in ("cloud", "local"):
        board.start_session(agent, id=agent)
    board.claim("a", session="cloud")
    board.claim("b", session="cloud")
    board.done("b", session="cloud")
    board.claim("c", session="local")
    for _ in range(2):
        with pytest.raises(ItemAlreadyClaimed):
            board.claim("c", session="cloud")
    return server


def figures(server: Served, query: str = "") -> dict[str, object]:
    reply = server.caller("viewer").get(f"/health{query}")
    assert reply.status == 200
    Health.model_validate(reply.body)
    found: dict[str, object] = reply.body["coordination"]
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in EXAMPLE["coordination"].items()
    }, "the source's names and types, in whatever state the board is"
    return found


def test_an_agent_has_its_own_numbers(busy: Served) -> None:
    assert figures(busy, "?agent=cloud") == {
        "agent_name": "cloud",
        "active_claims": 1,
        "total_claims": 2,
        "claim_conflicts_avoided": 2,
        "claim_success_rate": 0.5,
    }
    assert figures(busy, "?agent=local") == {
        "agent_name": "local",
        "active_claims": 1,
        "total_claims": 1,
        "claim_conflicts_avoided": 0,
        "claim_success_rate": 1.0,
    }


def test_the_whole_board(busy: Served) -> None:
    assert figures(busy) == {
        "agent_name": "*",
        "active_claims": 2,
        "total_claims": 3,
        "claim_conflicts_avoided": 2,
        "claim_success_rate": 0.6,
    }


def test_where_nothing_was_tried_nothing_went_wrong(server: Served) -> None:
    nothing = {"active_claims": 0, "total_claims": 0, "claim_conflicts_avoided": 0, "claim_success_rate": 1.0}
    assert figures(server) == {"agent_name": "*", **nothing}
    assert figures(server, "?agent=nobody") == {"agent_name": "nobody", **nothing}


def test_an_expired_claim_is_not_active(busy: Served) -> None:
    busy.clock.advance(busy.board.settings.ttl_seconds)
    assert figures(busy, "?agent=cloud")["active_claims"] == 0


def test_a_name_that_is_none_is_refused(server: Served) -> None:
    reply = server.admin.get("/health?agent=a%20b")
    assert (reply.status, reply.body["code"], reply.body["facts"]["field"]) == (422, "INVALID", "agent")


def test_a_stranger_sees_no_figures(server: Served) -> None:
    assert server.stranger.get("/health").status == 401


def test_it_is_in_the_document_with_the_sources_example(server: Served) -> None:
    document = server.admin.get("/openapi.json").body
    answer = document["paths"]["/health"]["get"]["responses"]["200"]["content"]["application/json"]
    assert answer["example"] == EXAMPLE
    assert document["components"]["schemas"]["Coordination"]["examples"] == [EXAMPLE["coordination"]]


def test_a_viewer_may_ask_why_and_for_whom(busy: Served) -> None:
    viewer = busy.caller("viewer")
    (reason,) = viewer.get("/v1/items/c/why").body
    assert reason["code"] == "TASK_ALREADY_CLAIMED"
    (reason,) = viewer.get("/v1/items/c/why?session=local").body
    assert reason["code"] == "OWN"
