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
    def about(self) -> dict[str, Any]:
        if self.has_board:
            return {"capabilities": {"tools": {}}, "instructions": tools.INSTRUCTIONS}
        return {"capabilities": {"tools": {"listChanged": True}}}

    @property
    def tools(self) -> list[tools.Schema]:
        return tools.listed(with_session=self.with_session) if self.has_board else []

    @property
    def cache(self) -> dict[str, Any]:
        return CACHE if self.has_board else NO_CACHE


def answer(request: Request, call_tool: CallTool, offer: Callable[[], Offer]) -> dict[str, Any]:
    """The result of a request."""
    if request.modern:
        require_version(request)
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
        return {"supportedVersions": list(messages.VERSIONS), **offered.about, **offered.cache}
    if method == "initialize" and not request.modern:
        asked = params.get("protocolVersion")
        version = asked if asked in messages.LEGACY else messages.LEGACY[0]
        return {"protocolVersion": version, "serverInfo": SERVER, **offer().about}
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


def require_version(request: Request) -> None:
    """Refuse a modern request of another revision, or one that does not say what its client can do."""
    version = request.meta[messages.VERSION_KEY]
    if version != messages.MODERN:
        raise messages.unsupported(version)
    if not isinstance(request.meta.get(messages.CAPABILITIES_KEY), dict):
        raise RpcError(messages.INVALID_PARAMS, f"_meta lacks {messages.CAPABILITIES_KEY}")
