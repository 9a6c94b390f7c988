"""A key is replaced while its session works, as docs/guides/server.md says: nothing is stranded, and both keys act."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.waiting import until
from tests.server.calling import Caller, Served
from tests.server.process import Serving, serving


def id_of(caller: Caller) -> str:
    found: str = caller.get("/v1/me").body["key"]
    return found


def at_work(server: Served) -> Caller:
    """Somebody whose session holds an item."""
    server.board.add("An item", id="item")
    worker = server.caller("agent", "coder")
    assert worker.post("/v1/sessions", {"agent": "coder", "id": "night"}).status == 200
    assert worker.post("/v1/items/item/claim", {"session": "night"}).status == 200
    return worker


def test_a_session_is_continued_with_the_new_key_and_with_the_old_one(server: Served) -> None:
    worker = at_work(server)
    reply = server.admin.post(f"/v1/keys/{id_of(worker)}/rotate", {})
    assert reply.status == 200
    assert (reply.body["role"], reply.body["agent"]) == ("agent", "coder")
    renewed = Caller(server.url, reply.body["secret"])
    for caller in (renewed, worker, renewed):
        assert caller.post("/v1/heartbeat", {"session": "night"}).status == 200
    # One that the new key started is within reach of the old one, as long as that is valid.
    assert renewed.post("/v1/sessions", {"agent": "coder", "id": "day"}).status == 200
    assert worker.post("/v1/heartbeat", {"session": "day"}).status == 200
    assert renewed.post("/v1/items/item/done", {"session": "night"}).status == 200


def test_a_key_that_leaked_is_replaced_at_once(server: Served) -> None:
    worker = at_work(server)
    reply = server.admin.post(f"/v1/keys/{id_of(worker)}/rotate", {"grace_seconds": 0})
    assert worker.get("/v1/me").status == 401
    assert Caller(server.url, reply.body["secret"]).post("/v1/items/item/done", {"session": "night"}).status == 200


def test_the_sessions_of_a_revoked_key_are_handed_to_its_successor(server: Served) -> None:
    worker = at_work(server)
    old = id_of(worker)
    assert server.admin.post(f"/v1/keys/{old}/revoke").status == 200
    reply = server.admin.post(f"/v1/keys/{old}/rotate", {})
    assert Caller(server.url, reply.body["secret"]).post("/v1/items/item/done", {"session": "night"}).status == 200


def test_another_key_of_the_agent_gets_nothing(server: Served) -> None:
    worker = at_work(server)
    server.admin.post(f"/v1/keys/{id_of(worker)}/rotate", {})
    other = server.caller("agent", "coder")
    reply = other.post("/v1/items/item/done", {"session": "night"})
    assert (reply.status, reply.body["code"]) == (403, "FORBIDDEN")


def test_only_an_admin_replaces_a_key_and_none_of_a_browser(server: Served) -> None:
    worker = at_work(server)
    assert worker.post(f"/v1/keys/{id_of(worker)}/rotate", {}).status == 403
    login, _ = server.board.create_key("login")
    for id in (login.id, "nobody"):
        reply = server.admin.post(f"/v1/keys/{id}/rotate", {})
        assert (reply.status, reply.body["code"]) == (422, "INVALID")


def test_the_command_names_replaces_and_lists_keys(tmp_path: Path) -> None:
    with serving(tmp_path, "--quiet") as server:
        words = ("key", "create", "--role", "agent", "--agent", "coder", "--name", "night runs", "--expires", "20d")
        made = json.loads(server.dibs(*words, "--json").stdout)["key"]
        assert made["name"] == "night runs"
        own = {"DIBS_KEY": made["secret"]}
        assert server.dibs("list", **own).returncode == 0
        until(lambda: "used " in line_of(server, made["id"]), "its use is noted")
        told = server.dibs("key", "rotate", made["id"], "--expires", "30d", "--grace", "2h", "--json")
        successor = json.loads(told.stdout)["key"]
        assert (successor["name"], successor["line"]) == ("night runs", made["id"])
        listed = server.dibs("key", "list").stdout
        assert "night runs" in listed
        assert "valid for 2h" in listed or "valid for 1h59m" in listed, listed
        assert server.dibs("list", DIBS_KEY=successor["secret"]).returncode == 0


def line_of(server: Serving, key: str) -> str:
    """What `key list` says of a key."""
    return next(line for line in server.dibs("key", "list").stdout.splitlines() if line.startswith(key))
