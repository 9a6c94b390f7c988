"""Keys over HTTP: made by admins, shown without what they are checked by."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dibs import api_keys
from dibs.api_keys import shown
from dibs.errors import Invalid
from dibs.model import ADMIN, VIEWER
from dibs.server.api import bodies, samples, schemas
from dibs.server.api.routes import IDEMPOTENCY_KEY, REFUSALS, answered
from dibs.server.auth.auth_route import keyed, needs, needs_body
from dibs.server.service import Service
from dibs.text import wire


class NewKey(schemas.Shape):
    """`digest` is that of a secret which the caller made and keeps to itself; without it the secret is made here, and
    told once."""

    role: str
    agent: str | None = None
    seconds: float | None = None
    id: str | None = None
    digest: str | None = None

    model_config = {
        **schemas.Shape.model_config,
        "json_schema_extra": {"examples": [{"role": "agent", "agent": "coder"}]},
    }


_SHOWN: dict[str, Any] = wire.encode(shown(samples.KEY))
ShownKey = schemas.small("ShownKey", _SHOWN, **schemas.fields_of("Key", without="digest"))
FoundKey = schemas.small("FoundKey", {"key": _SHOWN}, key=ShownKey | None)
MadeKey = schemas.small(
    "MadeKey",
    {**_SHOWN, "secret": f"{api_keys.PREFIX}_{samples.KEY.id}_..."},
    **schemas.fields_of("Key", without="digest"),
    secret=(str, ""),
)
Me = schemas.small(
    "Me",
    {"key": samples.KEY.id, "role": samples.KEY.role, "agent": samples.KEY.agent},
    key=str,
    role=str,
    agent=str | None,
)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["keys"], route_class=keyed(service))

    @router.get(
        "/v1/keys",
        summary="All keys, without their secrets",
        operation_id="keys",
        responses={200: samples.described(list[ShownKey]), **REFUSALS},  # type: ignore[valid-type]
        **needs(ADMIN),
    )
    async def keys(request: Request) -> Response:
        return await service.run(lambda: answered(list(map(shown, service.board.keys()))))

    @router.post(
        "/v1/keys",
        summary="Make a key",
        operation_id="create_key",
        responses={200: samples.described(MadeKey), **REFUSALS},
        **needs_body(ADMIN, NewKey),
    )
    async def create_key(request: Request) -> Response:
        body = await bodies.said(request, NewKey)

        def create() -> Response:
            if (body.digest is None) != (body.id is None):
                missing = "digest" if body.digest is None else "id"
                raise Invalid("a key that somebody else made has an id and a digest", field=missing)
            if body.digest is not None and body.id is not None:
                kept = service.board.keep_key(body.id, body.role, body.agent, body.digest, body.seconds)
                return answered(shown(kept))
            key, secret = service.board.create_key(body.role, agent=body.agent, seconds=body.seconds)
            return answered({**shown(key), "secret": secret})

        return await service.run(create)

    @router.get(
        "/v1/keys/{key}",
        summary="A key, if it is good now",
        operation_id="find_key",
        responses={200: samples.described(FoundKey), **REFUSALS},
        **needs(ADMIN),
    )
    async def find_key(key: str) -> Response:
        def find() -> Response:
            found = service.board.store.find_key(key)
            return answered({"key": None if found is None else shown(found)})

        return await service.run(find)

    @router.post(
        "/v1/keys/{key}/revoke",
        summary="A key is good no more",
        operation_id="revoke_key",
        responses={200: samples.described(ShownKey), **REFUSALS},
        **needs(ADMIN),
    )
    async def revoke_key(request: Request, key: str) -> Response:
        def revoke() -> Response:
            request_id = request.headers.get(IDEMPOTENCY_KEY)
            return answered(shown(service.callers.revoke(service.caller(request), key, request_id)))

        return await service.run(revoke)

    @router.get(
        "/v1/me",
        summary="Whose key this is",
        operation_id="me",
        responses={200: samples.described(Me), **REFUSALS},
        **needs(VIEWER),
    )
    async def me(request: Request) -> Response:
        def look() -> Response:
            caller = service.caller(request)
            return answered({"key": caller.key, "role": caller.role, "agent": caller.agent})

        return await service.run(look)

    return router
