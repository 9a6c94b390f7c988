"""JSON-RPC as MCP uses it: a message becomes a `Request`, and an answer becomes a message.

Two eras of the protocol share a connection. A modern request (2026-07-28) carries its version and its client in
`_meta`, and depends on no message before it. A legacy client (2025-06-18, 2025-11-25) says `initialize` first.
"""

from __future__ import annotations

import json

from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18")
VERSIONS = (MODERN, *LEGACY)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CLIENT_KEY, SERVER_KEY = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientInfo", f"{_PREFIX}serverInfo"
CAPABILITIES_KEY, SUBSCRIPTION_KEY = f"{_PREFIX}clientCapabilities", f"{_PREFIX}subscriptionId"
#: What a client subscribes to, to be told of other tools.
TOOLS_CHANGED = "toolsListChanged"
#: The longest message. A body of an item has at most a megabyte, which JSON may write six times as long.
MESSAGE_BYTES_MAX = 8_000_000
ID_LENGTH_MAX = 200


class RpcError(Exception):
    """An error of the protocol. `http_status` is its status over HTTP."""

    def __init__(self, code: int, message: str, data: Any = None, http_status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.data, self.http_status = code, message, data, http_status


def unsupported(version: object) -> RpcError:
    data = {"supported": list(VERSIONS), "requested": str(version)[:100]}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


class Request(Value):
    """A request, or without `id` a notification. `meta` is `_meta` of the params, `client` the name that the client
    gave itself in it."""

    id: str | int | None
    method: str
    params: dict[str, Any]
    meta: dict[str, Any]
    modern: bool
    client: str | None


def parse(text: bytes) -> object:
    """The data of one message. NaN and numbers of thousands of digits are no JSON here."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"not JSON: {str(error)[:100]}") from None


def read(message: object) -> Request | None:
    """The request or notification; None for an answer, which nobody asked for."""
    if isinstance(message, list):
        raise RpcError(INVALID_REQUEST, "batches are not supported; send one message at a time")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message is an object with "jsonrpc": "2.0"')
    method, params = message.get("method"), message.get("params", {})
    if method is None and ("result" in message or "error" in message):
        return None
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "the method must be a string")
    if "id" in message and id_of(message) is None:
        raise RpcError(INVALID_REQUEST, f"the id must be an integer or a string of up to {ID_LENGTH_MAX} characters")
    meta = params.get("_meta", {}) if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        raise RpcError(INVALID_PARAMS, "params and its _meta must be objects")
    return Request(
        id=id_of(message),
        method=method,
        params=params,
        meta=meta,
        modern=VERSION_KEY in meta,
        client=client_name(meta.get(CLIENT_KEY)),
    )


def client_name(info: object) -> str | None:
    """The name in what a client says of itself."""
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else None


def id_of(message: object) -> str | int | None:
    """The id of a message, as far as it has a valid one."""
    found = message.get("id") if isinstance(message, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int) or len(str(found)) > ID_LENGTH_MAX:
        return None
    return found


def result(id: str | int | None, found: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": found}


def failure(id: str | int | None, error: RpcError) -> dict[str, Any]:
    """An error response; without an id if the request's cannot be read."""
    about = {"code": error.code, "message": error.message, **({} if error.data is None else {"data": error.data})}
    return {"jsonrpc": "2.0", **({} if id is None else {"id": id}), "error": about}


def progress(token: str | int, number: int, message: str) -> dict[str, Any]:
    params = {"progressToken": token, "progress": number, "message": message}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def subscribed(id: str | int, honored: dict[str, bool]) -> dict[str, Any]:
    """The first message to a modern client that subscribed by the request with this id."""
    params = {"notifications": honored, "_meta": {SUBSCRIPTION_KEY: id}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def tools_changed(id: str | int | None) -> dict[str, Any]:
    """For the subscription with this id; None for a legacy client, which is told without one."""
    about = {} if id is None else {"params": {"_meta": {SUBSCRIPTION_KEY: id}}}
    return {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", **about}


def line(message: dict[str, Any]) -> bytes:
    """A message as one line. A refusal may quote a lone surrogate, which is escaped as JSON does it."""
    return text(message).encode("utf-8", "backslashreplace") + b"\n"


def text(data: Any) -> str:
    """Data as JSON on one line."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
