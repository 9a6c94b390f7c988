"""The cyclic garbage collector of Python, while a long answer is made.

Each new value counts as possible garbage, and a collection looks at all the values that the answer has so far.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def paused() -> Iterator[None]:
    """No collection begins in this block. Of blocks in several threads, the first that ends resumes them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
