"""What every test may rely on."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from types import FrameType

import hypothesis

from tests.servers import (  # noqa: F401  what pytest looks for here
    http_host,
    pgbouncer,
    postgres_server,
    pytest_configure,
    pytest_configure_node,
    pytest_unconfigure,
    second_http_host,
)

# Processes that tests start import `tests.kit`, wherever they run.
ROOT = str(Path(__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])

# Started in the background of a shell, this process would ignore interrupts and SIGQUIT, and so would all it starts:
# tests that interrupt a command would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def _ignored(number: int, frame: FrameType | None) -> None:
    """A hang-up that this run was told to outlive."""


# Under nohup, hang-ups are ignored, and so they would be by all that tests start: those that hang up on a command would
# wait for ever. A handler, unlike the order to ignore, is not inherited by programs.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, _ignored)

#: What shells allow. Boards that leak descriptors, and tests that hold hundreds of boards open, are found everywhere.
OPEN_FILES_USUAL = 1024
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if _soft == resource.RLIM_INFINITY or _soft > OPEN_FILES_USUAL:
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_USUAL, _hard))

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("dibs", deadline=None)
hypothesis.settings.load_profile("dibs")
