"""Verifies that a process on this machine holds the client's end of a connection.

A caller may name a process that owns its session; the death of that process ends the session's claims. The server
believes this only of the process that holds the socket over which the request came.
"""

from __future__ import annotations

import ipaddress
import os
import socket

from dibs.errors import Invalid
from dibs.model import Owner
from dibs.system import owner

#: The kernel's tables of TCP sockets, by IP version.
TABLES = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}
#: The fields of a row that have the user and the inode of a socket.
USER, INODE = 7, 9
DESCRIPTORS_MAX = 100_000

SocketAddress = tuple[str, int]


def verified_owner(pid: int, client: SocketAddress | None, server: SocketAddress | None) -> tuple[Owner | None, str]:
    """The process as a session's owner, or None and the reason why it is not accepted."""
    if client is None or server is None or not ipaddress.ip_address(client[0]).is_loopback:
        return None, "the connection does not come from this machine"
    row = _table_row(client, server)
    inode = None if row is None else row[INODE]
    if inode is None or not _holds(pid, f"socket:[{inode}]"):
        return None, f"process {pid} does not hold this connection, as far as the server can see"
    try:
        return owner.of(pid), ""
    except Invalid as error:
        return None, error.message


def is_of_other_user(client: SocketAddress, server: SocketAddress) -> bool:
    """Whether another user than that of this process, and than root, holds the client's end of a connection. False
    where the system does not say."""
    row = _table_row(client, server)
    return row is not None and int(row[USER]) not in (0, os.getuid())


def _table_row(client: SocketAddress, server: SocketAddress) -> list[str] | None:
    """The fields of the client's end of a connection in the kernel's tables."""
    for version, path in TABLES.items():
        wanted = [_table_address(client, version), _table_address(server, version)]
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    fields = line.split()
                    if fields[1:3] == wanted:
                        return fields
        except OSError:
            continue
    return None


def _table_address(address: SocketAddress, version: int) -> str:
    """An address as the tables write it: hexadecimal, in 4-byte words of this machine's byte order."""
    ip = ipaddress.ip_address(address[0])
    if version == 6 and ip.version == 4:
        ip = ipaddress.ip_address(f"::ffff:{ip}")
    words = [int.from_bytes(ip.packed[at : at + 4]) for at in range(0, len(ip.packed), 4)]
    return "".join(f"{socket.ntohl(word):08X}" for word in words) + f":{address[1]:04X}"


def _holds(pid: int, link: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder)[:DESCRIPTORS_MAX]:
            try:
                if os.readlink(f"{folder}/{descriptor}") == link:
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False
