"""SIGHUP: a server loads its certificate anew. One that was started at a terminal ends with it, as programs do."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable

STDIN = 0
#: How the signal was handled when this process began: `nohup` has it ignored.
_AT_START = signal.getsignal(signal.SIGHUP)


def ends_terminal() -> bool:
    """Whether the signal means that the terminal of this server was closed."""
    return _AT_START is not signal.SIG_IGN and os.isatty(STDIN)


def ignore_until_started() -> None:
    """A signal that comes while the server starts must not end it. The certificate is read after this."""
    if threading.current_thread() is threading.main_thread() and not ends_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def handle(reload: Callable[[], None]) -> None:
    """Call `reload` in the event loop of this thread. Only the main thread of a process gets signals."""
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
