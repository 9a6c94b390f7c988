"""Where a server listens, and under which host names. Imports little, because the command line checks this first."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.config import ServerSettings
from dibs.errors import Invalid
from dibs.files.keyring import PAGES_DOMAIN
from dibs.value import Value

LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Addresses that mean all interfaces, and so are not host names.
ALL_INTERFACES = ("0.0.0.0", "::")
BACKLOG = 2048
CONNECT_SECONDS = 2.0


class Address(Value):
    """`names` are the host names that callers use: `board.example.org`, `board.example.org:8443`, or
    `https://board.example.org` if a proxy in front encrypts."""

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
        """Whether only this machine can connect."""
        return self.host in LOOPBACK


def address_of(settings: ServerSettings) -> Address:
    return Address(
        host=settings.host,
        port=settings.port,
        names=settings.names,
        certificate=settings.tls_cert,
        private_key=settings.tls_key,
        insecure=settings.insecure,
    )


def listen(address: Address) -> socket.socket:
    """A listening socket. Other machines can reach it only with TLS, or with `insecure`."""
    _check(address)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit this. Without it, the body of an answer waits 40 ms for the ACK of its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Invalid(f"cannot listen on {address.host}:{address.port}: {error.strerror}", field="port") from error
    return listener


@contextmanager
def ipv6_loopback_reserved(address: Address, port: int) -> Iterator[None]:
    """Bind the same port of [::1], so that no other program listens there: browsers try it first for a name under
    localhost, and would send it their cookie. A bound socket that does not listen refuses connections."""
    if address.host not in ("127.0.0.1", "localhost") or address.certificate is not None:
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


def _check(address: Address) -> None:
    if not address.is_local and not address.certificate and not address.insecure:
        raise Invalid(
            f"other machines can reach {address.host}: give --tls-cert and --tls-key, or --insecure if a proxy in"
            " front encrypts",
            field="host",
        )
    if address.host in ALL_INTERFACES and not address.names:
        raise Invalid(f"{address.host} is not a host name; give the server's names with --name NAME", field="names")
    for name in address.names:
        if not _is_name(name):
            raise Invalid(
                f"{name!r} is not a host name; give board.example.org, board.example.org:8443 or"
                " https://board.example.org",
                field="names",
            )
    if address.certificate is not None:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(address.certificate, address.private_key)
        except OSError as error:
            # Includes SSLError, for files with invalid contents.
            raise Invalid(
                f"the certificate {address.certificate} cannot be used with its key: {error.strerror}",
                field="tls_cert",
            ) from error


def hosts_and_origins(address: Address, port: int) -> tuple[list[str], list[str]]:
    """The exact values of the Host and Origin headers that are this server's own."""
    own = _own_hosts(address, port)
    hosts, origins = [*own], [f"{address.scheme}://{host}" for host in own]
    for scheme, host in _named_hosts(address, port):
        hosts.append(host)
        # A proxy in front may add encryption, but does not remove it.
        schemes = (scheme,) if scheme else dict.fromkeys((address.scheme, "https"))
        origins += [f"{one}://{host}" for one in schemes]
    return list(dict.fromkeys(hosts)), list(dict.fromkeys(origins))


def secure_hosts(address: Address, port: int) -> list[str]:
    """The hosts that browsers reach encrypted."""
    if address.certificate is not None:
        return hosts_and_origins(address, port)[0]
    return [host for scheme, host in _named_hosts(address, port) if scheme == "https"]


def pages_of(address: Address) -> str | None:
    """The URL of the pages, if they have a host name of their own: the last name, which `dibs serve` adds. An earlier
    name may come from a dibs.toml, where others can read it."""
    last = address.names[-1] if address.is_local and address.names else ""
    return last if PAGES_DOMAIN in last else None


def url_of(address: Address, port: int) -> str:
    """The URL for clients: on this machine, or under the first of the names."""
    if address.is_local:
        return f"{address.scheme}://{'[::1]' if address.host == '::1' else '127.0.0.1'}:{port}"
    if not address.names:
        return f"{address.scheme}://{_bracketed(address.host)}:{port}"
    first = address.names[0]
    if "://" in first:
        return first
    return f"{address.scheme}://{_named_hosts(address, port)[0 if _has_port(first) else 1][1]}"


def _own_hosts(address: Address, port: int) -> list[str]:
    names = list(LOOPBACK) if address.is_local or address.host in ALL_INTERFACES else [address.host]
    found = [f"{_bracketed(name)}:{port}".lower() for name in names]
    # Clients leave out the default port.
    return found + [_bracketed(name).lower() for name in names if port == (443 if address.certificate else 80)]


def _named_hosts(address: Address, port: int) -> list[tuple[str, str]]:
    """The given names, as (scheme or "", host). A name without scheme and port stands for itself, which is a proxy's
    default port, and for the server's own port."""
    found = []
    for name in address.names:
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
    signs = "-._:" if host.startswith("[") else "-._"
    valid = hostname.isascii() and all(sign.isalnum() or sign in signs for sign in hostname) and "@" not in host
    return bool(hostname) and valid and port != 0 and parts.netloc == host and scheme in ("", "http", "https")


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _has_port(name: str) -> bool:
    host, colon, port = name.rpartition(":")
    return bool(colon) and port.isdigit() and (":" not in host or host.endswith("]"))
