"""Tests that `make test` leaves out, because another test shows the same at every commit: the mark says who runs them.

Those with the mark `nightly` run in `make nightly` and in a soak, those with the mark `soak` in a soak only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from dibs.testing import sizes

if TYPE_CHECKING:
    from collections.abc import Callable

NIGHTLY = sizes.FACTOR > 1 or os.environ.get("DIBS_NIGHTLY", "") not in ("", "0")


def in_a_soak(*values: Any) -> list[Any]:
    """These values of a parameter, for a soak."""
    return [pytest.param(value, marks=pytest.mark.soak) for value in values]


def nightly(*values: Any) -> list[Any]:
    """These values of a parameter, or tuples of them, for the night."""
    tuples = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*each, marks=pytest.mark.nightly) for each in tuples]


def deselect(config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]) -> None:
    """Take the unwanted tests out of those that were collected."""
    left = [item for item in items if unwanted(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if not unwanted(item)]
