"""What every test may rely on."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import hypothesis
import pytest

from dibs.testing import sizes
from tests.kit.soak import NIGHTLY, deselect
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


#: What shells allow. Boards that leak descriptors, and tests that hold hundreds of boards open, are found everywhere.
OPEN_FILES_USUAL = 1024
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if _soft == resource.RLIM_INFINITY or _soft > OPEN_FILES_USUAL:
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_USUAL, _hard))

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("dibs", deadline=None)
hypothesis.settings.load_profile("dibs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {"soak"} if sizes.FACTOR == 1 else set()
    left_out |= set() if NIGHTLY else {"nightly"}
    deselect(config, items, lambda item: any(mark.name in left_out for mark in item.iter_markers()))


@pytest.fixture(scope="session", autouse=True)
def trust_file_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Who makes a vault accepts it in the user's trust file. That of the person who runs the tests stays as it is."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="session", autouse=True)
def hang_ups_under_nohup() -> None:
    """Under nohup this process ignores hang-ups, and so would all that tests start: a test that hangs up on a command
    would wait for ever. A handler, unlike SIG_IGN, is not inherited by programs. In a session of their own, these are
    not reached by the hang-up that the run is to survive.

    A fixture, because the process that starts the workers runs none: they have to inherit that hang-ups are ignored.
    """
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        if "PYTEST_XDIST_WORKER" in os.environ:
            os.setsid()
        signal.signal(signal.SIGHUP, lambda *_: None)
