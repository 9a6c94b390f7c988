"""The class Board: all verbs."""

from __future__ import annotations

from dibs.board.manage import ManageVerbs
from dibs.board.read import ReadVerbs
from dibs.board.work import WorkVerbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.sdk.async_session import AsyncSession
    from dibs.sdk.session import LiveSession


class Board(ManageVerbs, WorkVerbs, ReadVerbs):
    """All verbs, over a store."""

    def session(
        self,
        agent: str,
        *,
        id: str | None = None,
        kind: str = "autonomous",
        meta: Mapping[str, Any] | None = None,
        parent: str | None = None,
        ttl_seconds: float | None = None,
        recover: bool = True,
    ) -> LiveSession:
        """A session of this process, kept alive in the background: `with board.session(agent="coder") as me:`."""
        from dibs.sdk.session import LiveSession

        return LiveSession(
            self, agent, id=id, kind=kind, meta=meta, parent=parent, ttl_seconds=ttl_seconds, recover=recover
        )

    def asession(self, agent: str, **options: Any) -> AsyncSession:
        """The same for asyncio, with the same options: `async with board.asession(agent="coder") as me:`."""
        from dibs.sdk.async_session import AsyncSession

        return AsyncSession(lambda: self.session(agent, **options))
