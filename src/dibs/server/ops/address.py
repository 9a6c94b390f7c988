"""Where a server listens, and under which host names. Imports little, because the command line checks this first."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.config import LOOPBACK, ServerSettings
from dibs.errors import Invalid
from dibs.system.keyring import PAGES_DOMAIN

#: Addresses that mean all interfaces, and so are not host names.
ALL_INTERFACES = ("0.0.0.0", "::")
BACKLOG = 2048
CONNECT_SECONDS = 2.0


def is_local(settings: ServerSettings) -> bool:
    """Whether only this machine can connect."""
    return settings.host in LOOPBACK


def _scheme(settings: ServerSettings) -> str:
    return "https" if settings.tls_cert else "http"


def listen(settings: ServerSettings) -> socket.socket:
    """A listening socket. Other machines can reach it only with TLS, or with `insecure`."""
    _check(settings)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit this. Without it, the body of an answer waits 40 ms for the ACK of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Invalid(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}", field="port") from error
    return listener


@contextmanager
def ipv6_loopback_reserved(settings: ServerSettings, port: int) -> Iterator[None]:
    """Bind the same port of [::1], so that no other program listens there: browsers try it first for a name under
    localhost, and would send it their cookie. A bound socket that does not listen refuses connections."""
    if settings.host not in ("127.0.0.1", "localhost") or settings.tls_cert is not None:
        yield
        return
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as reserved:
        try:
            reserved.bind(("::1", port))
        except OSError:
            # Without a listener there, the reason is a machine without IPv6, or an old connection at that port.
            if _accepts_connections("::1", port):
                raise Invalid(
                    f"another program listens on [::1]:{port}, which browsers try first; choose another --port",
                    field="port",
                ) from None
        yield


def _accepts_connections(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _check(settings: ServerSettings) -> None:
    if not is_local(settings) and not settings.tls_cert and not settings.insecure:
        raise Invalid(
            f"other machines can reach {settings.host}: give --tls-cert and --tls-key, or --insecure if a proxy in"
            " front encrypts",
            field="host",
        )
    if settings.host in ALL_INTERFACES and not settings.names:
        raise Invalid(f"{settings.host} is not a host name; give the server's names with --name NAME", field="names")
    for name in settings.names:
        if not _is_name(name):
            raise Invalid(
                f"{name!r} is not a host name; give board.example.org, board.example.org:8443 or"
                " https://board.example.org",
                field="names",
            )
    if settings.tls_cert is not None:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
        except OSError as error:
            # Includes SSLError, for files with invalid contents.
            raise Invalid(
                f"the certificate {settings.tls_cert} cannot be used with its key: {error.strerror}",
                field="tls_cert",
            ) from error


def hosts_and_origins(settings: ServerSettings, port: int) -> tuple[list[str], list[str]]:
    """The exact values of the Host and Origin headers that are this server's own."""
    own = _own_hosts(settings, port)
    hosts, origins = [*own], [f"{_scheme(settings)}://{host}" for host in own]
    for scheme, host in _named_hosts(settings, port):
        hosts.append(host)
        # A proxy in front may add encryption, but does not remove it.
        schemes = (scheme,) if scheme else dict.fromkeys((_scheme(settings), "https"))
        origins += [f"{one}://{host}" for one in schemes]
    return list(dict.fromkeys(hosts)), list(dict.fromkeys(origins))


def secure_hosts(settings: ServerSettings, port: int) -> list[str]:
    """The hosts that browsers reach encrypted."""
    if settings.tls_cert is not None:
        return hosts_and_origins(settings, port)[0]
    return [host for scheme, host in _named_hosts(settings, port) if scheme == "https"]


def pages_of(settings: ServerSettings) -> str | None:
    """The URL of the pages, if they have a host name of their own: the last name, which `dibs serve` adds. An earlier
    name may come from a dibs.toml, where others can read it."""
    last = settings.names[-1] if is_local(settings) and settings.names else ""
    return last if PAGES_DOMAIN in last else None


def url_of(settings: ServerSettings, port: int) -> str:
    """The URL for clients: on this machine, or under the first of the names."""
    if is_local(settings):
        return f"{_scheme(settings)}://{'[::1]' if settings.host == '::1' else '127.0.0.1'}:{port}"
    if not settings.names:
        return f"{_scheme(settings)}://{_bracketed(settings.host)}:{port}"
    first = settings.names[0]
    if "://" in first:
        return first
    return f"{_scheme(settings)}://{_named_hosts(settings, port)[0 if _has_port(first) else 1][1]}"


def _own_hosts(settings: ServerSettings, port: int) -> list[str]:
    names = list(LOOPBACK) if is_local(settings) or settings.host in ALL_INTERFACES else [settings.host]
    found = [f"{_bracketed(name)}:{port}".lower() for name in names]
    # Clients leave out the default port.
    return found + [_bracketed(name).lower() for name in names if port == (443 if settings.tls_cert else 80)]


def _named_hosts(settings: ServerSettings, port: int) -> list[tuple[str, str]]:
    """The given names, as (scheme or "", host). A name is `board.example.org`, `board.example.org:8443`, or
    `https://board.example.org` if a proxy in front encrypts. A name without scheme and port also counts with the
    server's own port."""
    found = []
    for name in settings.names:
        scheme, _, host = name.rstrip("/").lower().rpartition("://")
        host = host if _has_port(host) else _bracketed(host)
        found.append((scheme, host))
        if not scheme and not _has_port(host):
            found.append((scheme, f"{host}:{port}"))
    return found


def _is_name(name: str) -> bool:
    """Whether a Host header can equal this name: no path, no wildcard."""
    from urllib.parse import urlsplit

    scheme, _, host = name.rstrip("/").lower().rpartition("://")
    host = host if _has_port(host) else _bracketed(host)
    try:
        parts = urlsplit(f"//{host}")
        hostname, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    marks = "-._:" if host.startswith("[") else "-._"
    valid = hostname.isascii() and all(char.isalnum() or char in marks for char in hostname) and "@" not in host
    return bool(hostname) and valid and port != 0 and parts.netloc == host and scheme in ("", "http", "https")


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _has_port(name: str) -> bool:
    host, colon, port = name.rpartition(":")
    return bool(colon) and port.isdigit() and (":" not in host or host.endswith("]"))
