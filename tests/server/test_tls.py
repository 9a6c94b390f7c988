"""A server that encrypts by itself: the command line reaches it, and cookies are for encrypted connections only."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.server.process import serving

MAKE_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    " -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout key.pem -out cert.pem"
)


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
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", int(server.url.rpartition(":")[2]), context=context)
        connection.request("GET", server.told["login"].removeprefix(server.url))
        answer = connection.getresponse()
        assert answer.status == 303
        assert "Secure" in answer.headers["Set-Cookie"]
        connection.close()
        assert server.stop() == 0
