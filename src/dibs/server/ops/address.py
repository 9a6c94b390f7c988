"""Where a server listens, and by which names it goes. Light enough to be asked before anything heavy is loaded."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.config import ServerSettings
from dibs.errors import Invalid
from dibs.files.keyring import PAGES_DOMAIN
from dibs.value import Value

LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Addresses that stand for every one the machine has, and are nobody's name.
EVERY = ("0.0.0.0", "::")
BACKLOG = 2048
REACH_SECONDS = 2.0


class Place(Value):
    """Where a server listens, and by which names it goes: `board.example.org`, `board.example.org:8443`, or
    `https://board.example.org` if something in front of it encrypts."""

    host: str = "127.0.0.1"
    port: int = 8377
    names: tuple[str, ...] = ()
    certificate: str | None = None
    private_key: str | None = None
    insecure: bool = False

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK


def place_of(settings: ServerSettings) -> Place:
    return Place(
        host=settings.host,
        port=settings.port,
        names=settings.names,
        certificate=settings.tls_cert,
        private_key=settings.tls_key,
        insecure=settings.insecure,
    )


def listen(place: Place) -> socket.socket:
    """A bound socket; beyond this machine only with TLS, or if it is said aloud."""
    _check(place)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # What is accepted has the same. Else the body of an answer waits until its head is acknowledged: 40 ms each.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((place.host, place.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Invalid(f"cannot listen at {place.host}:{place.port}: {error.strerror}", field="port") from error
    return listener


@contextmanager
def other_loopback_held(place: Place, port: int) -> Iterator[None]:
    """Hold the same port of [::1], so that nobody else listens there: it is where browsers look first for a name under
    localhost, and where they would send their cookie. What is bound and not listened at refuses connections."""
    if place.host not in ("127.0.0.1", "localhost") or place.certificate is not None:
        yield
        return
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as other:
        try:
            other.bind(("::1", port))
        except OSError:
            # There may be no IPv6 here, or an old connection at that port.
            if _is_answered("::1", port):
                raise Invalid(
                    f"somebody else listens at [::1]:{port}, where browsers look first; choose another --port",
                    field="port",
                ) from None
        yield


def _is_answered(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError:
        return False
    return True


def _check(place: Place) -> None:
    if not place.is_local and not place.certificate and not place.insecure:
        raise Invalid(
            f"{place.host} can be reached by others: give --tls-cert and --tls-key, or say --insecure if something in"
            " front encrypts",
            field="host",
        )
    if place.host in EVERY and not place.names:
        raise Invalid(f"{place.host} is no name to call a server by: say which are, with --name NAME", field="names")
    for name in place.names:
        if not _is_name(name):
            raise Invalid(
                f"{name!r} is no name to call a server by; board.example.org, board.example.org:8443 or"
                " https://board.example.org is",
                field="names",
            )
    if place.certificate is not None:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(place.certificate, place.private_key)
        except OSError as error:
            # An error of the files, or (as an SSLError) of what is in them.
            raise Invalid(
                f"the certificate {place.certificate} cannot be used with its key: {error.strerror}", field="tls_cert"
            ) from error


def addresses(place: Place, port: int) -> tuple[list[str], list[str]]:
    """The exact hosts and origins that are this server's own."""
    own = _own_hosts(place, port)
    hosts, origins = [*own], [f"{place.scheme}://{host}" for host in own]
    for scheme, host in _named(place, port):
        hosts.append(host)
        # Something in front may encrypt, and nothing in front takes it away.
        origins += [f"{one}://{host}" for one in ((scheme,) if scheme else dict.fromkeys((place.scheme, "https")))]
    return list(dict.fromkeys(hosts)), list(dict.fromkeys(origins))


def secure_hosts(place: Place, port: int) -> list[str]:
    """Those of the hosts that a browser reaches encrypted."""
    if place.certificate is not None:
        return addresses(place, port)[0]
    return [host for scheme, host in _named(place, port) if scheme == "https"]


def pages_of(place: Place) -> str | None:
    """Where its pages are, if they have a host name of their own: the last name, which `dibs serve` adds. An earlier
    one may come from a dibs.toml, and then others know it."""
    last = place.names[-1] if place.is_local and place.names else ""
    return last if PAGES_DOMAIN in last else None


def url_of(place: Place, port: int) -> str:
    """Where a client on this machine, or the first of its names, finds it."""
    if place.is_local:
        return f"{place.scheme}://{'[::1]' if place.host == '::1' else '127.0.0.1'}:{port}"
    if not place.names:
        return f"{place.scheme}://{_bracketed(place.host)}:{port}"
    first = place.names[0]
    return first if "://" in first else f"{place.scheme}://{_named(place, port)[0 if _has_port(first) else 1][1]}"


def _own_hosts(place: Place, port: int) -> list[str]:
    names = list(LOOPBACK) if place.is_local or place.host in EVERY else [place.host]
    found = [f"{_bracketed(name)}:{port}".lower() for name in names]
    # Clients leave out the port that goes without saying.
    return found + [_bracketed(name).lower() for name in names if port == (443 if place.certificate else 80)]


def _named(place: Place, port: int) -> list[tuple[str, str]]:
    """The names it was given, each with the scheme that was said; without a port, that of whatever stands in front,
    or its own."""
    found = []
    for name in place.names:
        scheme, _, host = name.rstrip("/").lower().rpartition("://")
        host = host if _has_port(host) else _bracketed(host)
        found.append((scheme, host))
        if not scheme and not _has_port(host):
            found.append((scheme, f"{host}:{port}"))
    return found


def _is_name(name: str) -> bool:
    """Whether a Host header could ever be just this: compared letter by letter, so no path and no wildcard."""
    from urllib.parse import urlsplit

    scheme, _, host = name.rstrip("/").lower().rpartition("://")
    host = host if _has_port(host) else _bracketed(host)
    try:
        parts = urlsplit(f"//{host}")
        named, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    signs = "-._:" if host.startswith("[") else "-._"
    known = named.isascii() and all(sign.isalnum() or sign in signs for sign in named) and "@" not in host
    return bool(named) and known and port != 0 and parts.netloc == host and scheme in ("", "http", "https")


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _has_port(name: str) -> bool:
    host, colon, port = name.rpartition(":")
    return bool(colon) and port.isdigit() and (":" not in host or host.endswith("]"))
