"""Signing in with a browser: a link that is good once becomes a cookie, which is good for this server's pages alone.

The cookie holds the secret of a key that was made for this browser. It is no key for anything but a cookie; `dibs key
list` shows it, and revoking it signs the browser out. On loopback the pages have a host name of their own (see
`dibs.files.keyring`), and a link that leads elsewhere is sent there.
"""

from __future__ import annotations

from html import escape
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dibs.errors import Unauthenticated
from dibs.server.auth.callers import COOKIE, SECURE_COOKIE
from dibs.server.ops.address import LOOPBACK
from dibs.server.service import Service

COOKIE_SECONDS = 12 * 3600
NO_LINK = "this link was used already, or is too old: dibs key link prints another"


def routes(service: Service, *, secure_hosts: frozenset[str], pages: str | None) -> APIRouter:
    """`pages` is where the server's pages are, if they have a host name of their own."""
    router = APIRouter(include_in_schema=False)

    def is_secure(request: Request) -> bool:
        return request.headers["host"].lower() in secure_hosts

    @router.get("/login")
    async def login(request: Request, code: str = "") -> Response:
        if pages is not None and _is_shared(request.headers["host"].lower()):
            # The name of the pages is a secret, too: it is told only to who has a link that is good.
            if not await service.run(lambda: service.callers.may_sign_in(code)):
                raise Unauthenticated(NO_LINK)
            return RedirectResponse(f"{pages}/login?{urlencode({'code': code})}", status_code=303)
        secret = await service.run(lambda: service.callers.signed_in(code, COOKIE_SECONDS))
        if secret is None:
            raise Unauthenticated(NO_LINK)
        answer = RedirectResponse("/", status_code=303)
        secure = is_secure(request)
        answer.set_cookie(
            SECURE_COOKIE if secure else COOKIE,
            secret,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=secure,
            path="/",
        )
        return answer

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        def leave() -> None:
            caller = service.caller(request)
            service.callers.revoke(caller, caller.key)

        await service.run(leave)
        answer = Response(status_code=204)
        secure = is_secure(request)
        answer.delete_cookie(SECURE_COOKIE if secure else COOKIE, path="/", secure=secure)
        return answer

    @router.get("/")
    async def home(request: Request) -> Response:
        caller = await service.run(lambda: service.caller(request))
        return HTMLResponse(
            f"<!doctype html><title>dibs</title><p>Signed in as {escape(caller.actor)} ({caller.role})."
            ' <a href="/v1/who">who is on what</a> · <a href="/v1/stats">figures</a> · <a href="/openapi.json">API</a>'
        )

    return router


def _is_shared(host: str) -> bool:
    """Whether a cookie for this host would be sent to other programs of the machine, too."""
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() else host).strip("[]") in LOOPBACK
