"""Routes about the whole board that are not verbs: waiting for changes, and for admins pruning, export and backup."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import IO, Annotated, Any, BinaryIO, Literal, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from dibs import check
from dibs.board import files
from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.model import ADMIN
from dibs.server.api import bodies, responses, schemas
from dibs.server.api.endpoints import AuthRoute, Content, describe
from dibs.server.api.responses import answer
from dibs.server.service import WAIT_SECONDS_MAX, Service
from dibs.store.contract import BROKEN_OFF, histories
from dibs.system import durable
from dibs.text import json_text

JSON_LINES, BINARY = "application/x-ndjson", "application/octet-stream"
IMPORT, RESTORE = "/v1/import", "/v1/restore"
#: Paths whose bodies are whole boards, and not limited as those of verbs are.
ARCHIVE_PATHS = frozenset({IMPORT, RESTORE})
ARCHIVE_BYTES_MAX = 4_000_000_000
BY_ITEM = "what `dibs doctor` reads, in place of what an import reads: the records of each item together"


class PruneRequest(schemas.RequestBody):
    """`limit` bounds how many items one call removes; with `dry_run` they are only counted."""

    older_than_seconds: float
    limit: int | None = None
    dry_run: bool = False

    model_config = schemas.with_examples({"older_than_seconds": 2592000})


Watched = schemas.make_model("Watched", {"event": 480}, event=int)
Due = schemas.make_model("Due", {"due_seconds": 42.5}, due_seconds=float | None)
Loaded = schemas.make_model("Loaded", {"records": 731}, records=int)
Restored = schemas.make_model("Restored", {"items": 12}, items=int)


def routes(service: Service) -> APIRouter:
    router = APIRouter(route_class=AuthRoute)
    for add in (_add_waiting, _add_export, _add_backup):
        add(router, service)
    return router


def _add_waiting(router: APIRouter, service: Service) -> None:
    quota = service.streaming.quota("watching")

    @router.get("/v1/watch", tags=["waiting"], **describe("watch", "Return once anything changes", Watched))
    async def watch(
        request: Request,
        after: Annotated[int | None, Query(ge=0)] = None,
        wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX)] = 0.0,
    ) -> Response:
        """Answers with the id of the feed's latest event, once that is greater than `after` or the time is up."""
        deadline = time.monotonic() + min(wait, service.wait_seconds_max)
        refused: asyncio.Future[DibsError] = asyncio.get_running_loop().create_future()
        with service.open_requests.tracked(service.open_request(quota, request, _resolver(refused))):
            while not refused.done():
                newest = service.feed.newest
                left = deadline - time.monotonic()
                if after is None or newest > after or left <= 0 or service.feed.stopping:
                    return answer({"event": newest})
                either: set[asyncio.Future[Any]] = {refused, asyncio.ensure_future(service.feed.wait_for_news(left))}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        raise refused.result()

    @router.get(
        "/v1/due", tags=["waiting"], **describe("due_seconds", "How long until time alone changes something", Due)
    )
    async def due(request: Request, item: str | None = None) -> Response:
        known = None if item is None else check.item_id(item, "item")
        return await service.run(lambda: answer({"due_seconds": service.board.store.due_seconds(known)}))


def _resolver(future: asyncio.Future[DibsError]) -> Callable[[DibsError], None]:
    def resolve(refusal: DibsError) -> None:
        if not future.done():
            future.set_result(refusal)

    return resolve


def _add_export(router: APIRouter, service: Service) -> None:
    @router.post(
        "/v1/prune",
        tags=["board"],
        **describe("prune", "Remove what ended long ago", schemas.VALUES["Prune"], ADMIN, body=PruneRequest),
    )
    async def prune(request: Request) -> Response:
        body = await bodies.read(service.long_work, request, PruneRequest)
        return await service.run(lambda: answer(service.board.prune(**body.model_dump())))

    lines = Content(media_type=JSON_LINES, description="one record per line")

    @router.get(
        "/v1/export", tags=["board"], **describe("export", "Every record of the board, as JSON lines", lines, ADMIN)
    )
    async def export(
        request: Request, by: Annotated[Literal["item"] | None, Query(description=BY_ITEM)] = None
    ) -> Response:
        store = service.board.store
        records = store.export() if by is None else histories.encode(store.histories())
        # Read before the answer begins, because afterwards a refusal could only break it off.
        first = await service.read(lambda: list(islice(records, 1)))
        return StreamingResponse(_lines(chain(first, records)), media_type=JSON_LINES)

    @router.post(IMPORT, tags=["board"], **describe("load", "Fill an empty board from an export", Loaded, ADMIN))
    async def load(request: Request) -> Response:
        with tempfile.TemporaryFile() as file:
            await _receive(request, file)
            return answer({"records": await service.run(lambda: _load(service, file))})


def _add_backup(router: APIRouter, service: Service) -> None:
    file_content = Content(media_type=BINARY, description="the file")

    @router.get("/v1/backup", tags=["board"], **describe("backup", "A backup of the board", file_content, ADMIN))
    async def backup(request: Request) -> Response:
        folder = durable.TemporaryFolder("dibs-backup-")
        path = os.path.join(folder.path, "backup")
        try:
            await service.run(lambda: service.board.backup(path))
        except BaseException:
            folder.remove()
            raise
        return FileResponse(path, media_type=BINARY, background=BackgroundTask(folder.remove))

    @router.post(RESTORE, tags=["board"], **describe("restore", "Replace the board by a backup", Restored, ADMIN))
    async def restore(request: Request, actor: str | None = None) -> Response:
        by = actor or (await service.run(lambda: service.caller(request))).actor
        with tempfile.NamedTemporaryFile(prefix="dibs-restore-") as file:
            await _receive(request, file)
            try:
                items = await service.run(lambda: service.board.restore(file.name, actor=by))
            except StoreUnusable as error:
                raise Invalid(error.message.replace(file.name, "the body"), field="body") from error
            return answer({"items": items})


def _lines(records: Iterator[tuple[str, Any]]) -> Iterator[bytes]:
    """A line for each record. The status of the answer is sent before the board is read to its end; if that fails, the
    last line says why, and the answer breaks off."""
    try:
        for kind, data in records:
            yield (json_text.line([kind, data]) + "\n").encode()
    except DibsError as error:
        body = responses.problem_body(error.http_status, error.code, error.message, error.facts)
        yield (json_text.line([BROKEN_OFF, body]) + "\n").encode()
        raise


def _load(service: Service, file: IO[bytes]) -> int:
    number = 0

    def count(_: bytes) -> None:
        nonlocal number
        number += 1

    try:
        with files.records(cast(BinaryIO, file), count) as records:
            return service.board.load(records)
    except Invalid as error:
        if not number:
            raise
        raise Invalid(f"line {number}: {error.message}", field="body", line=number) from error


async def _receive(request: Request, file: IO[bytes]) -> None:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > ARCHIVE_BYTES_MAX:
            raise Invalid(f"the body is larger than {ARCHIVE_BYTES_MAX} bytes", field="body")
        file.write(chunk)
    file.flush()
    file.seek(0)
