"""Boards of these tests that are files, and what their processes write down, live in memory if they can."""

from __future__ import annotations

from tests.conformance.conftest import folder

__all__ = ["folder"]
