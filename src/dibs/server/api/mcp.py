"""`/mcp`: the tools of the board for models, as streamable HTTP of the Model Context Protocol.

Each request stands for itself: there are no sessions of the protocol, and a call names the session that it acts as.
The key decides what a call may do, as on every other route. An answer is one JSON object; a request whose client
disconnects is cancelled.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dibs.board import Board
from dibs.errors import DibsError, Forbidden, Invalid
from dibs.mcp import calls, messages, protocol, tools
from dibs.mcp.messages import RpcError
from dibs.model import VIEWER
from dibs.server.api import bodies, verb_routes
from dibs.server.api.endpoints import ROLE, AuthRoute
from dibs.server.api.responses import JSON
from dibs.server.ops.tracing import traced
from dibs.server.service import Service
from dibs.verbs import BY_NAME

PATH = "/mcp"
VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
OFFER = protocol.Offer(with_session=True)
WHEN_ANOTHERS = "choose another id as session"
WHEN_ENDED = "choose another id as session, and call next"
#: How clients write a header that is not plain ASCII.
ENCODED_START, ENCODED_END = "=?base64?", "?="


def routes(service: Service) -> APIRouter:
    router = APIRouter(route_class=AuthRoute)

    # Not in the OpenAPI document: MCP has a description of its own, `tools/list`.
    @router.post(PATH, include_in_schema=False, openapi_extra={ROLE: VIEWER})
    async def mcp(request: Request) -> Response:
        message: object = None
        try:
            message = await _read(service, request)
            rpc = messages.read(message)
            if rpc is None or rpc.id is None:
                return Response(status_code=202)
            _check_headers(rpc, request.headers)
            return _response(messages.result(rpc.id, await _answer(service, request, rpc)))
        except RpcError as error:
            return _response(messages.failure(messages.id_of(message), error), error.http_status)

    return router


async def _read(service: Service, request: Request) -> object:
    try:
        return await bodies.read_data(service.long_work, request)
    except Invalid as error:
        raise RpcError(messages.PARSE_ERROR, error.message) from None


async def _answer(service: Service, request: Request, rpc: messages.Request) -> dict[str, Any]:
    def work(board: Board) -> dict[str, Any]:
        def call_tool(tool: tools.Tool, arguments: Any) -> tuple[str, bool]:
            return _call(service, board, request, rpc, tool, arguments)

        return protocol.answer(rpc, call_tool, lambda: OFFER)

    if tools.blocks(rpc):
        return await service.wait(request, work)
    tool = tools.BY_NAME.get(str(rpc.params.get("name")))
    if tool is None or not tool.reads:
        return await service.run(lambda: work(service.board), is_long=not bodies.is_small(request))
    read = service.read_one if tool.verb in verb_routes.OF_ONE else service.read
    return await read(lambda: work(service.board))


def _call(
    service: Service, board: Board, request: Request, rpc: messages.Request, tool: tools.Tool, arguments: Any
) -> tuple[str, bool]:
    caller = service.caller(request)

    def verb(name: str, **given: Any) -> Any:
        known = BY_NAME[name]
        service.callers.require_role(caller, known.role)
        with traced(name, given, request.headers):
            try:
                return verb_routes.call(service, board, caller, known, given, None)
            except Forbidden as error:
                if error.facts.get("session") == acting.session is not None:
                    error.facts["do"] = WHEN_ANOTHERS
                raise

    try:
        session = calls.session_of_argument(arguments) or calls.session_of_meta(rpc)
    except DibsError as error:
        return calls.refusal(error), True
    acting = calls.Acting(verb, session, caller.agent or calls.agent_of(rpc.client), when_ended=WHEN_ENDED)
    answer = calls.answer(tool, arguments, acting)
    if tools.blocks(rpc):
        verb_routes.release_if_revoked(service, request, tuple(acting.granted))
    return answer


def _check_headers(rpc: messages.Request, headers: Mapping[str, str]) -> None:
    """Headers that repeat a part of the body must agree with it: a proxy may have decided by the header."""
    version = headers.get(VERSION_HEADER)
    if not rpc.modern:
        if version == messages.MODERN:
            raise RpcError(messages.INVALID_PARAMS, f"_meta lacks {messages.VERSION_KEY}")
        if version is not None and version not in messages.LEGACY:
            raise messages.unsupported(version)
        return
    expected = {VERSION_HEADER: rpc.meta[messages.VERSION_KEY], METHOD_HEADER: rpc.method}
    if rpc.method == "tools/call":
        expected[NAME_HEADER] = rpc.params.get("name")
    for name, value in expected.items():
        if _decoded(headers.get(name)) != value:
            raise RpcError(messages.HEADER_MISMATCH, f"the header {name} must be there and agree with the body")


def _decoded(value: str | None) -> str | None:
    value = None if value is None else value.strip(" \t")
    if value is None or not (value.startswith(ENCODED_START) and value.endswith(ENCODED_END)):
        return value
    try:
        return base64.b64decode(value[len(ENCODED_START) : -len(ENCODED_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _response(message: dict[str, Any], status: int = 200) -> Response:
    return Response(messages.line(message), status_code=status, media_type=JSON)
