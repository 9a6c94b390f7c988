"""The addresses of a receiver: resolved once, checked, and connected to as they were checked.

A name that resolves again for the connection could resolve to another address than the one that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from concurrent.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Host and port, to what `socket.getaddrinfo` returns.
    Resolve = Callable[[str, int], list[tuple[Any, ...]]]

#: Ranges that carry an IPv4 address, or tunnel to one: NAT64, 6to4, Teredo.
TUNNELS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
#: Ranges that Python, or some releases of it, takes for public, and that lead to services of a cloud: the metadata of
#: Oracle, the host agent of Azure.
CLOUDS = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32")))

_under_way: dict[tuple[Any, str, int], Future[list[tuple[Any, ...]]]] = {}
_lock = threading.Lock()


class Refused(Exception):
    """The receiver has an address that messages must not go to."""


def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def checked(
    host: str, port: int, *, allow_private: bool, seconds: float, resolve: Resolve = resolve
) -> list[tuple[Any, ...]]:
    """The addresses of a host. If one of them is private, all are refused: which of them answers is up to its DNS."""
    found = _resolve_within(seconds, resolve, host, port)
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
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not any(ip in network for network in CLOUDS)


def _resolve_within(seconds: float, resolve: Resolve, host: str, port: int) -> list[tuple[Any, ...]]:
    """`getaddrinfo` has no deadline, so it runs in a thread of its own. Later attempts wait for a thread that still
    hangs, so that there is at most one for each host."""
    key = (resolve, host, port)
    with _lock:
        found = _under_way.get(key)
        if found is None:
            found = _under_way[key] = Future()
            threading.Thread(target=_look_up, args=(found, *key), name="resolve", daemon=True).start()
    try:
        return found.result(seconds)
    except TimeoutError:
        raise OSError(f"{host} was not resolved within {seconds:.2g}s") from None


def _look_up(found: Future[list[tuple[Any, ...]]], resolve: Resolve, host: str, port: int) -> None:
    failure: Exception = OSError("the resolver failed")
    result = None
    try:
        result = resolve(host, port)
    except (OSError, ValueError) as error:
        failure = error
    finally:
        with _lock:
            del _under_way[resolve, host, port]
        if result is None:
            found.set_exception(failure)
        else:
            found.set_result(result)
