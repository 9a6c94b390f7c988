"""A certificate that is renewed is used without a restart; one that cannot be used, or has expired, is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from dibs.board import make
from dibs.errors import Invalid
from dibs.server.ops import certificates
from dibs.server.ops.certificates import Certificate
from tests.kit.waiting import until
from tests.server.process import Serving, serving
from tests.server.test_tls import make_certificate, port_of
from tests.server.test_workers import database as database  # a fixture

EXPIRED = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days {days}"
    " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


def shown(server: Serving) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port_of(server)), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""


def at(folder: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert((folder / "cert.pem").read_text())


def messages(server: Serving) -> list[str]:
    return [line["message"] for line in map(json.loads, server.log().splitlines())]


def test_a_hangup_loads_the_renewed_certificate(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    first = at(tmp_path)
    with serving(tmp_path, "--quiet", "--log-json") as server:
        assert shown(server) == first
        make_certificate(tmp_path)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: shown(server) == at(tmp_path), "the new certificate is shown")
        assert at(tmp_path) != first
        until(lambda: len(messages(server)) == 1, "the log says so")
        assert "cert.pem was loaded; it expires at" in messages(server)[0]
        last = at(tmp_path)
        (tmp_path / "key.pem").write_text("no key")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: len(messages(server)) == 2, "the log says that it was not loaded")
        assert "the one before stays in use" in messages(server)[1]
        assert shown(server) == last
        assert server.stop() == 0


def test_workers_load_it_too(tmp_path: Path, database: str) -> None:
    make_certificate(tmp_path)
    make(database)
    with serving(tmp_path, "--quiet", "--log-json", "--workers", "2", store=database) as server:
        until(lambda: shown(server) == at(tmp_path), "the workers have started")
        make_certificate(tmp_path)
        until(lambda: hung_up(server) and len(messages(server)) >= 2, "each worker has loaded it")
        assert {shown(server) for _ in range(20)} == {at(tmp_path)}
        assert server.stop() == 0


def hung_up(server: Serving) -> bool:
    """A worker that has not begun to listen yet has to be told again."""
    if len(messages(server)) < 2:
        server.process.send_signal(signal.SIGHUP)
    return True


def test_a_server_without_a_certificate_survives_a_hangup(tmp_path: Path) -> None:
    with serving(tmp_path, "--quiet") as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.dibs("add", "An item").returncode == 0
        assert server.stop() == 0


def test_a_changed_file_is_found_without_a_signal(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    files = (str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    certificate = Certificate(*files)
    certificate.use_in(context)
    before = certificate.expires_at
    make_expiring(tmp_path, days=90)
    certificate.reload_if_changed()
    assert certificate.expires_at - before > 80 * 86400
    os.unlink(files[0])
    certificate.reload_if_changed()  # it is being replaced


def make_expiring(folder: Path, *, days: int) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine, which makes the certificate")
    made = subprocess.run(EXPIRED.format(days=days).split(), cwd=folder, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("this openssl makes no certificate of the past")
    (folder / "dibs.toml").write_text('[server]\ntls_cert = "cert.pem"\ntls_key = "key.pem"\n')


def test_the_end_of_a_certificate_is_read_as_openssl_reads_it(tmp_path: Path) -> None:
    for days in (1, 9000, 20_000):  # from 2050 on the time is written in another way
        make_expiring(tmp_path, days=days)
        words = ["openssl", "x509", "-in", str(tmp_path / "cert.pem"), "-noout", "-enddate"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        found = certificates.expires_at(str(tmp_path / "cert.pem"))
        assert found == ssl.cert_time_to_seconds(told.removeprefix("notAfter="))


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\n", certificates.PEM_END])
def test_a_file_without_a_certificate_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "cert.pem").write_text(text)
    (tmp_path / "key.pem").write_text("")
    with pytest.raises(Invalid, match="cannot be read"):
        Certificate(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))


def test_a_server_with_an_expired_certificate_says_so(tmp_path: Path) -> None:
    make_expiring(tmp_path, days=0)
    with serving(tmp_path, "--quiet", "--log-json") as server:
        (told,) = messages(server)
        assert "has expired at" in told
