"""The methods of an MCP server that has tools and nothing else, the same for stdio and for HTTP."""

from __future__ import annotations

from dibs import __version__
from dibs.mcp import messages, tools
from dibs.mcp.messages import RpcError
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.mcp.messages import Request

    #: Calls a tool with its arguments; returns the text of the answer, and whether it is a refusal.
    CallTool = Callable[[tools.Tool, Any], tuple[str, bool]]

SERVER = {"name": "dibs", "title": "dibs: a work board for fleets of agents", "version": __version__}
#: How long a client may keep what a server offers: with a board it changes only with the version of dibs.
CACHE = {"ttlMs": 300_000, "cacheScope": "public"}
NO_CACHE = {"ttlMs": 0, "cacheScope": "private"}


class Offer(Value):
    """What a server tells its client about itself: without a board, nothing that a model would pay for.
    `with_session`: only an argument can name the session of a call."""

    has_board: bool = True
    with_session: bool = False

    @property
    def instructions(self) -> dict[str, str]:
        return {"instructions": tools.INSTRUCTIONS} if self.has_board else {}

    @property
    def tools(self) -> list[tools.Schema]:
        return tools.listed(with_session=self.with_session) if self.has_board else []

    @property
    def cache(self) -> dict[str, Any]:
        return CACHE if self.has_board else NO_CACHE


def answer(request: Request, call_tool: CallTool, offer: Callable[[], Offer]) -> dict[str, Any]:
    """The result of a request."""
    if request.modern:
        _require_version(request)
    found = _result(request, call_tool, offer)
    if request.modern:
        return {"resultType": "complete", **found, "_meta": {messages.SERVER_KEY: SERVER}}
    return found


def _result(request: Request, call_tool: CallTool, offer: Callable[[], Offer]) -> dict[str, Any]:
    method, params = request.method, request.params
    if method == "tools/call":
        return _call(request, call_tool)
    if method == "tools/list":
        offered = offer()
        return {"tools": offered.tools, **(offered.cache if request.modern else {})}
    if method == "server/discover":
        if not request.modern:
            raise RpcError(messages.INVALID_PARAMS, f"_meta lacks {messages.VERSION_KEY}")
        offered = offer()
        about = {"supportedVersions": list(messages.VERSIONS), "capabilities": {"tools": {}}}
        return {**about, **offered.instructions, **offered.cache}
    if method == "initialize" and not request.modern:
        asked = params.get("protocolVersion")
        version = asked if asked in messages.LEGACY else messages.LEGACY[0]
        offered = offer()
        # A modern client would have to subscribe; it is told by `cache` not to keep the empty list.
        capabilities = {"tools": {} if offered.has_board else {"listChanged": True}}
        about = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": SERVER}
        return {**about, **offered.instructions}
    if method == "ping" and not request.modern:
        return {}
    raise RpcError(messages.METHOD_NOT_FOUND, f"there is no method {method[:100]!r}", http_status=404)


def _call(request: Request, call_tool: CallTool) -> dict[str, Any]:
    name = request.params.get("name")
    tool = tools.BY_NAME.get(name) if isinstance(name, str) else None
    if tool is None:
        known = ", ".join(tools.BY_NAME)
        raise RpcError(messages.INVALID_PARAMS, f"there is no tool {str(name)[:100]!r}; there are {known}")
    arguments = request.params.get("arguments")
    text, is_error = call_tool(tool, {} if arguments is None else arguments)
    # No structuredContent: some clients show the model that and others the text, and both would be sent.
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if is_error else {})}


def _require_version(request: Request) -> None:
    version = request.meta[messages.VERSION_KEY]
    if version != messages.MODERN:
        raise messages.unsupported(version)
    if not isinstance(request.meta.get(messages.CAPABILITIES_KEY), dict):
        raise RpcError(messages.INVALID_PARAMS, f"_meta lacks {messages.CAPABILITIES_KEY}")
