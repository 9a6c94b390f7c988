"""A disk of its own for a vault, of which the power can be cut: a file system in a file, shut down as it is.

What was not brought to the disk by then is gone, entries of folders included; what was is there when it is mounted
again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

#: The smallest that its mkfs accepts, or nearly. The files have holes.
IMAGE_BYTES = {"ext4": 64 << 20, "xfs": 320 << 20}
#: How long the system may take to let go of an image that was unmounted.
MOUNT_SECONDS = 10.0
#: FS_IOC_SHUTDOWN, without even flushing the journal.
SHUTDOWN, NO_FLUSH = 0x8004587D, 2


class CutError(Exception):
    """This machine does not let us do that."""


class Disk:
    def __init__(self, folder: Path, kind: str = "ext4") -> None:
        self._image, self.place, self.kind = folder / "disk", folder / "mounted", kind
        self._is_mounted = False
        self.place.mkdir()
        self._format()

    def __enter__(self) -> Disk:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    def renew(self) -> None:
        """Take an empty disk."""
        self.unmount()
        self._format()
        self.mount()

    def _format(self) -> None:
        with open(self._image, "wb") as file:
            file.truncate(IMAGE_BYTES[self.kind])
        _run(f"mkfs.{self.kind}", "-q", "-F" if self.kind == "ext4" else "-f", str(self._image))

    def mount(self) -> None:
        end = time.monotonic() + MOUNT_SECONDS
        while not self._is_mounted:
            try:
                # Never read-only, which `mount` may resort to while the system still lets go of the image.
                _run("mount", "-w", "-o", "loop", str(self._image), str(self.place))
                self._is_mounted = True
            except CutError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

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


def missing(folder: Path, kind: str = "ext4") -> str | None:
    """What this machine lacks for it."""
    if os.geteuid() != 0:
        return "only root mounts disks"
    packages = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}
    for command in (f"mkfs.{kind}", "mount", "umount"):
        if shutil.which(command) is None:
            return f"{command} is not installed (apt-get install {packages[kind]} mount)"
    try:
        with Disk(folder, kind) as disk:
            disk.cut()
    except (CutError, OSError) as error:
        return f"no disk can be mounted and shut down here: {error}"
    return None


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CutError(f"{command[0]}: {done.stderr.strip()}")
