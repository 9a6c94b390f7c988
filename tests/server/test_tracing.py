"""Spans: named and described as OpenTelemetry's conventions for messaging have it, and none without an SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes

from dibs.server.ops.tracing import OPERATIONS
from dibs.verbs import VERBS
from tests.docs.markdown import code, read, section, table

ROOT = Path(__file__).resolve().parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"
#: A provider cannot be taken back, so each look is a process of its own.
PROGRAM = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from dibs.errors import ItemNotFound, StoreUnavailable
from dibs.server.ops.tracing import traced

REFUSALS = {"missing": ItemNotFound("no"), "away": StoreUnavailable("away"), "broken": RuntimeError("broken")}
for verb, asked, headers, refusal in json.loads(sys.argv[1]):
    try:
        with traced(verb, asked, headers):
            if refusal:
                raise REFUSALS[refusal]
    except Exception as error:
        assert error is REFUSALS[refusal]
print(json.dumps([
    {
        "name": span.name, "kind": span.kind.name, "status": span.status.status_code.name,
        "trace": format(span.context.trace_id, "032x"), "attributes": dict(span.attributes), "events": len(span.events),
    }
    for span in exporter.get_finished_spans()
]))
"""


def spans_of(*asked: tuple[str, dict[str, Any], dict[str, str], str | None]) -> list[dict[str, Any]]:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    spans: list[dict[str, Any]] = json.loads(found.stdout)
    return spans


@pytest.fixture(scope="module")
def spans() -> dict[str, dict[str, Any]]:
    here = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    told = spans_of(
        ("add", {"id": "fix", "title": "Fix", "project": "web"}, here, None),
        ("add_many", {"items": [{}, {}, {}]}, {}, None),
        ("next", {"session": "coder-1", "projects": ["web"], "n": 2}, {}, None),
        ("claim", {"item": "fix", "session": "coder-1"}, {}, None),
        ("done", {"item": "fix", "session": "coder-1", "token": 1}, {}, None),
        ("done_many", {"session": "coder-1", "holding": {"a": 1, "b": 2}}, {}, None),
        ("stats", {}, {}, None),
        ("get", {"item": "none"}, {}, "missing"),
        ("renew", {"item": "fix"}, {}, "away"),
        ("why", {"item": "fix"}, {}, "broken"),
    )
    return {span["attributes"]["messaging.operation.name"]: span for span in told}


@pytest.mark.parametrize(
    ("verb", "name", "kind", "attributes"),
    [
        (
            "add",
            "add web",
            "PRODUCER",
            {"operation.type": "send", "destination.name": "web", "message.id": "fix"},
        ),
        ("add_many", "add_many", "PRODUCER", {"operation.type": "send", "batch.message_count": 3}),
        (
            "next",
            "next web",
            "CLIENT",
            {"operation.type": "receive", "destination.name": "web", "client.id": "coder-1"},
        ),
        ("claim", "claim", "CLIENT", {"operation.type": "receive", "message.id": "fix", "client.id": "coder-1"}),
        ("done", "done", "CLIENT", {"operation.type": "settle", "message.id": "fix", "client.id": "coder-1"}),
        (
            "done_many",
            "done_many",
            "CLIENT",
            {"operation.type": "settle", "batch.message_count": 2, "client.id": "coder-1"},
        ),
        ("stats", "stats", "INTERNAL", {}),
    ],
)
def test_a_verb_is_told_in_the_words_of_messaging(
    spans: dict[str, dict[str, Any]], verb: str, name: str, kind: str, attributes: dict[str, Any]
) -> None:
    span = spans[verb]
    assert (span["name"], span["kind"], span["status"]) == (name, kind, "UNSET")
    assert span["attributes"] == {
        "messaging.system": "dibs",
        "messaging.operation.name": verb,
        **{f"messaging.{word}": value for word, value in attributes.items()},
    }


def test_every_attribute_is_one_of_the_conventions_and_is_documented(spans: dict[str, dict[str, Any]]) -> None:
    known = {value for name, value in vars(messaging_attributes).items() if name.startswith("MESSAGING_")}
    types = {value.value for value in messaging_attributes.MessagingOperationTypeValues}
    used = {name for span in spans.values() for name in span["attributes"]}
    assert {name for name in used if name.startswith("messaging.")} <= known
    assert {operation for operation, _ in OPERATIONS.values()} <= types
    documented = table(section(read("docs/operations/metrics.md"), "## Traces"), "attribute", "value")
    assert {code(name)[0] for name, _ in documented} == used


def test_every_operation_is_a_verb() -> None:
    assert set(OPERATIONS) <= {verb.name for verb in VERBS}


def test_a_refusal_is_an_answer_and_only_what_should_have_worked_is_an_error(
    spans: dict[str, dict[str, Any]],
) -> None:
    told = {verb: (spans[verb]["attributes"]["error.type"], spans[verb]["status"]) for verb in ("get", "renew", "why")}
    assert told == {
        "get": ("TASK_NOT_FOUND", "UNSET"),
        "renew": ("STORE_UNAVAILABLE", "ERROR"),
        "why": ("RuntimeError", "ERROR"),
    }
    assert not any(span["events"] for span in spans.values())


def test_a_span_belongs_to_the_trace_of_its_request(spans: dict[str, dict[str, Any]]) -> None:
    assert spans["add"]["trace"] == TRACE
    assert spans["claim"]["trace"] != TRACE


def test_without_an_sdk_nothing_of_it_is_loaded_and_no_span_is_begun() -> None:
    program = """
import sys
from opentelemetry import trace
from dibs.server.ops import tracing

class Never:
    def start_as_current_span(self, *asked, **more):
        raise AssertionError("a span was begun")

tracing._tracer = Never()
with tracing.traced("claim", {"item": "fix"}, {}):
    pass
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, env=environment)
