"""A real file system with little room, which a test fills."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: At first; then byte by byte, so that nothing at all is left.
PIECES = (1 << 16, 1 << 12, 1)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mounted at this folder, which is made. The test is skipped where only root could mount it."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small filesystem cannot be mounted here: that needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """The file that takes up what was left: to remove it frees the space."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as filler:
        for size in PIECES:
            try:
                while filler.write(b"x" * size):
                    pass
            except OSError:
                continue
    return path
