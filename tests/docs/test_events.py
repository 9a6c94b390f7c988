"""docs/guides/events.md: its figures and names are those of the server."""

from __future__ import annotations

import re

from dibs.model import Event
from dibs.server.compat.session_task_views import EVENTS
from dibs.server.service import STREAMING
from dibs.server.streams import sse
from dibs.server.streams.pages import sse_frames
from tests.docs.markdown import blocks, code, prose, read, table

GUIDE = read("docs/guides/events.md")


def test_the_figures_of_the_guide_are_those_of_the_server() -> None:
    said = " ".join(prose(GUIDE).split())
    for words in (
        f"up to {sse.FILTERS_MAX} times",
        f"nothing was sent for {STREAMING.keep_alive_seconds:.0f} seconds",
        f"nothing was read for {STREAMING.stalled_seconds:.0f} seconds",
        f"{STREAMING.subscribers_max} are listening already",
    ):
        assert words in said, words


def test_the_example_of_the_guide_is_what_a_stream_looks_like() -> None:
    (example,) = blocks(GUIDE, "text")
    opening, *told = example.rstrip("\n").split("\n\n")
    assert sse.opening_frame(41).decode() == opening + "\n\n"
    kinds = dict(re.findall(r"^id: (\d+)\nevent: (\w+)$", example, re.MULTILINE))
    sent = []
    for number, (id, kind) in enumerate(kinds.items(), start=1):
        session = "coder-1" if kind == "claimed" else None
        event = Event(id=int(id), item="fix-login", number=number, kind=kind, at=0, status="", token=1, actor="a")
        sent += sse_frames(event.replace(session=session)).decode().rstrip("\n").split("\n\n")
    assert [re.sub(r'("kind": "\w+", ).*', r"\1...}", one) for one in sent] == told


def test_the_guide_names_the_contract_s_events_and_the_filters() -> None:
    assert {word for word in code(GUIDE) if word.startswith("task:")} == set(EVENTS.values())
    assert [code(name)[0] for name, _ in table(GUIDE, "parameter", "tells only events")] == [
        "project",
        "item",
        "session",
    ]
    assert b"event: stopping\n" in sse.stopping_frame(1)
    assert b": still here\n" in sse.keep_alive_frame(1)
