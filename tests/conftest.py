"""What every test may rely on."""

from __future__ import annotations

import signal

from tests.servers import (  # noqa: F401  what pytest looks for here
    http_host,
    pgbouncer,
    postgres_server,
    pytest_configure,
    pytest_configure_node,
    pytest_unconfigure,
    second_http_host,
)

# Started in the background of a shell, this process would ignore interrupts, and so would all it starts: tests that
# interrupt a command would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
