"""Where boards of this suite live: in memory if the machine has such a place, since durability costs time, not proof.

What a kill leaves behind is the same there: it is the kernel's memory either way. Power cuts are another suite's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own for one test."""
    made = tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(made)
    shutil.rmtree(made)
