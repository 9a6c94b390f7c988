"""Routes for keys, which admins make and which are shown without their digests, and for signing in with a browser.

A link that is valid once becomes a cookie for this server's pages. The cookie holds the secret of a key made for this
browser, which is valid in cookies only; `dibs key list` shows the key, and revoking it signs the browser out. On
loopback the pages have a host name of their own (see `dibs.system.keyring`), and other links are redirected to it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from dibs import api_keys
from dibs.api_keys import shown
from dibs.board.manage import GRACE_SECONDS
from dibs.config import LOOPBACK
from dibs.errors import Invalid, Unauthenticated
from dibs.model import ADMIN
from dibs.server.api import bodies, examples, schemas
from dibs.server.api.endpoints import AuthRoute, describe
from dibs.server.api.responses import answer
from dibs.server.api.verb_routes import IDEMPOTENCY_KEY
from dibs.server.auth.callers import COOKIE_SECONDS, cookie_name, set_cookie
from dibs.server.service import Service
from dibs.text import wire

LINK_INVALID = "this link was used already or has expired; dibs open or dibs key link makes another"


class NewKey(schemas.RequestBody):
    """`digest` and `id` are those of a secret that the caller made itself. Without them the server makes a secret and
    shows it once."""

    role: str
    agent: str | None = None
    seconds: float | None = None
    id: str | None = None
    digest: str | None = None
    name: str | None = None

    model_config = schemas.with_examples({"role": "agent", "agent": "coder", "name": "night runs"})


class KeyRotation(schemas.RequestBody):
    """`digest` and `id` as for a new key. The key that is replaced expires after `grace_seconds`."""

    seconds: float | None = None
    grace_seconds: float = GRACE_SECONDS
    id: str | None = None
    digest: str | None = None

    model_config = schemas.with_examples({"seconds": 2592000, "grace_seconds": GRACE_SECONDS})


_KEY = examples.KEY
_EXAMPLE: dict[str, Any] = wire.encode(shown(_KEY))
_FIELDS = schemas.fields_of("Key", without="digest")
ShownKey = schemas.make_model("ShownKey", _EXAMPLE, **_FIELDS)
FoundKey = schemas.make_model("FoundKey", {"key": _EXAMPLE}, key=ShownKey | None)
MadeKey = schemas.make_model(
    "MadeKey", {**_EXAMPLE, "secret": f"{api_keys.PREFIX}_{_KEY.id}_..."}, **_FIELDS, secret=(str, "")
)
Me = schemas.make_model(
    "Me", {"key": _KEY.id, "role": _KEY.role, "agent": _KEY.agent}, key=str, role=str, agent=str | None
)


def key_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["keys"], route_class=AuthRoute)

    @router.get("/v1/keys", **describe("keys", "All keys, without their secrets", list[ShownKey], ADMIN))  # type: ignore[valid-type]
    async def keys(request: Request) -> Response:
        return await service.run(lambda: answer(list(map(shown, service.board.keys()))))

    @router.post("/v1/keys", **describe("create_key", "Make a key", MadeKey, ADMIN, body=NewKey))
    async def create_key(request: Request) -> Response:
        body = await bodies.read(service.long_work, request, NewKey)

        def create() -> Response:
            _require_both(body.id, body.digest)
            if body.digest is not None and body.id is not None:
                given = (body.id, body.role, body.agent, body.digest, body.seconds, body.name)
                return answer(shown(service.board.keep_key(*given)))
            key, secret = service.board.create_key(body.role, agent=body.agent, seconds=body.seconds, name=body.name)
            return answer({**shown(key), "secret": secret})

        return await service.run(create)

    @router.get("/v1/keys/{key}", **describe("find_key", "A key, if it is valid", FoundKey, ADMIN))
    async def find_key(key: str) -> Response:
        def find() -> Response:
            found = service.board.store.find_key(key)
            return answer({"key": None if found is None else shown(found)})

        return await service.run(find)

    @router.post(
        "/v1/keys/{key}/rotate",
        **describe("rotate_key", "Replace a key; the new one acts for its sessions", MadeKey, ADMIN, body=KeyRotation),
    )
    async def rotate_key(request: Request, key: str) -> Response:
        body = await bodies.read(service.long_work, request, KeyRotation)

        def rotate() -> Response:
            _require_both(body.id, body.digest)
            made, secret = service.board.rotate_key(
                key, seconds=body.seconds, grace_seconds=body.grace_seconds, id=body.id, digest=body.digest
            )
            service.callers.forget(key)
            return answer({**shown(made), **({} if secret is None else {"secret": secret})})

        return await service.run(rotate)

    @router.post("/v1/keys/{key}/revoke", **describe("revoke_key", "Revoke a key", ShownKey, ADMIN))
    async def revoke_key(request: Request, key: str) -> Response:
        def revoke() -> Response:
            request_id = request.headers.get(IDEMPOTENCY_KEY)
            return answer(shown(service.callers.revoke(service.caller(request), key, request_id)))

        return await service.run(revoke)

    @router.get("/v1/me", **describe("me", "The key of this request", Me))
    async def me(request: Request) -> Response:
        def who_asks() -> Response:
            caller = service.caller(request)
            return answer({"key": caller.key, "role": caller.role, "agent": caller.agent})

        return await service.read_one(who_asks)

    return router


def _require_both(id: str | None, digest: str | None) -> None:
    if (digest is None) != (id is None):
        missing = "digest" if digest is None else "id"
        raise Invalid("a key whose secret you made needs both id and digest", field=missing)


def login_routes(service: Service, *, secure_hosts: frozenset[str], pages: str | None) -> APIRouter:
    """`pages` is the URL of the server's pages, if they have a host name of their own."""
    router = APIRouter(include_in_schema=False)

    def is_secure(request: Request) -> bool:
        return request.headers["host"].lower() in secure_hosts

    @router.get("/login")
    async def login(request: Request, code: str = "") -> Response:
        if pages is not None and _is_shared(request.headers["host"].lower()):
            # The host name of the pages is a secret, too: only the holder of a valid link learns it.
            if not await service.run(lambda: service.callers.is_login_code(code)):
                raise Unauthenticated(LINK_INVALID)
            return RedirectResponse(f"{pages}/login?{urlencode({'code': code})}", status_code=303)

        def exchange() -> str:
            secret = service.callers.exchange_login_code(code, COOKIE_SECONDS)
            if secret is None:
                raise Unauthenticated(LINK_INVALID)
            service.callers.revoke_replaced(request)
            return secret

        secret = await service.run(exchange)
        response = RedirectResponse("/", status_code=303)
        set_cookie(response, cookie_name(request.headers["host"], is_secure=is_secure(request)), secret)
        return response

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        def revoke_own_key() -> None:
            caller = service.caller(request)
            service.callers.revoke(caller, caller.key)

        await service.run(revoke_own_key)
        response = Response(status_code=204)
        secure = is_secure(request)
        response.delete_cookie(cookie_name(request.headers["host"], is_secure=secure), path="/", secure=secure)
        return response

    return router


def _is_shared(host: str) -> bool:
    """Whether browsers would send a cookie for this host to other programs on this machine, too."""
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() else host).strip("[]") in LOOPBACK
