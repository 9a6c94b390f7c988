"""The place of a watcher in a repository, kept on the board: the meta of a session `github:OWNER/NAME`.

Another watcher, or the same one after a restart, continues there. As long as a watcher looks, it writes its place now
and then: so a server knows that a watcher reads the checks of this repository.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Forbidden, SessionNotFound
from dibs.github import payload
from dibs.github.apply import AGENT
from dibs.rules.sessions import CURSOR_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.board import Board

#: A watcher writes its place at least this often, unless it looks less often.
WRITE_SECONDS = 120.0
#: How long one look may take beyond the time between two.
LOOK_SECONDS = 180.0
#: The live sessions among which watchers are looked for.
SESSIONS_MAX = 1000
#: Subjects that are to be looked at again, after a restart.
AGAIN_MAX = 100


class Place:
    """`cursor` is the place in each list, `events` the last event of the board that was dealt with, and `again` has
    the items that GitHub has not answered about."""

    def __init__(self, board: Board, repository: str) -> None:
        self._board, self._repository = board, repository
        self._session = payload.session_id(CURSOR_PREFIX, repository)
        self._is_started = False
        meta = _meta(board, self._session)
        kept, events, again = meta.get("cursor"), meta.get("events"), meta.get("again")
        found = kept.items() if isinstance(kept, dict) else ()
        self.cursor: dict[str, str] = {name: at for name, at in found if payload.instant(at)}
        self.events = events if isinstance(events, int) and 0 <= events <= check.TOKEN_MAX else None
        listed = again[:AGAIN_MAX] if isinstance(again, list) else []
        self.again = tuple(one for one in listed if isinstance(one, str))

    def keep(self, meta: Mapping[str, Any]) -> None:
        known = {name: value for name, value in meta.items() if value is not None}
        try:
            self._board.start_session(
                AGENT, id=self._session, kind="autonomous", meta={**known, "repository": self._repository}
            )
            self._is_started = True
        except Forbidden:
            pass  # a watcher with another key keeps its place; this one begins where that one is

    def close(self) -> None:
        """The ended session keeps the place."""
        try:
            if self._is_started:
                self._board.end_session(self._session, reason="the watcher ended")
        except SessionNotFound:
            pass  # another watcher of the repository has ended it


def is_watched(board: Board, repository: str) -> bool:
    """Whether a watcher looks at this repository again and again."""
    try:
        found = board.find_session(payload.session_id(CURSOR_PREFIX, repository))
    except SessionNotFound:
        return False
    every = found.meta.get("every")
    if found.ended_at is not None or isinstance(every, bool) or not isinstance(every, (int, float)):
        return False
    return board.view().at - found.seen_at < 1000 * (2 * every + WRITE_SECONDS + LOOK_SECONDS)


def budgets(board: Board, limit: int) -> dict[str, dict[str, int]]:
    """What GitHub allows the watchers that look now, by their repository."""
    found: dict[str, dict[str, int]] = {}
    for view in board.sessions(limit=SESSIONS_MAX):
        if len(found) == limit or not view.session.id.startswith(CURSOR_PREFIX) or view.session.agent != AGENT:
            continue
        meta = _meta(board, view.session.id)  # a list has only the short entries
        budget, repository = meta.get("budget"), payload.repository_name(meta.get("repository"))
        if repository and isinstance(budget, dict):
            numbers = {name: budget.get(name) for name in ("remaining", "limit")}
            if all(isinstance(one, int) and not isinstance(one, bool) for one in numbers.values()):
                found[repository] = {name: int(one or 0) for name, one in numbers.items()}
    return found


def _meta(board: Board, session: str) -> dict[str, Any]:
    try:
        return board.find_session(session).meta
    except SessionNotFound:
        return {}
