"""`Connection` is made of a class of uvicorn that is none of its interface: so one version of uvicorn is asked for, and
what is taken for granted of it is looked at here. Raising the version means: run this, and `test_security`."""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dibs.server.ops.accepting import Acceptor
from dibs.server.ops.connection import Connection
from dibs.server.ops.run import Server

ROOT = Path(__file__).resolve().parents[2]
#: What it has of its own, which is called by nobody else.
OWN = {"room", "abort", "_count", "_start_timer", "_stop_timer", "_on_timeout", "_leave_to_asgi", "_respond"}
OWN |= {"_use_key", "_has_unanswered", "_add_host_of_target"}
STATE = {"_key", "_timer", "_in_head", "_has_begun", "_head_bytes", "_parsed_bytes", "_arriving", "_ends_head"}
#: What is read and set of a request's state where it is answered without a task, and what else ASGI's way does then.
CYCLE = (
    "more_body",
    "response_complete",
    "scope",
    "body",
    "waiting_for_100_continue",
    "disconnected",
    "keep_alive",
    "response_started",
    "on_response",
)
COMPLETION = """
                self.response_complete = True
                self.message_event.set()
                if not self.keep_alive:
                    self.transport.close()
                self.on_response()
"""


def test_the_one_version_that_is_known_is_asked_for_and_there() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["server"]
    assert f"uvicorn=={version('uvicorn')}" in needed


def test_everything_that_is_overridden_is_there_with_the_same_parameters() -> None:
    overridden = {name for name in vars(Connection) if not name.startswith("__")} - OWN - STATE
    assert {"data_received", "on_headers_complete", "on_response_complete", "send_400_response"} <= overridden
    for name in overridden:
        ours, theirs = getattr(Connection, name), getattr(HttpToolsProtocol, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), name


def test_nothing_that_is_its_own_is_one_of_uvicorns_too() -> None:
    source = inspect.getsource(HttpToolsProtocol)
    for name in OWN | STATE:
        assert not hasattr(HttpToolsProtocol, name), name
        assert f"self.{name} " not in source, name


def test_what_it_reads_of_uvicorns_state_is_there() -> None:
    made = inspect.getsource(HttpToolsProtocol.__init__)
    for name in ("connections", "scope", "transport", "loop", "app", "flow", "headers", "cycle", "pipeline"):
        assert f"self.{name}" in made, name
    assert "self.url = " in inspect.getsource(HttpToolsProtocol.on_message_begin)
    assert "self.write_paused" in inspect.getsource(FlowControl.__init__)


def test_an_answer_without_a_task_completes_a_request_as_uvicorn_does() -> None:
    made = inspect.getsource(RequestResponseCycle.__init__)
    for name in CYCLE:
        assert f"self.{name} =" in made, name
    assert COMPLETION in inspect.getsource(RequestResponseCycle.send)


def test_it_makes_connections_as_uvicorn_does_and_accepts_none_itself() -> None:
    made = inspect.getsource(uvicorn.Server.startup)
    for argument in ("config=config", "server_state=self.server_state", "app_state=self.lifespan.state"):
        assert argument in made, argument
    assert "for sock in sockets:" in made, "without sockets it listens nowhere"
    assert "self.transport: asyncio.Transport = None" in inspect.getsource(HttpToolsProtocol.__init__)
    assert {"startup", "shutdown"} <= vars(Server).keys()
    assert "connect_accepted_socket" in inspect.getsource(Acceptor)
