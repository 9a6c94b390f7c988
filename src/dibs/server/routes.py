"""The native routes: one for each verb of the table, made from the board's own signatures."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from dibs import check, wire
from dibs.access import ADMIN
from dibs.board import Board
from dibs.errors import Invalid, Unauthenticated
from dibs.model import Grant, Owner
from dibs.server import bodies, problems, samples, schemas
from dibs.server.callers import Caller
from dibs.server.document import marked
from dibs.server.keyed import keyed, needs, needs_body
from dibs.server.service import WAIT_SECONDS_MAX, Service
from dibs.server.tracing import traced
from dibs.server.verbs import VERBS, Verb
from dibs.store.contract import Page

IDEMPOTENCY_KEY = "idempotency-key"
#: More is not answered at once.
ANSWER_BYTES_MAX = 16_000_000
FEWER = "ask for fewer with a limit or a filter, or for pages with bytes_max, where there are any"
#: What any verb may be answered with beside what it gives. By reference: a model for each of them on each route would
#: make the server start for half a second.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "description": description,
    }
    for status, description in {
        400: "the item cannot be claimed as it is, or the body cannot be read",
        401: "no key, or one that is not good",
        403: "the key, or the session, may not",
        404: "no such item or session, or nothing claimed",
        408: "the body did not come in time",
        409: "somebody else has it, or there is no room for more",
        410: "the claim expired",
        413: "the body is too large",
        415: "the body is not JSON",
        421: "the server does not go by that name",
        422: "something asked is not valid: `facts.field` says what",
        429: "too fast: see Retry-After",
        503: "the store, or the server, is away for a while: see Retry-After",
    }.items()
}
REFUSALS[409]["content"][problems.MEDIA_TYPE]["example"] = marked(
    problems.body(409, samples.REFUSAL.code, samples.REFUSAL.message, samples.REFUSAL.facts)
)


def native(service: Service) -> APIRouter:
    router = APIRouter(route_class=keyed(service))
    for verb in VERBS:
        _add(router, service, verb)
    return router


def answered(value: Any, *, in_pages: bool = False, newest: bool = False) -> Response:
    """An answer in bytes; one that is too long for that is refused, unless it was asked for in pages. Not for the event
    loop."""
    if not isinstance(value, list | tuple):
        return Response(_json(value), media_type="application/json")
    pieces = _fitting(reversed(value))[::-1] if newest else _fitting(value)
    more = len(pieces) < len(value) or (isinstance(value, Page) and value.more)
    if more and not in_pages:
        # Who does not know of pages would take the first for all there is.
        raise Invalid(f"the answer has over {ANSWER_BYTES_MAX} bytes; {FEWER}", field="limit", fit=len(pieces))
    content = b"[" + b",".join(pieces) + b"]"
    return Response(content, status_code=206 if more else 200, media_type="application/json")


def _fitting(values: Iterable[Any]) -> list[bytes]:
    """As many as fit into an answer, and at least one; what the store counts are characters, of which one can be six
    bytes here. One by one, since nobody else is let in while something is put into JSON."""
    pieces: list[bytes] = []
    size = 0
    for value in values:
        piece = _json(value)
        size += len(piece) + 1
        if size > ANSWER_BYTES_MAX and pieces:
            break
        pieces.append(piece)
    return pieces


def _json(value: Any) -> bytes:
    return json.dumps(wire.encode(value), ensure_ascii=False, separators=(",", ":")).encode()


def _add(router: APIRouter, service: Service, verb: Verb) -> None:
    in_path = tuple(part[1:-1].partition(":")[0] for part in verb.path.split("/") if part.startswith("{"))
    parameters = [_needed("request", Request), *(_needed(name, str) for name in in_path)]
    model = None if verb.method == "GET" else schemas.body_of(verb.name, frozenset(in_path))
    extra = needs(verb.role)
    if verb.method == "GET":
        parameters += _query(verb, in_path)
    elif model is not None:
        extra = needs_body(verb.role, model, required=_says_something(model), example=verb.example)
    if verb.waits:
        parameters.append(_parameter("wait", float | None, Query(None, ge=0, le=WAIT_SECONDS_MAX)))
    endpoint = _endpoint(service, verb, model)
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    router.add_api_route(
        verb.path,
        endpoint,
        methods=[verb.method],
        summary=verb.summary,
        operation_id=verb.name,
        responses={**_answers(verb), **REFUSALS},
        response_model=None,
        tags=[verb.path.split("/")[2]],
        **extra,
    )


def _endpoint(service: Service, verb: Verb, model: type[BaseModel] | None) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request, **given: Any) -> Response:
        wait = given.pop("wait", None)
        request_id = request.headers.get(IDEMPOTENCY_KEY)
        body = None if model is None else await _said(request, model)

        def work(board: Board) -> Response:
            asked = {name: value for name, value in given.items() if value is not None}
            if body is not None:
                asked |= body.model_dump(exclude_unset=True)
            if wait is not None:
                asked["wait_seconds"] = wait
            caller = service.caller(request)
            with traced(verb.name, asked, request.headers):
                found = call(service, board, caller, verb, asked, request_id)
                if wait:
                    take_back_unless_known(service, request, found)
                return answered(found, in_pages="bytes_max" in asked, newest=bool(asked.get("newest")))

        if wait:
            return await service.wait(request, work)
        if verb.method == "GET":
            return await service.read(lambda: work(service.board))
        return await service.run(lambda: work(service.board))

    endpoint.__name__ = verb.name
    return endpoint


def _answers(verb: Verb) -> dict[int | str, dict[str, Any]]:
    answer = samples.described(schemas.answer_of(verb.name))
    if "bytes_max" not in _takes(verb.name):
        return {200: answer}
    more = "as much as `bytes_max` allows: there is more, after the last of these"
    return {200: answer, 206: {**answer, "description": more}}


def _says_something(model: type[BaseModel]) -> bool:
    """A verb that can be used without saying anything needs no body."""
    return any(field.is_required() for field in model.model_fields.values())


async def _said(request: Request, model: type[BaseModel]) -> BaseModel | None:
    return await (bodies.said if _says_something(model) else bodies.said_if_any)(request, model)


def call(
    service: Service, board: Board, caller: Caller, verb: Verb, asked: dict[str, Any], request_id: str | None
) -> Any:
    """Do a verb for a caller, held against what its key allows."""
    takes = _takes(verb.name)
    asked = dict(asked)
    if "actor" in takes and not (caller.role == ADMIN and asked.get("actor")):
        asked["actor"] = caller.actor
    if verb.name == "edit" and caller.role != ADMIN:
        # An agent that renames an action is under another policy.
        asked["relabel"] = False
    if verb.name == "start_session":
        asked = _started_by(service, caller, asked)
    elif verb.method != "GET" and asked.get("session") is not None:
        service.callers.need_session(caller, asked["session"])
    elif verb.name in ("reject", "annotate"):
        # Without a session it is a person's word.
        service.callers.need(caller, ADMIN)
    if verb.name == "annotate" and caller.role != ADMIN and caller.agent is None:
        # It may start sessions of any agent, and so is not known by the agent of its session.
        asked["key"] = caller.key
    if request_id is not None and "request_id" in takes:
        asked["request_id"] = request_id
    if asked.get("wait_seconds"):
        asked["wait_seconds"] = min(asked["wait_seconds"], service.wait_seconds_max)
    if "bytes_max" in takes:
        asked["bytes_max"] = min(asked.get("bytes_max", ANSWER_BYTES_MAX), ANSWER_BYTES_MAX)
    return getattr(board, verb.name)(**asked)


def take_back_unless_known(service: Service, request: Request, found: Any) -> None:
    """What was given to a key that had been revoked by then is nobody's: the last look at it was before the store's
    lock was had."""
    try:
        service.callers.known_now(request)
    except Unauthenticated as refusal:
        for grant in found if isinstance(found, tuple) else (found,):
            if isinstance(grant, Grant) and not grant.renewed:
                claim = grant.claim
                reason = "its key was good no more when it was given"
                service.board.release(claim.item, session=claim.session, token=claim.token, reason=reason)
        raise refusal


@functools.cache
def _takes(verb: str) -> frozenset[str]:
    return frozenset(inspect.signature(getattr(Board, verb)).parameters)


def _started_by(service: Service, caller: Caller, asked: dict[str, Any]) -> dict[str, Any]:
    owner = asked.get("owner")
    service.callers.need_kind(caller, asked.get("kind"))
    if asked.get("id") is not None and caller.agent is not None:
        known = service.board.store.find_session(check.session_id(asked["id"]))
        if known is not None:
            service.callers.takes_up(caller, known)
    return {
        # Where it runs is the caller's to say: this machine is the server's.
        "host": "",
        **asked,
        "agent": service.callers.agent_of(caller, asked.get("agent")),
        "owner": None if owner is None else Owner(**owner),
        "key": None if caller.role == ADMIN else caller.key,
    }


def _query(verb: Verb, in_path: tuple[str, ...]) -> list[inspect.Parameter]:
    found = []
    for name, (hint, default) in schemas.asked_of(verb.name, without=frozenset(in_path)).items():
        example = [verb.example[name]] if name in verb.example else None
        found.append(_parameter(name, hint, Query(default, examples=example)))
    return found


def _needed(name: str, kind: Any) -> inspect.Parameter:
    return _parameter(name, kind, inspect.Parameter.empty)


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
