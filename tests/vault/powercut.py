"""A disk of its own for a vault, of which the power can be cut: an ext4 in a file, shut down as it is.

What was not brought to the disk by then is gone; what was is there when it is mounted again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

IMAGE_BYTES = 64 << 20
#: FS_IOC_SHUTDOWN, without even flushing the journal.
SHUTDOWN, NO_FLUSH = 0x8004587D, 2


class CutError(Exception):
    """This machine does not let us do that."""


class Disk:
    def __init__(self, folder: Path) -> None:
        self._image, self.place = folder / "disk", folder / "mounted"
        self._is_mounted = False
        with open(self._image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.place.mkdir()

    def __enter__(self) -> Disk:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.place))
        self._is_mounted = True

    def unmount(self) -> None:
        if self._is_mounted:
            _run("umount", str(self.place))
            self._is_mounted = False

    def cut(self) -> None:
        """From now on nothing reaches the disk; everybody who tries is told so."""
        descriptor = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_FLUSH))
        finally:
            os.close(descriptor)


def missing(folder: Path) -> str | None:
    """What this machine lacks for it."""
    if os.geteuid() != 0:
        return "only root mounts disks"
    for command in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(command) is None:
            return f"{command} is not installed (apt-get install e2fsprogs mount)"
    try:
        with Disk(folder) as disk:
            disk.cut()
    except (CutError, OSError) as error:
        return f"no disk can be mounted and shut down here: {error}"
    return None


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CutError(f"{command[0]}: {done.stderr.strip()}")
