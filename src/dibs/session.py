"""An earlier name of `dibs.sdk.session`, kept for programs that import it."""

from __future__ import annotations

from dibs.sdk.session import LiveSession

__all__ = ["LiveSession"]
