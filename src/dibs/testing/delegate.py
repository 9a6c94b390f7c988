"""A store that passes every verb on to another: the ground for stores that count, and for stores that are broken."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.store.contract import Store


class Delegate:
    """Everything as `inner` does it; a subclass overrides the one thing that it does differently."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def shared_commits(self) -> None:
        """A server calls the verbs of this store, instead of those of `inner` in shared commits."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
