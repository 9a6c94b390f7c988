"""What a key allows beyond its role (`test_matrix`): nobody passes for somebody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dibs.model import ADMIN, AGENT, PERSON
from tests.kit.http import Host
from tests.server.attacking import Served, served


@pytest.fixture(scope="module")
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(http_host, tmp_path_factory.mktemp("roles")) as found:
        yield found


def test_a_session_is_acted_for_by_the_key_that_registered_it(shop: Served) -> None:
    mine, other = shop.caller(AGENT, "ann"), shop.caller(AGENT, "ann")
    mine.ok("POST", "/v1/sessions", {"agent": "ann", "id": "ann-1"})
    shop.board.add("A", id="a")
    for path, body in (
        ("/v1/items/a/claim", {"session": "ann-1"}),
        ("/v1/next", {"session": "ann-1"}),
        ("/v1/heartbeat", {"session": "ann-1"}),
        ("/v1/sessions/ann-1/end", None),
        ("/v1/items/a/wait", {"session": "ann-1"}),
        ("/v1/items/a/soft_claim", {"session": "ann-1"}),
    ):
        answer = other("POST", path, body)
        assert (answer.status, answer.code) == (403, "FORBIDDEN"), (path, answer.body)
    # Another key of the same agent does not get it by registering it again.
    assert other("POST", "/v1/sessions", {"agent": "ann", "id": "ann-1"}).status == 403
    assert mine.ok("POST", "/v1/items/a/claim", {"session": "ann-1"})["claim"]["agent"] == "ann"
    assert other("POST", "/v1/items/a/done", {"session": "ann-1", "token": 1}).status == 403
    adding = {"add_resources": ["src"], "session": "ann-1"}
    assert other("PATCH", "/v1/items/a", adding).status == 403
    assert mine.ok("PATCH", "/v1/items/a", adding)["resources"] == ["src"]
    assert shop.admin.ok("POST", "/v1/items/a/release", {"session": "ann-1", "token": 1})


def test_a_key_hands_over_only_what_its_own_sessions_hold(shop: Served) -> None:
    """To whomever it likes: a dispatcher and its workers have keys of their own."""
    mine, other = shop.caller(AGENT, "mayor"), shop.caller(AGENT, "worker")
    mine.ok("POST", "/v1/sessions", {"agent": "mayor", "id": "mayor-1"})
    other.ok("POST", "/v1/sessions", {"agent": "worker", "id": "worker-1"})
    item = mine.ok("POST", "/v1/claim", {"subject": "github:acme/shop#12", "session": "mayor-1"})["item"]["id"]
    hand = f"/v1/items/{item}/hand"
    answer = other("POST", hand, {"session": "mayor-1", "to": "worker-1", "token": 1})
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert mine("POST", hand, {"session": "mayor-1", "to": "nobody"}).code == "SESSION_NOT_FOUND"
    assert mine.ok("POST", hand, {"session": "mayor-1", "to": "worker-1"})["claim"]["token"] == 2
    assert mine("POST", hand, {"session": "worker-1", "to": "mayor-1"}).code == "FORBIDDEN"
    assert mine("POST", f"/v1/items/{item}/done", {"session": "mayor-1", "token": 1}).code == "NOT_CLAIM_OWNER"
    other.ok("POST", f"/v1/items/{item}/done", {"session": "worker-1", "token": 2})


def test_a_session_is_a_child_only_of_a_session_of_its_own_key(shop: Served) -> None:
    mine, other = shop.caller(AGENT, "ida"), shop.caller(AGENT, "ida")
    mine.ok("POST", "/v1/sessions", {"agent": "ida", "id": "ida-1"})
    child = {"agent": "ida", "id": "ida-2", "parent": "ida-1"}
    answer = other("POST", "/v1/sessions", child)
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert shop.board.store.find_session("ida-2") is None
    assert mine("POST", "/v1/sessions", {**child, "parent": "nobody"}).code == "SESSION_NOT_FOUND"
    assert mine("POST", "/v1/sessions", {**child, "parent": "a b"}).code == "INVALID"
    assert mine.ok("POST", "/v1/sessions", child)["parent"] == "ida-1"
    shop.board.add("B", id="of-a-child")
    mine.ok("POST", "/v1/items/of-a-child/claim", {"session": "ida-2"})
    assert mine.ok("POST", "/v1/sessions/ida-1/end")["released"] == ["of-a-child"]
    assert mine.ok("GET", "/v1/sessions/ida-2")["end_reason"] == "its parent session ended"


def test_an_ended_session_stays_its_keys_until_that_is_good_no_more(shop: Served) -> None:
    mine, other = shop.caller(AGENT, "eve"), shop.caller(AGENT, "eve")
    mine.ok("POST", "/v1/sessions", {"agent": "eve", "id": "eve-1"})
    mine.ok("POST", "/v1/sessions/eve-1/end")
    before = shop.board.find_session("eve-1")
    assert other("POST", "/v1/sessions", {"agent": "eve", "id": "eve-1"}).code == "FORBIDDEN"
    task = other("POST", "/api/sessions", {"sessionId": "eve-1", "agent": "eve"})
    assert (task.status, task.json["error"]) == (403, "FORBIDDEN")
    instance = {"workItemId": "x", "agentType": "eve", "agentInstanceId": "eve-1"}
    assert other("POST", "/functions/v1/agent-claim", instance).status == 403
    assert shop.board.find_session("eve-1") == before
    mine.ok("POST", "/v1/sessions", {"agent": "eve", "id": "eve-1"})
    mine.ok("POST", "/v1/sessions/eve-1/end")
    shop.board.revoke_key(before.key or "")
    assert shop.caller(AGENT, "bob")("POST", "/v1/sessions", {"agent": "bob", "id": "eve-1"}).code == "INVALID"
    other.ok("POST", "/v1/sessions", {"agent": "eve", "id": "eve-1"})
    assert shop.board.find_session("eve-1").key not in (None, before.key)


@pytest.mark.parametrize("role", [AGENT, PERSON, ADMIN])
def test_only_a_persons_key_says_that_a_session_is_a_persons(shop: Served, role: str) -> None:
    caller = shop.caller(role, f"{role}-1")
    native = caller("POST", "/v1/sessions", {"agent": f"{role}-1", "kind": "person"})
    task = caller("POST", "/api/sessions", {"agentType": "person"})
    if role == AGENT:
        assert (native.status, native.code, native.json["facts"]["role"]) == (403, "FORBIDDEN", "person")
        assert "dibs key create --role person makes one" in native.json["detail"]
        assert (task.status, task.json["error"]) == (403, "FORBIDDEN")
        assert not [view for view in shop.board.sessions() if view.session.agent == f"{role}-1"]
    else:
        assert (native.json["kind"], task.json["session"]["agentType"]) == ("person", "person")
        assert caller("POST", "/v1/sessions", {"agent": "else"}).status == (200 if role == ADMIN else 403)


@pytest.mark.parametrize("role", [AGENT, PERSON])
def test_an_agent_gets_around_no_policy_by_relabelling(shop: Served, role: str) -> None:
    shop.board.set_agent("cloud", allowed_actions=["read"], sensitive_actions=["send"])
    item = f"mail-{role}"
    shop.board.add("Mail", id=item, action="send")
    cloud = shop.caller(role, "cloud")
    session = cloud.ok("POST", "/v1/sessions", {"agent": "cloud"})["id"]
    before = (shop.board.get(item), shop.board.log(item))
    for change in ({"action": "read"}, {"type": "read"}, {"type": "read", "action": "send", "title": "t"}):
        for more in ({}, {"relabel": True}):
            answer = cloud("PATCH", f"/v1/items/{item}", {**change, **more})
            assert (answer.status, answer.code) == (403, "FORBIDDEN"), change
    assert cloud("POST", "/v1/items", {"id": item, "title": "Mail", "action": "read"}).code == "INVALID"
    assert (shop.board.get(item), shop.board.log(item)) == before
    assert cloud.ok("PATCH", f"/v1/items/{item}", {"action": "send", "type": "task"})["before"] == {}
    assert cloud.ok("PATCH", f"/v1/items/{item}", {"action": "send", "title": "t"})["before"] == {"title": "Mail"}
    cloud.ok("POST", f"/v1/items/{item}/claim", {"session": session})
    assert cloud("POST", f"/v1/items/{item}/done", {"session": session}).code == "FORBIDDEN"
    cloud.ok("POST", f"/v1/items/{item}/submit", {"session": session, "draft": "Hello"})
    assert shop.admin.ok("PATCH", f"/v1/items/{item}", {"action": "read"})["action"] == "read"


@pytest.mark.parametrize("role", [AGENT, PERSON])
def test_only_an_admin_says_what_github_said(shop: Served, role: str) -> None:
    """Whoever could would complete their own work, or let dibs overlook a repository."""
    caller = shop.caller(role)
    session = caller.ok("POST", "/v1/sessions", {"agent": f"forger-{role}"})["id"]
    subject, said = f"github:acme/{role}#1", {"external": {"version": "9999", "complete": "never"}}
    new = {"title": "t", "subject": subject, "payload": said}
    for path, body in (
        ("/v1/items", new),
        ("/v1/add_many", {"items": [{"title": "sound"}, new]}),
        ("/v1/claim", {"subject": subject, "session": session, "payload": said}),
    ):
        answer = caller("POST", path, body)
        assert (answer.status, answer.code, answer.json["facts"]["field"]) == (403, "FORBIDDEN", "payload"), path
    assert not shop.board.list(subject=subject)
    for id in ("github:acme/shop", "github-ends:acme/shop"):
        for path, body in (
            ("/v1/sessions", {"agent": "github", "id": id, "meta": {"#1": "closed 9999"}}),
            ("/api/sessions", {"agent": "github", "agentType": "autonomous", "sessionId": id}),
            ("/functions/v1/agent-claim", {"workItemId": "w", "agentType": "github", "agentInstanceId": id}),
        ):
            assert caller("POST", path, body).status == 403, path
        assert shop.board.store.find_session(id) is None
    item = shop.admin.ok("POST", "/v1/items", new)["id"]
    assert caller("PATCH", f"/v1/items/{item}", {"subject": None}).code == "FORBIDDEN"
    assert shop.board.get(item).item.subject == subject


def test_a_session_of_the_machine_itself_is_nobody_elses(shop: Served) -> None:
    shop.board.start_session("bob", id="bob-1")
    caller = shop.caller(AGENT)
    assert caller("POST", "/v1/next", {"session": "bob-1"}).status == 403
    assert caller("POST", "/v1/sessions", {"agent": "bob", "id": "bob-1"}).status == 403


def test_an_agents_key_starts_no_session_of_another(shop: Served) -> None:
    caller = shop.caller(AGENT, "coder")
    answer = caller("POST", "/v1/sessions", {"agent": "boss"})
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert caller.ok("POST", "/v1/sessions", {"agent": "coder"})["agent"] == "coder"
    assert shop.caller(AGENT).ok("POST", "/v1/sessions", {"agent": "any"})["agent"] == "any"


def test_a_key_of_no_agent_does_not_use_up_what_an_agent_with_a_key_is_left(shop: Served) -> None:
    """Not by any of the ways to start a session, and also not once the agent's key is revoked."""
    own, stranger = shop.caller(AGENT, "limited"), shop.caller(AGENT)
    key = own.ok("GET", "/v1/me")["key"]
    shop.admin.ok("PUT", "/v1/agents/limited", {"max_claims_total": 1})
    shop.board.add("L", id="l")
    for revoked in (False, True):
        for path, body in (
            ("/v1/sessions", {"agent": "limited"}),
            ("/api/sessions", {"agent": "limited"}),
            ("/api/sessions", {"agentType": "limited"}),
            (
                "/functions/v1/agent-claim",
                {"workItemId": "l", "agentType": "limited", "agentInstanceId": f"l-{revoked}"},
            ),
        ):
            answer = stranger("POST", path, body)
            assert (answer.status, b"has a key of its own" in answer.body) == (403, True), (path, answer.body)
        if not revoked:
            assert own.ok("POST", "/v1/sessions", {"agent": "limited"})["agent"] == "limited"
            shop.admin.ok("POST", f"/v1/keys/{key}/revoke")


def test_what_a_body_says_of_the_actor_counts_only_for_admins(shop: Served) -> None:
    caller = shop.caller(AGENT, "coder")
    caller.ok("POST", "/v1/items", {"title": "t", "id": "by-coder", "actor": "boss"})
    caller.ok("POST", "/v1/items/by-coder/park", {"actor": "boss"})
    assert {event.actor for event in shop.board.log("by-coder") if event.actor != "dibs"} == {"coder"}
    shop.admin.ok("POST", "/v1/items", {"title": "t", "id": "by-boss", "actor": "boss"})
    assert shop.board.log("by-boss")[0].actor == "boss"
    unnamed = shop.caller(AGENT)
    unnamed.ok("POST", "/v1/items", {"title": "t", "id": "by-key", "actor": "boss"})
    assert shop.board.log("by-key")[0].actor.startswith("key-")


def test_a_key_is_not_named_by_a_body(shop: Served) -> None:
    """A session is its registrar's, whatever is said: fields that are not for a body to say are refused."""
    caller = shop.caller(AGENT, "coder")
    for more in ({"key": "another"}, {"owner_pid": 1}):
        assert caller("POST", "/v1/sessions", {"agent": "coder", **more}).status == 422
    assert caller("POST", "/v1/items/x/claim", {"session": "s", "request_id": "r"}).status == 422


def test_a_person_rejects_and_an_agent_only_what_it_holds(shop: Served) -> None:
    shop.board.add("R", id="r")
    assert shop.caller(AGENT, "coder")("POST", "/v1/items/r/reject", {"reason": "no"}).status == 403
    assert shop.admin("POST", "/v1/items/r/reject", {"reason": "no"}).status != 403


@pytest.mark.parametrize("path", ["/v1/sessions", "/api/sessions"])
def test_a_key_of_no_agent_takes_no_name_that_the_history_uses_for_others(shop: Served, path: str) -> None:
    admin = shop.admin.ok("GET", "/v1/me")["key"]
    for name in (f"key-{admin}", "dibs"):
        answer = shop.caller(AGENT)("POST", path, {"agent": name})
        assert (answer.status, b"is a reserved name" in answer.body) == (403, True), answer.body


def test_a_key_of_no_agent_annotates_only_runs_of_sessions_that_it_registered(shop: Served) -> None:
    mine, other = shop.caller(AGENT), shop.caller(AGENT)
    mine.ok("POST", "/v1/sessions", {"agent": "zoe", "id": "zoe-1"})
    other.ok("POST", "/v1/sessions", {"agent": "zoe", "id": "zoe-2"})
    shop.board.add("K", id="k")
    mine.ok("POST", "/v1/items/k/claim", {"session": "zoe-1"})
    mine.ok("POST", "/v1/items/k/done", {"session": "zoe-1"})
    evil = {"session": "zoe-2", "checks": {"ci": "bad"}}
    for asked in (evil, {**evil, "token": 1}):
        refused = other("POST", "/v1/items/k/annotate", asked)
        assert (refused.status, refused.code) == (403, "NOT_CLAIM_OWNER")
    assert other("POST", "/v1/items/k/annotate", {**evil, "key": "x"}).status == 422
    assert shop.board.get("k").runs[0].checks == {}
    mine.ok("POST", "/v1/sessions", {"agent": "zoe", "id": "zoe-3"})
    mine.ok("POST", "/v1/items/k/annotate", {"session": "zoe-3", "checks": {"ci": "passed"}})
    shop.admin.ok("POST", "/v1/items/k/annotate", {"session": "zoe-2", "checks": {"lint": "passed"}})
    assert shop.board.get("k").runs[0].checks.keys() == {"ci", "lint"}


def test_an_agent_does_in_bulk_only_what_it_may_do_singly(shop: Served) -> None:
    agent = shop.caller(AGENT, "bulky")
    shop.board.add("X", id="in-bulk")
    for verb in ("cancel", "retry", "reopen", "approve", "send_back", "reject", "force_release"):
        answer = agent("POST", "/v1/bulk", {"verb": verb, "items": [{"id": "in-bulk"}]})
        assert (answer.status, answer.code) == (403, "FORBIDDEN"), verb
    assert agent.ok("POST", "/v1/bulk", {"verb": "park", "items": [{"id": "in-bulk"}], "actor": "boss"}) == {
        "done": ["in-bulk"],
        "refused": [],
    }
    assert shop.board.log("in-bulk")[-1].actor == "bulky"
