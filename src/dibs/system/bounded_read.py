"""Reads files that somebody else may have written: a pipe, a device or a huge file must not hold the caller up.

Everything that is wrong with a small file is an `OSError`, whose `strerror` is a readable reason.
"""

from __future__ import annotations

import errno
import os
import stat

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

#: No item, record or issue is larger.
LINE_BYTES_MAX = 64_000_000
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read(path: str, bytes_max: int) -> bytes:
    """The whole content of a regular file of at most this size. Links are followed."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max // 1000} kB", path)
    return data


def lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, each of a bounded size: a device has no end of a line."""
    while line := file.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise Invalid(f"a line has more than {LINE_BYTES_MAX:,} bytes", field="file")
        yield line
