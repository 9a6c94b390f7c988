"""Every operation of the OpenAPI document against every kind of caller: who is let in, and nobody else does a thing.

Made from the document, so that a route that is added is tried by itself; one that does not say whom it is for is found
out here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dibs.model import ADMIN, AGENT, LOGIN, PERSON, ROLES, VIEWER
from dibs.server.api.endpoints import ROLE, SCHEMAS
from tests.kit.http import Host
from tests.server.attacking import Answer, Caller, Served, served

#: What anybody on the machine may know: that the server is there, and whether it can serve.
OPEN = {"livez", "readyz"}
#: What only admins do. Of the rest, reading is for viewers, and everything else for agents.
ADMINS = {
    *("cancel", "retry", "reopen", "approve", "send_back", "force_release", "set_agent", "check"),
    *("keys", "create_key", "find_key", "rotate_key", "revoke_key", "prune", "export", "load", "backup", "restore"),
    *("webhooks", "add_webhook", "change_webhook", "remove_webhook", "send_webhook", "dead_letters"),
}
#: Without a key that is good.
STRANGERS = ("no key", "a wrong key", "a revoked key", "an expired key")
#: Agents who do not act for coder, whose session the examples are about.
OTHERS = {"another agent": AGENT, "an agent of no name": AGENT, "a person": PERSON}
IN_PATH = {
    "item": "fix-login",
    "taskId": "fix-login",
    "name": "coder",
    "session": "coder-1",
    "sessionId": "coder-1",
    "key": "nobody",
    "webhook": "nobody",
}
#: How bodies name the session that is acted for, and the operation that starts one of the agent whom its body names.
SESSION, STARTS = ("session", "sessionId", "agentInstanceId"), "start_session"


class Operation:
    def __init__(self, method: str, path: str, told: dict[str, Any], document: dict[str, Any]) -> None:
        self.name, self.method = str(told["operationId"]), method.upper()
        self.role: str | None = told.get(ROLE)
        self.path = path
        for name, value in IN_PATH.items():
            self.path = self.path.replace(f"{{{name}}}", value)
        self.body = _example(told, document)
        for name in SESSION:
            if name in (self.body or {}):
                self.body[name] = "coder-1"
        names_session = "coder-1" in self.path or any(name in (self.body or {}) for name in SESSION)
        self.acts_for_coder = self.name == STARTS or (self.method != "GET" and names_session)

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"

    def by(self, caller: Caller) -> Answer:
        return caller(self.method, self.path, self.body)


def _example(told: dict[str, Any], document: dict[str, Any]) -> Any:
    if "requestBody" not in told:
        return None
    content = told["requestBody"]["content"]["application/json"]
    if "example" in content:
        return dict(content["example"])
    model = document["components"]["schemas"][content["schema"]["$ref"].removeprefix(SCHEMAS)]
    return dict(model["examples"][0])


class Cookie(Caller):
    """A browser that signed in."""

    def __init__(self, shop: Served) -> None:
        super().__init__(shop.url)
        code = shop.board.create_key(LOGIN, agent="alice")[1]
        answer = shop.nobody("GET", f"/login?code={code}")
        self._cookie = (answer.headers["set-cookie"] or "").partition(";")[0]

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        origin = {} if method == "GET" else {"Origin": f"http://{self.host}:{self.port}"}
        return super().__call__(method, path, body, headers={"Cookie": self._cookie, **origin}, **options)


@pytest.fixture(scope="module")
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(http_host, tmp_path_factory.mktemp("matrix")) as found:
        found.board.add("Fix the login", id="fix-login")
        yield found


@pytest.fixture(scope="module")
def operations(shop: Served) -> list[Operation]:
    document = shop.nobody.ok("GET", "/openapi.json")
    return [
        Operation(method, path, told, document)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


@pytest.fixture(scope="module")
def callers(shop: Served) -> dict[str, Caller]:
    expired = shop.caller(ADMIN, seconds=60)
    shop.harness.clock.advance(61)
    key, secret = shop.board.create_key(ADMIN)
    shop.board.revoke_key(key.id)
    found = {
        "no key": shop.nobody,
        "a wrong key": Caller(shop.url, (shop.admin.key or "")[:-4] + "AAAA"),
        "a revoked key": Caller(shop.url, secret),
        "an expired key": expired,
        "a viewer": shop.caller(VIEWER),
        "the agent": shop.caller(AGENT, "coder"),
        "another agent": shop.caller(AGENT, "other"),
        "an agent of no name": shop.caller(AGENT),
        "a person": shop.caller(PERSON, "pat"),
        "an admin": shop.admin,
        "a browser": Cookie(shop),
    }
    begin(found["the agent"])
    return found


def begin(agent: Caller) -> None:
    agent.ok("POST", "/v1/sessions", {"agent": "coder", "id": "coder-1"})


def state(shop: Served) -> Any:
    """What must be as it was when all were refused."""
    return (shop.board.events(newest=True, limit=1), shop.board.sessions(ended=True), shop.board.keys())


def test_every_operation_says_whom_it_is_for(operations: list[Operation]) -> None:
    assert {one.name for one in operations if one.role is None} == OPEN
    assert {one.name for one in operations if one.role == ADMIN} == ADMINS
    for one in operations:
        if one.name not in OPEN | ADMINS:
            assert one.role == (VIEWER if one.method == "GET" else AGENT), one
    assert len(operations) > 60


@pytest.mark.parametrize("kind", STRANGERS)
def test_without_a_good_key_nothing_is_told_and_nothing_is_done(
    shop: Served, callers: dict[str, Caller], operations: list[Operation], kind: str
) -> None:
    before = state(shop)
    for one in operations:
        answer = one.by(callers[kind])
        assert answer.status == (200 if one.role is None else 401), (one, kind, answer.status, answer.body)
    assert state(shop) == before


@pytest.mark.parametrize(("kind", "role"), [("a viewer", VIEWER), *OTHERS.items()])
def test_who_may_less_is_refused_and_changes_nothing(
    shop: Served, callers: dict[str, Caller], operations: list[Operation], kind: str, role: str
) -> None:
    before, refused = state(shop), 0
    for one in operations:
        if one.role is not None and (ROLES.index(one.role) > ROLES.index(role) or one.acts_for_coder):
            answer = one.by(callers[kind])
            assert answer.status == 403, (one, kind, answer.status, answer.body)
            refused += 1
            if one.path.startswith("/v1/") and ROLES.index(one.role) > ROLES.index(role):
                assert answer.json["facts"]["role"] == one.role, (one, answer.body)
    assert refused > 15
    assert state(shop) == before


@pytest.mark.parametrize(
    ("kind", "role"),
    [("a viewer", VIEWER), *OTHERS.items(), ("an admin", ADMIN), ("a browser", ADMIN)],
)
def test_who_may_is_let_in(callers: dict[str, Caller], operations: list[Operation], kind: str, role: str) -> None:
    for one in operations:
        if one.role is not None and ROLES.index(one.role) <= ROLES.index(role):
            if one.acts_for_coder and kind in OTHERS:
                continue
            answer = one.by(callers[kind])
            # What the board then says of it is its own matter; an empty backup is none, and the board is not empty.
            assert answer.status in (200, 400, 404, 409, 410, 422, 503), (one, kind, answer.status, answer.body)
            if one.name == "end_session":
                begin(callers["the agent"])


def test_an_agent_acts_for_itself(callers: dict[str, Caller], operations: list[Operation]) -> None:
    for one in operations:
        if one.role in (VIEWER, AGENT):
            answer = one.by(callers["the agent"])
            assert answer.status in (200, 400, 404, 409, 410, 422), (one, answer.status, answer.body)
            if one.name == "end_session":
                begin(callers["the agent"])
