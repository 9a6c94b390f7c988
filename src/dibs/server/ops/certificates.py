"""The certificate of a server: when it expires, and loaded anew when it was renewed.

The files are looked at from time to time, and on SIGHUP. Connections that are open keep the certificate that they
began with.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from calendar import timegm

from dibs.errors import Invalid

#: How often the files are looked at.
LOOK_SECONDS = 60.0
SEQUENCE, CONTEXT_0, UTC_TIME = 0x30, 0xA0, 0x17
PEM_END = "-----END CERTIFICATE-----"


class Certificate:
    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._context: ssl.SSLContext | None = None
        try:
            self._seen = self._stamp()
            self.expires_at = expires_at(certificate)
        except (OSError, ValueError) as error:
            raise Invalid(f"the certificate {certificate} cannot be read: {error}", field="tls_cert") from error

    def use_in(self, context: ssl.SSLContext) -> None:
        """Load renewed files into the context that this server's connections get."""
        self._context = context

    def tell_if_expired(self) -> None:
        if self.expires_at <= time.time():
            text = "the certificate %s has expired at %s: clients refuse it"
            logging.warning(text, self._files[0], _written(self.expires_at))

    def reload_if_changed(self) -> None:
        try:
            changed = self._stamp() != self._seen
        except OSError:
            return  # it is being replaced
        if changed:
            self.reload()

    def reload(self) -> None:
        """Use what is in the files for new connections. What cannot be used changes nothing."""
        seen: object = None
        try:
            seen, expires = self._stamp(), expires_at(self._files[0])
            # Both are tried first: a certificate without its key would leave the server without either.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files, password=_no_password)
            if self._context is not None:
                self._context.load_cert_chain(*self._files, password=_no_password)
        except (OSError, ValueError) as error:
            text = "the certificate %s was not loaded, and the one before stays in use: %s"
            logging.warning(text, self._files[0], " ".join(str(error).split()))
            self._seen = seen
            return
        self._seen, self.expires_at = seen, expires
        logging.warning(
            "the certificate %s was loaded; it expires at %s",
            self._files[0],
            _written(expires),
            extra={"facts": {"certificate": "loaded"}},
        )
        self.tell_if_expired()

    def _stamp(self) -> object:
        return [(found.st_ino, found.st_mtime_ns, found.st_size) for found in map(os.stat, self._files)]


def _no_password() -> str:
    """A server has nobody who could type one; OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted; a server needs one without a password")


def expires_at(path: str) -> float:
    """When the first certificate of a file expires, in seconds since 1970."""
    with open(path, encoding="latin-1") as file:
        text = file.read()
    begin = text.find("-----BEGIN CERTIFICATE-----")
    if begin < 0:
        raise ValueError("there is no certificate in the file")
    der = ssl.PEM_cert_to_DER_cert(text[begin : text.index(PEM_END, begin) + len(PEM_END)])
    return _not_after(der)


def _not_after(der: bytes) -> float:
    """The end of the validity in an X.509 certificate: the second time of the fourth field (see RFC 5280, 4.1)."""
    _, certificate, _ = _field(der)
    _, fields, _ = _field(certificate)
    tag, _, rest = _field(fields)
    if tag != CONTEXT_0:
        rest = fields  # version 1 has no version
    for _ in ("serial number", "signature", "issuer"):
        _, _, rest = _field(rest)
    _, validity, _ = _field(rest)
    _, _, after = _field(validity)
    tag, text, _ = _field(after)
    # Two digits of a year are of this century or, from 50 on, of the last one.
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return float(timegm(time.strptime(text.decode("ascii"), form)))


def _field(der: bytes) -> tuple[int, bytes, bytes]:
    """The tag and the content of the first field, and what follows it."""
    if len(der) < 2:
        raise ValueError("the certificate is cut short")
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    return der[0], der[start : start + length], der[start + length :]


def _written(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
