"""A server that encrypts by itself: the command line reaches it, and cookies are for encrypted connections only."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.server.auth.callers import SECURE_COOKIE
from tests.server.process import serving

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


def test_a_server_with_a_certificate_is_reached_and_its_cookies_are_secure(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine, which makes the certificate")
    subprocess.run(
        MAKE_CERTIFICATE.split(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    (tmp_path / "dibs.toml").write_text('[server]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n')
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
