"""The addresses of a receiver: resolved once, checked, and connected to as they were checked.

A name that resolves again for the connection could resolve to another address than the one that was checked.
"""

from __future__ import annotations

import ipaddress
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Host and port, to what `socket.getaddrinfo` returns.
    Resolve = Callable[[str, int], list[tuple[Any, ...]]]

#: Ranges that carry an IPv4 address, or tunnel to one: NAT64, 6to4, Teredo.
TUNNELS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


class Refused(Exception):
    """The receiver has an address that messages must not go to."""


def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def checked(host: str, port: int, *, allow_private: bool, resolve: Resolve = resolve) -> list[tuple[Any, ...]]:
    """The addresses of a host. If one of them is private, all are refused: which of them answers is up to its DNS."""
    found = resolve(host, port)
    for *_, address in found:
        if not allow_private and not is_public(address[0]):
            raise Refused(f"{host} resolves to a private address, {address[0]}; allow it with --allow-private")
    return found


def is_public(address: str) -> bool:
    """Whether it is an address of the public internet: not of this machine, its network, or a cloud's metadata."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if any(ip in network for network in TUNNELS) or ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved
