"""An earlier name of `dibs.sdk.claim_handle`, deprecated: see `dibs.deprecated`."""

from __future__ import annotations

from dibs import deprecated
from dibs.sdk.claim_handle import ClaimHandle

__all__ = ["ClaimHandle"]

deprecated.module(__name__)
