"""Tests that run in a soak only, because at every commit another test shows the same on another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def in_a_soak(*values: Any) -> list[Any]:
    """These values of a parameter, for a soak."""
    return [pytest.param(value, marks=pytest.mark.soak) for value in values]


def deselect(config: pytest.Config, items: list[pytest.Item], unwanted: Callable[[pytest.Item], bool]) -> None:
    """Take the unwanted tests out of those that were collected."""
    left = [item for item in items if unwanted(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if not unwanted(item)]
