"""Whole boards over HTTP, for admins: every record out, and into an empty board, as JSON lines; backups, as files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from dibs.errors import Invalid, StoreUnusable
from dibs.files import durable
from dibs.model import ADMIN
from dibs.server.api import bodies, samples, schemas
from dibs.server.api.routes import REFUSALS, answered
from dibs.server.auth.auth_route import keyed, needs, needs_body
from dibs.server.service import Service
from dibs.text import json_text

MEDIA_TYPE = "application/x-ndjson"
BINARY = "application/octet-stream"
IMPORT, RESTORE = "/v1/import", "/v1/restore"
#: Bodies that may be larger than any verb's.
LARGE = frozenset({IMPORT, RESTORE})
LARGE_BYTES_MAX = 4_000_000_000


class Pruning(schemas.Shape):
    """`limit`: no more items than this, if there is so much to forget that it should be done bit by bit."""

    older_than_seconds: float
    limit: int | None = None

    model_config = {**schemas.Shape.model_config, "json_schema_extra": {"examples": [{"older_than_seconds": 2592000}]}}


Loaded = schemas.small("Loaded", {"records": 731}, records=int)
Restored = schemas.small("Restored", {"items": 12}, items=int)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["board"], route_class=keyed(service))

    @router.post(
        "/v1/prune",
        summary="Forget what ended so long ago",
        operation_id="prune",
        responses={200: samples.described(schemas.ANSWERS["Prune"]), **REFUSALS},
        **needs_body(ADMIN, Pruning),
    )
    async def prune(request: Request) -> Response:
        body = await bodies.said(request, Pruning)

        def prune() -> Response:
            return answered(service.board.prune(older_than_seconds=body.older_than_seconds, limit=body.limit))

        return await service.run(prune)

    @router.get(
        "/v1/export",
        summary="Every record of the board, as JSON lines",
        operation_id="export",
        response_class=Response,
        responses={200: {"content": {MEDIA_TYPE: {}}, "description": "a record a line"}, **REFUSALS},
        **needs(ADMIN),
    )
    async def export(request: Request) -> Response:
        records = ((json_text.line([kind, data]) + "\n").encode() for kind, data in service.board.export())
        return StreamingResponse(records, media_type=MEDIA_TYPE)

    @router.post(
        IMPORT,
        summary="Fill an empty board from an export",
        operation_id="load",
        responses={200: samples.described(Loaded), **REFUSALS},
        **needs(ADMIN),
    )
    async def load(request: Request) -> Response:
        with tempfile.TemporaryFile() as file:
            await _received(request, file)
            return answered({"records": await service.run(lambda: service.board.load(_records(file)))})

    _add_backups(router, service)
    return router


def _add_backups(router: APIRouter, service: Service) -> None:
    @router.get(
        "/v1/backup",
        summary="A backup of the board, as a file",
        operation_id="backup",
        response_class=Response,
        responses={200: {"content": {BINARY: {}}, "description": "the file"}, **REFUSALS},
        **needs(ADMIN),
    )
    async def backup(request: Request) -> Response:
        folder = durable.TemporaryFolder("dibs-backup-")
        path = os.path.join(folder.path, "backup")
        try:
            await service.run(lambda: service.board.backup(path))
        except BaseException:
            folder.remove()
            raise
        return FileResponse(path, media_type=BINARY, background=BackgroundTask(folder.remove))

    @router.post(
        RESTORE,
        summary="Make the board what a backup says",
        operation_id="restore",
        responses={200: samples.described(Restored), **REFUSALS},
        **needs(ADMIN),
    )
    async def restore(request: Request, actor: str | None = None) -> Response:
        by = actor or (await service.run(lambda: service.caller(request))).actor
        with tempfile.NamedTemporaryFile(prefix="dibs-restore-") as file:
            await _received(request, file)
            try:
                items = await service.run(lambda: service.board.restore(file.name, actor=by))
            except StoreUnusable as error:
                raise Invalid(error.message.replace(file.name, "what was sent"), field="body") from error
            return answered({"items": items})


async def _received(request: Request, file: IO[bytes]) -> None:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > LARGE_BYTES_MAX:
            raise Invalid(f"a whole board has {LARGE_BYTES_MAX} bytes at most", field="body")
        file.write(chunk)
    file.flush()
    file.seek(0)


def _records(file: IO[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(file, start=1):
        try:
            kind, data = json.loads(line)
        except (ValueError, TypeError) as error:
            raise Invalid(f"line {number} is no record: {error}", field="body") from error
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise Invalid(f"line {number} is no record", field="body")
        yield kind, data
