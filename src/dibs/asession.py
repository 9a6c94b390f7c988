"""An earlier name of `dibs.sdk.async_session`, kept for programs that import it."""

from __future__ import annotations

from dibs.sdk.async_session import AsyncClaim, AsyncSession

__all__ = ["AsyncClaim", "AsyncSession"]
