"""One route for each verb of the table, made from the board's signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from dibs import check
from dibs.board import Board
from dibs.errors import Invalid, Unauthenticated
from dibs.model import ADMIN, Grant, Owner
from dibs.rules import items
from dibs.server.api import bodies, schemas
from dibs.server.api.endpoints import AuthRoute, describe, describe_answer
from dibs.server.api.examples import REQUESTS
from dibs.server.api.responses import ANSWER_BYTES_MAX, accepts_gzip, answer
from dibs.server.auth.callers import Caller
from dibs.server.ops.tracing import traced
from dibs.server.service import WAIT_SECONDS_MAX, Service
from dibs.store.contract import page
from dibs.verbs import BY_NAME, VERBS, Verb

#: The verbs that a fleet calls all day.
HOT = ("heartbeat", "next", "claim", "done", "progress", "release")
#: Verbs about many items in one transaction, and reads of one record.
LONG = ("add_many", "bulk", "done_many")
OF_ONE = ("get", "ticket", "why", "find_session")
#: What one page of a list has, and what can be asked for without pages.
PAGE_RECORDS, WHOLE_RECORDS = 2_000, 10_000
IDEMPOTENCY_KEY = "idempotency-key"
MORE = f"a page, as large as `bytes_max` allows, of up to {PAGE_RECORDS} elements; more follows after its last one"


def routes(service: Service) -> APIRouter:
    router = APIRouter(route_class=AuthRoute)
    for verb in VERBS:
        _add(router, service, verb)
    return router


def _add(router: APIRouter, service: Service, verb: Verb) -> None:
    in_path = _in_path(verb)
    parameters = [_parameter("request", Request), *(_parameter(name, str) for name in in_path)]
    model, example = None, REQUESTS.get(verb.name, {})
    if verb.method == "GET":
        for name, (hint, default) in schemas.parameters_of(verb.name, without=frozenset(in_path)).items():
            # `from_` is `from` in a query: Python reserves the word.
            asked = name.rstrip("_")
            examples = [example[asked]] if asked in example else None
            parameters.append(_parameter(name, hint, Query(default, alias=asked, examples=examples)))
    else:
        model = model_of(verb)
    if verb.waits:
        parameters.append(_parameter("wait", float | None, Query(None, ge=0, le=WAIT_SECONDS_MAX)))
    endpoint = _endpoint(service, verb, model)
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    required = model is not None and _is_required(model)
    result = schemas.answer_of(verb.name)
    described = describe(
        verb.name, verb.summary, result, verb.role, body=model, body_required=required, body_example=example
    )
    if "bytes_max" in _parameters(verb.name):
        described["responses"][206] = {**describe_answer(result), "description": MORE}
    router.add_api_route(verb.path, endpoint, methods=[verb.method], tags=[verb.path.split("/")[2]], **described)


def _in_path(verb: Verb) -> tuple[str, ...]:
    return tuple(part[1:-1].partition(":")[0] for part in verb.path.split("/") if part.startswith("{"))


@functools.cache
def model_of(verb: Verb) -> type[BaseModel] | None:
    """The model of the body."""
    return schemas.body_of(verb.name, frozenset(_in_path(verb)))


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


@functools.cache
def _parameters(verb: str) -> frozenset[str]:
    return frozenset(inspect.signature(getattr(Board, verb)).parameters)


def _is_required(model: type[BaseModel]) -> bool:
    """A verb whose parameters are all optional needs no body."""
    return any(field.is_required() for field in model.model_fields.values())


def _endpoint(service: Service, verb: Verb, model: type[BaseModel] | None) -> Callable[..., Awaitable[Response]]:
    is_required = model is not None and _is_required(model)

    async def endpoint(request: Request, **parameters: Any) -> Response:
        wait = parameters.pop("wait", None)
        if wait is not None:
            parameters["wait_seconds"] = wait
        body = {}
        if model is not None:
            body = await bodies.read_arguments(service.long_work, request, model, is_required=is_required)
        asked = VerbCall(service, verb, request, parameters, body)
        if wait:
            return await service.wait(request, lambda board: asked.respond(asked.find(board)))
        if verb.method == "GET":
            read = service.read_one if verb.name in OF_ONE else service.read
            return await read(lambda: asked.respond(asked.find(service.board)))
        if verb.name in HOT and bodies.is_small(request):
            return await service.run_hot(asked.find, asked.respond)
        is_long = verb.name in LONG or not bodies.is_small(request)
        return await service.run(lambda: asked.respond(asked.find(service.board)), is_long=is_long)

    endpoint.__name__ = verb.name
    return endpoint


class VerbCall:
    """A request for a verb, of which everything has been read."""

    def __init__(
        self, service: Service, verb: Verb, request: Request, parameters: dict[str, Any], body: dict[str, Any]
    ) -> None:
        self._service, self._verb, self._request = service, verb, request
        self._arguments = {name: value for name, value in parameters.items() if value is not None} | body

    def find(self, board: Board) -> Any:
        """Call the verb. The key is checked again: it may have been revoked since the request was admitted."""
        request, arguments = self._request, self._arguments
        caller = self._service.caller(request, board)
        with traced(self._verb.name, arguments, request.headers):
            request_id = request.headers.get(IDEMPOTENCY_KEY)
            found = call(self._service, board, caller, self._verb, arguments, request_id)
            if arguments.get("wait_seconds"):
                release_if_revoked(self._service, request, found)
            return found

    def respond(self, found: Any) -> Response:
        in_pages, newest = "bytes_max" in self._arguments, bool(self._arguments.get("newest"))
        return answer(found, in_pages=in_pages, newest=newest, gzipped=accepts_gzip(self._request))


def call(
    service: Service, board: Board, caller: Caller, verb: Verb, arguments: dict[str, Any], request_id: str | None
) -> Any:
    """Call a verb of the board, as far as the caller's key allows."""
    accepted = _parameters(verb.name)
    arguments = dict(arguments)
    if "actor" in accepted and not (caller.role == ADMIN and arguments.get("actor")):
        arguments["actor"] = caller.actor
    if verb.name == "edit" and caller.role != ADMIN:
        # An agent that changes an item's action could escape its policy.
        arguments["relabel"] = False
    if verb.name in ("add", "add_many", "claim_subject") and caller.role != ADMIN:
        # What GitHub is taken to have said decides about the result.
        for new in arguments.get("items") or (arguments,):
            items.refuse_invented(new)
    if verb.name == "bulk":
        wanted = BY_NAME.get(arguments["verb"], verb)
        # Without a session, the caller rejects as a person.
        service.callers.require_role(caller, ADMIN if wanted.name == "reject" else wanted.role)
    if verb.name == "start_session":
        arguments = _session_arguments(service, caller, arguments)
    elif verb.method != "GET" and arguments.get("session") is not None:
        service.callers.require_session(caller, arguments["session"], board)
    elif verb.name in ("reject", "annotate"):
        # Without a session, the caller acts as a person.
        service.callers.require_role(caller, ADMIN)
    if verb.name == "annotate" and caller.role != ADMIN and caller.agent is None:
        # Such a key may start sessions of any agent, so the agent does not show that the run is the caller's.
        arguments["key"] = caller.line
    if request_id is not None and "request_id" in accepted:
        arguments["request_id"] = request_id
    if arguments.get("wait_seconds"):
        arguments["wait_seconds"] = min(arguments["wait_seconds"], service.wait_seconds_max)
    page_records = _page_records(arguments) if {"bytes_max", "limit"} <= accepted else None
    if page_records is not None:
        arguments["limit"] = page_records
    if "bytes_max" in accepted:
        arguments["bytes_max"] = min(arguments.get("bytes_max", ANSWER_BYTES_MAX), ANSWER_BYTES_MAX)
    found = getattr(board, verb.name)(**arguments)
    if page_records is not None:
        return page(found, more=found.more or len(found) == page_records)
    return found.replace(me={"role": caller.role, "actor": caller.actor}) if verb.name == "view" else found


def _page_records(arguments: dict[str, Any]) -> int | None:
    """The records of one page, if the caller asked for pages and more at a time. The end of the feed has no pages."""
    limit = arguments.get("limit")
    if limit is None or arguments.get("newest"):
        return None
    if "bytes_max" in arguments:
        return PAGE_RECORDS if check.limit(limit) > PAGE_RECORDS else None
    if check.limit(limit) > WHOLE_RECORDS:
        text = f"limit is at most {WHOLE_RECORDS} over HTTP; with bytes_max there are pages, and more after the last"
        raise Invalid(text, field="limit", fit=WHOLE_RECORDS)
    return None


def release_if_revoked(service: Service, request: Request, found: Any) -> None:
    """Release the claims of this answer if the key was revoked before the store granted them: the last check of the
    key came before the store's lock."""
    try:
        service.callers.reauthenticate(request)
    except Unauthenticated as refusal:
        for grant in found if isinstance(found, tuple) else (found,):
            if isinstance(grant, Grant) and not grant.renewed:
                claim = grant.claim
                reason = "its key had been revoked when the claim was granted"
                service.board.release(claim.item, session=claim.session, token=claim.token, reason=reason)
        raise refusal


def _session_arguments(service: Service, caller: Caller, arguments: dict[str, Any]) -> dict[str, Any]:
    owner = arguments.get("owner")
    service.callers.require_kind(caller, arguments.get("kind"))
    service.callers.require_free_id(caller, arguments.get("id"))
    if arguments.get("parent") is not None:
        # The end of the parent releases the claims of its children.
        service.callers.require_session(caller, check.name(arguments["parent"], "parent"))
    if arguments.get("id") is not None and caller.agent is not None:
        known = service.board.store.find_session(check.name(arguments["id"], "id"))
        if known is not None:
            service.callers.bind_sql_session(caller, known)
    return {
        # Not this machine's name: only the caller knows where the session runs.
        "host": "",
        **arguments,
        "agent": service.callers.agent_for(caller, arguments.get("agent")),
        "owner": None if owner is None else Owner(**owner),
        "key": caller.session_key,
    }
