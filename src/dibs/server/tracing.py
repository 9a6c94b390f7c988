"""A span for each verb, with the names that messaging systems use, for whoever has OpenTelemetry set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from dibs.errors import DibsError

#: What a verb is to a queue: something is put in, taken out, or settled.
OPERATIONS = {
    "add": ("send", SpanKind.PRODUCER),
    "add_many": ("send", SpanKind.PRODUCER),
    "next": ("receive", SpanKind.CONSUMER),
    "claim": ("receive", SpanKind.CONSUMER),
    "recover": ("receive", SpanKind.CONSUMER),
    "done": ("settle", SpanKind.CLIENT),
    "done_many": ("settle", SpanKind.CLIENT),
    "fail": ("settle", SpanKind.CLIENT),
    "submit": ("settle", SpanKind.CLIENT),
    "release": ("settle", SpanKind.CLIENT),
    "reject": ("settle", SpanKind.CLIENT),
}
_tracer = trace.get_tracer("dibs")


@contextmanager
def traced(verb: str, asked: dict[str, Any]) -> Iterator[None]:
    operation, kind = OPERATIONS.get(verb, (None, SpanKind.INTERNAL))
    with _tracer.start_as_current_span(f"{verb} dibs", kind=kind, record_exception=False) as span:
        span.set_attribute("messaging.system", "dibs")
        span.set_attribute("messaging.operation.name", verb)
        if operation is not None:
            span.set_attribute("messaging.operation.type", operation)
        for name, attribute in (("item", "messaging.message.id"), ("session", "messaging.client.id")):
            if isinstance(asked.get(name), str):
                span.set_attribute(attribute, asked[name])
        try:
            yield
        except DibsError as refusal:
            # A refusal is an answer; only what should have worked is an error.
            span.set_attribute("error.type", refusal.code)
            if refusal.http_status >= 500:
                span.set_status(StatusCode.ERROR, refusal.message)
            raise
