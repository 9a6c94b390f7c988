"""Receivers behind TLS: the certificate is checked against the name of the URL, the connection goes to the address that
was checked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dibs.webhooks import addresses, sending
from tests.webhooks.receiver import receiving

pytest.importorskip("cryptography", reason="there is no cryptography on this machine, which makes certificates")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

HOST, OTHER, AUTHORITY = "hook.example", "other.example", "authority"
HEADERS = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": ""}
DAY = timedelta(days=1)


class Signer:
    """Signs certificates under its name."""

    def __init__(self, name: str) -> None:
        self.name, self.key = _name(name), ec.generate_private_key(ec.SECP256R1())

    def certificate(self, host: str, *, days: int = 1) -> bytes:
        """With its key; valid for so many days from now."""
        end = datetime.now(UTC) + days * DAY
        builder = x509.CertificateBuilder(self.name, _name(host), self.key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(end - 3 * DAY).not_valid_after(end)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signed = builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + signed


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def serving_with(certificate: bytes, folder: Path) -> ssl.SSLContext:
    (folder / "server.pem").write_bytes(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signer]:
    """The authority that this system trusts."""
    authority = Signer(AUTHORITY)
    (tmp_path / "trusted.pem").write_bytes(authority.certificate(AUTHORITY))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    sending._tls.cache_clear()
    yield authority
    sending._tls.cache_clear()


def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    assert host == HOST
    return addresses.resolve("127.0.0.1", port)


def post(url: str) -> sending.Outcome:
    url = url.replace("http://127.0.0.1", f"https://{HOST}")
    return sending.post(url, b"{}", HEADERS, allow_private=True, resolve=resolve)


def test_the_receiver_is_asked_and_proved_by_its_name_at_the_address_that_was_checked(
    trusted: Signer, tmp_path: Path
) -> None:
    context, asked = serving_with(trusted.certificate(HOST), tmp_path), []
    context.sni_callback = lambda _, name, __: asked.append(name)
    with receiving(tls=context) as receiver:
        outcome = post(receiver.url)
        assert outcome.failure is None, outcome
        (message,) = receiver.messages
    assert asked == [HOST]
    assert message.headers["host"].partition(":")[0] == HOST


@pytest.mark.parametrize(
    ("by", "host", "days", "why"),
    [
        (AUTHORITY, HOST, -1, "certificate has expired"),
        (AUTHORITY, OTHER, 1, "Hostname mismatch"),
        (HOST, HOST, 1, "self-signed certificate"),
        ("nobody", HOST, 1, "unable to get local issuer certificate"),
    ],
)
def test_a_certificate_that_proves_nothing_is_refused_before_anything_is_sent(
    trusted: Signer, tmp_path: Path, by: str, host: str, days: int, why: str
) -> None:
    signer = trusted if by == AUTHORITY else Signer(by)
    with receiving(tls=serving_with(signer.certificate(host, days=days), tmp_path)) as receiver:
        failure = post(receiver.url).failure or ""
        assert failure.startswith("TLS failed: ")
        assert why.replace("-", " ") in failure.replace("-", " ")
        assert receiver.messages == []
