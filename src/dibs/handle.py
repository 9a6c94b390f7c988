"""An earlier name of `dibs.sdk.claim_handle`, kept for programs that import it."""

from __future__ import annotations

from dibs.sdk.claim_handle import ClaimHandle

__all__ = ["ClaimHandle"]
