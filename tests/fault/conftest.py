"""Boards under fault live in memory if they can: what is tested is what the program makes of an error."""

from __future__ import annotations

from tests.conformance.conftest import folder

__all__ = ["folder"]
