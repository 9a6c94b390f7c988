"""Approvals over HTTP, as a page or a script would: agents with keys of their own, and a person with an admin's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dibs.model import AGENT
from tests.kit.http import Host
from tests.server.attacking import Caller, Served, served


@pytest.fixture
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(http_host, tmp_path_factory.mktemp("approvals")) as found:
        admin = found.admin
        admin.ok("PUT", "/v1/agents/cloud", {"sensitive_actions": ["send"]})
        admin.ok("PUT", "/v1/agents/local", {"allowed_actions": ["send"], "sensitive_actions": ["send"]})
        admin.ok("POST", "/v1/items", {"title": "Apologise", "id": "sorry", "action": "send"})
        yield found


def agent(shop: Served, name: str) -> Caller:
    caller = shop.caller(AGENT, name)
    caller.ok("POST", "/v1/sessions", {"agent": name, "id": f"{name}-1"})
    return caller


def given(caller: Caller, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.ok("POST", "/v1/next", {"session": session})
    return found


def drafted(cloud: Caller, draft: str) -> int:
    (grant,) = given(cloud, "cloud-1")
    assert cloud("POST", "/v1/items/sorry/done", {"session": "cloud-1"}).code == "FORBIDDEN"
    cloud.ok("POST", "/v1/items/sorry/submit", {"session": "cloud-1", "draft": draft})
    token: int = grant["claim"]["token"]
    return token


def test_a_draft_is_sent_back_approved_and_carried_out(shop: Served) -> None:
    cloud, local, person = agent(shop, "cloud"), agent(shop, "local"), shop.admin
    assert given(local, "local-1") == [], "nothing is done that nobody approved"
    first = drafted(cloud, "Sorry.")
    person.ok("POST", "/v1/items/sorry/send_back", {"comment": "kinder"})
    second = drafted(cloud, "We are very sorry.")

    stale = person("POST", "/v1/items/sorry/approve", {"token": first})
    assert (stale.status, stale.code, stale.json["facts"]["draft_token"]) == (400, "TASK_NOT_CLAIMABLE", second)
    for nobody in (cloud, local):
        assert nobody("POST", "/v1/items/sorry/approve", {"token": second}).code == "FORBIDDEN"
    person.ok("POST", "/v1/items/sorry/approve", {"token": second, "comment": "send it"})

    assert given(cloud, "cloud-1") == []
    (grant,) = given(local, "local-1")
    approval = grant["approval"]
    assert (approval["comment"], approval["run"]["draft"]) == ("send it", "We are very sorry.")
    local.ok("POST", "/v1/items/sorry/done", {"session": "local-1"})
    assert shop.board.get("sorry").item.status == "done"


def test_a_draft_is_rejected_with_a_reason(shop: Served) -> None:
    cloud = agent(shop, "cloud")
    drafted(cloud, "Sorry.")
    assert shop.admin("POST", "/v1/items/sorry/reject", {}).status == 422
    shop.admin.ok("POST", "/v1/items/sorry/reject", {"reason": "we do not apologise"})
    event = shop.board.log("sorry")[-1]
    assert (event.kind, event.data["reason"]) == ("rejected", "we do not apologise")
