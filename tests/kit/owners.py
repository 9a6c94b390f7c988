"""Verdicts on owner processes, for tests that have no process to kill."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from dibs.model import Owner
from dibs.system import owner


def found_dead(*sessions: tuple[str, Owner]) -> AbstractContextManager[object]:
    """Every look at owners of this process finds these sessions, each with its owner."""
    return mock.patch.object(owner, "dead", return_value=list(sessions))
