"""Where boards of these tests live: see the suite's."""

from __future__ import annotations

from tests.conformance.conftest import folder  # noqa: F401
