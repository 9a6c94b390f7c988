"""An OpenTelemetry span for each verb, with the attributes of messaging systems, if a tracer provider is set up.

The span belongs to the trace that the request's `traceparent` header names, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from dibs.errors import DibsError

SYSTEM = "dibs"
#: The verbs that are operations of a queue.
OPERATIONS = {
    "add": ("send", SpanKind.PRODUCER),
    "add_many": ("send", SpanKind.PRODUCER),
    "next": ("receive", SpanKind.CLIENT),
    "claim": ("receive", SpanKind.CLIENT),
    "recover": ("receive", SpanKind.CLIENT),
    "done": ("settle", SpanKind.CLIENT),
    "done_many": ("settle", SpanKind.CLIENT),
    "fail": ("settle", SpanKind.CLIENT),
    "submit": ("settle", SpanKind.CLIENT),
    "release": ("settle", SpanKind.CLIENT),
    "reject": ("settle", SpanKind.CLIENT),
}
#: Verbs about several items, and the parameter that has them.
BATCHES = {"add_many": "items", "done_many": "holding"}
NO_HEADERS: Mapping[str, str] = {}
_tracer = trace.get_tracer("dibs")


@contextmanager
def traced(verb: str, arguments: Mapping[str, Any], headers: Mapping[str, str] = NO_HEADERS) -> Iterator[None]:
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield
        return
    operation, kind = OPERATIONS.get(verb, (None, SpanKind.INTERNAL))
    destination = _destination(verb, arguments)
    name = verb if destination is None else f"{verb} {destination}"
    parent = propagate.extract(headers)
    with _tracer.start_as_current_span(
        name, parent, kind, record_exception=False, set_status_on_exception=False
    ) as span:
        _describe(span, verb, operation, destination, arguments)
        try:
            yield
        except DibsError as refusal:
            # A refusal is an answer; only a failure of the server is an error.
            span.set_attribute("error.type", refusal.code)
            if refusal.http_status >= 500:
                span.set_status(StatusCode.ERROR, refusal.message)
            raise
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def _describe(
    span: Span, verb: str, operation: str | None, destination: str | None, arguments: Mapping[str, Any]
) -> None:
    span.set_attribute("messaging.system", SYSTEM)
    span.set_attribute("messaging.operation.name", verb)
    if operation is not None:
        span.set_attribute("messaging.operation.type", operation)
    if destination is not None:
        span.set_attribute("messaging.destination.name", destination)
    item = arguments.get("id") if verb == "add" else arguments.get("item")
    for attribute, value in (("messaging.message.id", item), ("messaging.client.id", arguments.get("session"))):
        if isinstance(value, str):
            span.set_attribute(attribute, value)
    if verb in BATCHES:
        span.set_attribute("messaging.batch.message_count", len(arguments[BATCHES[verb]]))


def _destination(verb: str, arguments: Mapping[str, Any]) -> str | None:
    """The project, if the request names exactly one."""
    if verb == "add":
        return arguments.get("project")
    projects: Sequence[str] = arguments.get("projects") or ()
    return projects[0] if len(projects) == 1 else None
