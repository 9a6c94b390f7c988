"""The blocks for nginx and Caddy in docs/guides/server.md, tried with the real programs on loopback: the port of the
host, large bodies, and events as they happen."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.board import connect
from tests.docs.markdown import blocks, read
from tests.kit.postgres_server import free_port
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.process import Serving, serving

GUIDE = read("docs/guides/server.md")
SERVER = "127.0.0.1:8377"
#: More than nginx takes by default.
LARGE_BYTES = 3_000_000
NGINX = """daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {block}
    }}
}}
"""


def nginx(folder: Path, port: int, block: str) -> list[str]:
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, block=block))
    return ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]


def caddy(folder: Path, port: int, block: str) -> list[str]:
    plain = block.replace("board.example.org", f"http://127.0.0.1:{port}")
    (folder / "Caddyfile").write_text("{\n    admin off\n    auto_https off\n}\n" + plain)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    home = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "PATH": "/usr/sbin:/usr/bin",
    }
    with open(folder / "proxy.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=home, stdout=log, stderr=log)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while not listens(port):
            assert process.poll() is None, (folder / "proxy.log").read_text()
            assert time.monotonic() < end, (folder / "proxy.log").read_text()
            time.sleep(0.02)  # bounded polling of another program
        yield
    finally:
        # Asked to stop, Caddy would wait for the streams to end.
        process.kill()
        process.wait(PATIENCE_SECONDS)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Client:
    def __init__(self, port: int, key: str) -> None:
        self._port, self._headers = port, {"Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        with closing(self.connected()) as connection:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, self._headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def events(self, then: Callable[[], object]) -> str:
        """The first event of a stream that is listened to, after something happened."""
        with closing(self.connected()) as connection:
            connection.request("GET", "/api/events", headers=self._headers)
            answer = connection.getresponse()
            assert answer.status == 200
            then()
            while not (line := answer.readline().decode()).startswith("data:"):
                assert line, "the stream ended"
            return line

    def connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(("language", "made"), [("nginx", nginx), ("caddy", caddy)])
def test_the_block_of_a_proxy_passes_host_bodies_and_events(
    tmp_path: Path, language: str, made: Callable[[Path, int, str], list[str]]
) -> None:
    if shutil.which(language, path="/usr/sbin:/usr/bin:/usr/local/bin") is None:
        pytest.skip(f"there is no {language} on this machine")
    (block,) = blocks(GUIDE, language)
    port = free_port()
    with serving(tmp_path, "--quiet", "--name", f"127.0.0.1:{port}") as server:
        behind = block.replace(SERVER, server.url.rpartition("/")[2])
        assert behind != block
        folder = tmp_path / "proxy"
        folder.mkdir()
        with running(made(folder, port, behind), folder, port):
            check(server, Client(port, json.loads(Path(server.told["key_file"]).read_text())["key"]))


def check(server: Serving, client: Client) -> None:
    status, text = client.ask("GET", "/v1/stats")
    assert status == 200, text
    large = {"title": "Large", "id": "large", "body": "x" * LARGE_BYTES}
    status, text = client.ask("POST", "/v1/items", large)
    assert (status, json.loads(text)["code"]) == (422, "INVALID"), "dibs refuses the text, and no proxy the request"
    with closing(connect(server.told["store"])) as board:
        assert "told" in client.events(lambda: board.add("Told", id="told"))
