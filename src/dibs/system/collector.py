"""The cyclic garbage collector of Python, while a long answer is made.

Each new value counts as possible garbage, and a collection looks at all the values that the answer has so far.
"""

from __future__ import annotations

import gc


class Paused:
    """No collection begins in the block. Of blocks in several threads, the first that ends resumes them."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
