"""Whose process is at the other end of a connection of this machine.

A caller may name a process that owns its session, and the process's death then ends the session's claims. Such a name
is believed only if that very process holds the client's end of the connection over which the name came.
"""

from __future__ import annotations

import ipaddress
import os
import socket

from dibs.errors import Invalid
from dibs.model import Owner
from dibs.sdk import owner

#: The kernel's tables of connections, by the family of their addresses.
TABLES = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}
#: Connections of a process beyond this many are not looked at.
DESCRIPTORS_MAX = 100_000

Address = tuple[str, int]


def owner_at(pid: int, client: Address | None, server: Address | None) -> tuple[Owner | None, str]:
    """The process as an owner, or why it is not believed to be at the other end."""
    if client is None or server is None or not ipaddress.ip_address(client[0]).is_loopback:
        return None, "the connection does not come from this machine"
    inode = _inode(client, server)
    if inode is None or not _holds(pid, f"socket:[{inode}]"):
        return None, f"process {pid} does not hold this connection, as far as the server can see"
    try:
        return owner.of(pid), ""
    except Invalid as error:
        return None, error.message


def _inode(client: Address, server: Address) -> str | None:
    """The number of the client's socket."""
    for version, path in TABLES.items():
        wanted = [_hexadecimal(client, version), _hexadecimal(server, version)]
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    fields = line.split()
                    if fields[1:3] == wanted:
                        return fields[9]
        except OSError:
            continue
    return None


def _hexadecimal(address: Address, version: int) -> str:
    """As the kernel's tables write an address: words of four bytes in this machine's order."""
    ip = ipaddress.ip_address(address[0])
    if version == 6 and ip.version == 4:
        ip = ipaddress.ip_address(f"::ffff:{ip}")
    words = [int.from_bytes(ip.packed[at : at + 4]) for at in range(0, len(ip.packed), 4)]
    return "".join(f"{socket.ntohl(word):08X}" for word in words) + f":{address[1]:04X}"


def _holds(pid: int, name: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder)[:DESCRIPTORS_MAX]:
            try:
                if os.readlink(f"{folder}/{descriptor}") == name:
                    return True
            except OSError:
                continue
    except OSError:
        pass
    return False
