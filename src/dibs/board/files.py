"""Files that contain a whole board, for programs that load them: `Board.load` takes records."""

from __future__ import annotations

from dibs.config import DEFAULTS
from dibs.store import board_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any, BinaryIO


def records(
    file: BinaryIO, on_line: Callable[[bytes], None] = lambda _: None
) -> AbstractContextManager[Iterator[tuple[str, dict[str, Any]]]]:
    """The records of a backup or an export of any store. `on_line` is called with each line of a file that consists of
    lines."""
    return board_files.records(file, DEFAULTS, on_line)
