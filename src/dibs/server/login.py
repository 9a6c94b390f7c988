"""Signing in with a browser: a link that is good once becomes a cookie, which holds a key of its own."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dibs.errors import Unauthenticated
from dibs.server.callers import COOKIE
from dibs.server.service import Service

COOKIE_SECONDS = 12 * 3600


def routes(service: Service, *, secure_hosts: frozenset[str]) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/login")
    async def login(request: Request, code: str = "") -> Response:
        secret = await service.run(lambda: service.callers.signed_in(code, COOKIE_SECONDS))
        if secret is None:
            raise Unauthenticated("this link was used already, or is too old: dibs key link prints another")
        answer = RedirectResponse("/", status_code=303)
        secure = request.headers["host"].lower() in secure_hosts
        answer.set_cookie(
            COOKIE, secret, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", secure=secure, path="/"
        )
        return answer

    @router.post("/logout")
    async def logout(request: Request) -> Response:
        def leave() -> None:
            caller = service.caller(request)
            service.callers.revoke(caller, caller.key)

        await service.run(leave)
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    @router.get("/")
    async def home(request: Request) -> Response:
        caller = await service.run(lambda: service.caller(request))
        return HTMLResponse(
            f"<!doctype html><title>dibs</title><p>Signed in as {escape(caller.actor)} ({caller.role})."
            ' <a href="/v1/who">who is on what</a> · <a href="/v1/stats">figures</a> · <a href="/openapi.json">API</a>'
        )

    return router
