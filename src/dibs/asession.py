"""An earlier name of `dibs.sdk.async_session`, deprecated: see `dibs.deprecated`."""

from __future__ import annotations

from dibs import deprecated
from dibs.sdk.async_session import AsyncClaim, AsyncSession

__all__ = ["AsyncClaim", "AsyncSession"]

deprecated.module(__name__)
