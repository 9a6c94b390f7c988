"""Opens a login link in the user's browser, without telling it to other users of the machine.

A login link signs in whoever is first, and other users can read the arguments of a browser's process. So the browser is
given an address of this process, which redirects to the link, and only a process of the same user.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import webbrowser

from dibs.server.auth import peer_process

OPEN_SECONDS = 30.0
#: How long a connection is read that sends nothing, as browsers open some in advance.
READ_SECONDS = 1.0
POLL_SECONDS = 0.2
HEAD_BYTES_MAX = 16_384
SECRET_BYTES = 16


def open_link(link: str) -> bool:
    """Open the link; return whether a browser has fetched it."""
    path = f"/{os.urandom(SECRET_BYTES).hex()}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        failed = threading.Event()

        def run_browser() -> None:
            # May return only when the browser ends.
            if not webbrowser.open(address):
                failed.set()

        threading.Thread(target=run_browser, daemon=True).start()
        listener.settimeout(POLL_SECONDS)
        end = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < end and not failed.is_set():
            try:
                connection, client = listener.accept()
            except TimeoutError:
                continue
            with connection:
                if not peer_process.is_of_other_user(client, connection.getsockname()) and _redirects(
                    connection, path, link
                ):
                    return True
    return False


def _redirects(connection: socket.socket, path: str, link: str) -> bool:
    """Answer one request; return whether it was for this path."""
    connection.settimeout(READ_SECONDS)
    head = b""
    try:
        while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
            piece = connection.recv(HEAD_BYTES_MAX)
            if not piece:
                return False
            head += piece
        if head.split(b" ")[:2] != [b"GET", path.encode()]:
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        answer = f"HTTP/1.1 303 See Other\r\nLocation: {link}\r\nCache-Control: no-store\r\nContent-Length: 0\r\n"
        connection.sendall(f"{answer}Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode())
    except OSError:
        return False
    return True
