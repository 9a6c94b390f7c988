"""A server that encrypts by itself: the command line reaches it, and cookies are for encrypted connections only."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from dibs.server.auth.callers import SECURE_COOKIE
from dibs.server.ops import accepting
from dibs.server.ops.accepting import Acceptor, Room
from dibs.server.ops.open_files import FileLimit
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.process import Serving, serving

MAKE_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    " -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout key.pem -out cert.pem"
)


#: A program that stays, or a command: how many items it sees, or why none.
LOOK = """
import sys, time
from dibs.board import connect
began = time.monotonic()
try:
    print(len(connect(sys.argv[1], lean=sys.argv[2] == "False").list()))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
assert time.monotonic() - began < 8, "asked again, as if it could become better"
"""


def reached(url: str, environment: dict[str, str], *, stays: bool) -> str:
    words = [sys.executable, "-c", LOOK, url, str(stays)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def make_certificate(folder: Path) -> None:
    """And the settings that name it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine, which makes the certificate")
    subprocess.run(MAKE_CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
    (folder / "dibs.toml").write_text('[server]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n')


def status(server: Serving, folder: Path) -> int:
    """Of a request with a key, on a connection of its own."""
    key = json.loads(Path(server.told["key_file"]).read_text())["key"]
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(server), timeout=PATIENCE_SECONDS, context=context)
    try:
        connection.request("GET", "/v1/me", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status
    finally:
        connection.close()


def port_of(server: Serving) -> int:
    return int(server.url.rpartition(":")[2])


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it, which sent nothing."""
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_connections_that_say_nothing_take_no_place_from_others(tmp_path: Path) -> None:
    """More of them than the server has files: it goes on answering others, and closes the silent before a handshake."""
    make_certificate(tmp_path)
    room = FileLimit(files=128)
    places = room.connections_max + room.refused_max
    with serving(tmp_path, "--quiet", files=(room.files, room.files)) as server, ExitStack() as stack:
        silent = []
        for _ in range(3):
            silent += [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(room.files)]
            assert status(server, tmp_path) == 200
        for one in silent:
            stack.callback(one.close)
        assert sum(map(is_closed, silent)) >= len(silent) - places, "no more than there are places for"
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < room.files
        log = server.log()
    assert "socket.accept()" not in log
    assert log.count("\n") <= 1, log


def test_handshakes_that_do_not_go_on_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificate(tmp_path)
    monkeypatch.setattr(accepting, "HANDSHAKE_SECONDS", 0.05)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    room = Room(FileLimit(files=128))

    class Protocol(asyncio.Protocol):
        transport = None

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            acceptor = Acceptor(listener, room, Protocol, context)
            acceptor.start()
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"\x16")
            assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
            acceptor.close()
            writer.close()

    asyncio.run(test())
    assert room.open == 0


def test_a_server_with_a_certificate_is_reached_and_its_cookies_are_secure(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    with serving(tmp_path, "--quiet") as server:
        assert server.url.startswith("https://127.0.0.1:")
        own = {"SSL_CERT_FILE": str(tmp_path / "cert.pem")}
        assert server.dibs("add", "t", **own).returncode == 0
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        for stays in (True, False):
            told = reached(server.url, {**own, "DIBS_KEY": key}, stays=stays)
            assert told == "1", told
            told = reached(server.url, {"DIBS_KEY": key}, stays=stays)
            assert told.startswith("StoreUnusable: the server's certificate is not trusted"), told
            assert "SSL_CERT_FILE" in told
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", int(server.url.rpartition(":")[2]), context=context)
        connection.request("GET", server.told["login"].removeprefix(server.url))
        answer = connection.getresponse()
        assert answer.status == 303
        assert answer.headers["Set-Cookie"].startswith(SECURE_COOKIE)
        assert "=dibsweb_" in answer.headers["Set-Cookie"]
        assert "; Secure" in answer.headers["Set-Cookie"]
        connection.close()
        assert server.stop() == 0
