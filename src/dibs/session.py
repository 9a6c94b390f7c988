"""An earlier name of `dibs.sdk.session`, deprecated: see `dibs.deprecated`."""

from __future__ import annotations

from dibs import deprecated
from dibs.sdk.session import LiveSession

__all__ = ["LiveSession"]

deprecated.module(__name__)
