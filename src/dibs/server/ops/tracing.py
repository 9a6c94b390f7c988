"""A span for each verb, with the names that messaging systems use, for whoever has OpenTelemetry set up.

A span belongs to the trace that the request names (`traceparent`), if it names one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from dibs.errors import DibsError

SYSTEM = "dibs"
#: What a verb is to a queue: something is put in, taken out, or settled.
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
#: Verbs about many items at once, and what of their request those are.
BATCHES = {"add_many": "items", "done_many": "holding"}
_tracer = trace.get_tracer("dibs")


NO_HEADERS: Mapping[str, str] = {}


@contextmanager
def traced(verb: str, asked: Mapping[str, Any], headers: Mapping[str, str] = NO_HEADERS) -> Iterator[None]:
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # Nobody has set anything up.
        yield
        return
    operation, kind = OPERATIONS.get(verb, (None, SpanKind.INTERNAL))
    destination = _destination(verb, asked)
    name = verb if destination is None else f"{verb} {destination}"
    caller = propagate.extract(headers)
    with _tracer.start_as_current_span(
        name, caller, kind, record_exception=False, set_status_on_exception=False
    ) as span:
        _describe(span, verb, operation, destination, asked)
        try:
            yield
        except DibsError as refusal:
            # A refusal is an answer; only what should have worked is an error.
            span.set_attribute("error.type", refusal.code)
            if refusal.http_status >= 500:
                span.set_status(StatusCode.ERROR, refusal.message)
            raise
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def _describe(span: Span, verb: str, operation: str | None, destination: str | None, asked: Mapping[str, Any]) -> None:
    span.set_attribute("messaging.system", SYSTEM)
    span.set_attribute("messaging.operation.name", verb)
    if operation is not None:
        span.set_attribute("messaging.operation.type", operation)
    if destination is not None:
        span.set_attribute("messaging.destination.name", destination)
    item = asked.get("id") if verb == "add" else asked.get("item")
    for attribute, value in (("messaging.message.id", item), ("messaging.client.id", asked.get("session"))):
        if isinstance(value, str):
            span.set_attribute(attribute, value)
    if verb in BATCHES:
        span.set_attribute("messaging.batch.message_count", len(asked[BATCHES[verb]]))


def _destination(verb: str, asked: Mapping[str, Any]) -> str | None:
    """The project, if the request is about one."""
    if verb == "add":
        return asked.get("project")
    projects: Sequence[str] = asked.get("projects") or ()
    return projects[0] if len(projects) == 1 else None
