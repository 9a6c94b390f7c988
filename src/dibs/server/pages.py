"""The dashboard: its page at `/` and what that loads from `/assets/`. Both need no key and tell nothing of the board.

The files are those that `web/` is built into. Their names have a digest of their content, so browsers keep them; the
page itself is checked for a newer one each time it is opened.
"""

from __future__ import annotations

import functools
import hashlib
import mimetypes
import re
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from dibs.server.service import Service
from dibs.value import Value

FOLDER = Path(__file__).parent / "assets"
INDEX = "index.html"
HEADERS = {
    # A worker takes its policy from its own script, so the assets need one, too.
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Vary": "Accept-Encoding",
}
WITH_DIGEST = re.compile(r"-[A-Z0-9]{8}\.")
KEPT = "public, max-age=31536000, immutable"
CHECKED = "no-cache"
NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>dibs</title>
<h1>The dashboard is not built</h1>
<p>This dibs runs from a checkout whose dashboard could not be built. <code>python -m web.tools.build</code> builds it
and says what is missing; then restart the server. Everything else works: <a href="/openapi.json">the API</a>."""


class Asset(Value):
    content: bytes
    compressed: bytes
    media_type: str
    etag: str


@functools.cache
def assets() -> dict[str, Asset]:
    """All of them at once, so that the page and its scripts are of one version while an upgrade replaces the files."""
    found = {}
    for path in FOLDER.glob("*"):
        if path.suffix != ".gz":
            content = path.read_bytes()
            found[path.name] = Asset(
                content=content,
                compressed=(path.parent / f"{path.name}.gz").read_bytes(),
                media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
                etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            )
    return found


def routes(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page(request: Request) -> Response:
        found = (await service.run(assets)).get(INDEX)
        if found is None:
            return HTMLResponse(NOT_BUILT, status_code=503)
        return _response(request, found, CHECKED)

    @router.get("/assets/{name}")
    async def asset(request: Request, name: str) -> Response:
        found = (await service.run(assets)).get(name)
        if found is None or name == INDEX:
            raise HTTPException(404, "there is no such asset; reload the page")
        return _response(request, found, KEPT if WITH_DIGEST.search(name) else CHECKED)

    return router


def _response(request: Request, asset: Asset, cache_control: str) -> Response:
    headers = {**HEADERS, "Cache-Control": cache_control, "ETag": asset.etag}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.content, media_type=asset.media_type, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(asset.compressed, media_type=asset.media_type, headers=headers)
