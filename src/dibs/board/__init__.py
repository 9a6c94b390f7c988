"""The board: the verbs for clients. Each verb checks its input and calls the store once.

A few do more: `next` and `claim` can wait, a verb that a claim prevents is retried after the claims of dead owners were
ended, and the ends of a run can recover a claim that expired.
"""

from __future__ import annotations

import os

from dibs import config
from dibs.board.work import WorkVerbs
from dibs.errors import Invalid, ItemAlreadyClaimed
from dibs.store.open import exists, is_remote, migrate_store, open_store, remove_store
from dibs.store.open import make_hub as make_store_hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.board.all_verbs import Board as Board

    class LeanBoard(Board): ...

else:

    class LeanBoard(WorkVerbs):
        """A board for a process that runs one verb, most often one of a worker: the modules of the other verbs are
        imported when one of them is called."""

        def __getattr__(self, name: str) -> Any:
            from dibs.board.all_verbs import Board

            return getattr(Board, name).__get__(self)


#: How many items a refusal names.
NAMED_MAX = 5


def connect(
    url: str | None = None,
    *,
    folder: str = ".",
    actor: str | None = None,
    create: bool = False,
    seeded: bool = True,
    lean: bool = False,
    lock_wait_seconds: float | None = None,
) -> Board:
    """The board at `url`; without it, that of `DIBS_STORE`, or the board of `folder`. With `seeded`, the agents of the
    folder's `dibs.toml` are created (behind a server, the server does that). `lean`: for a process that runs one
    verb. `lock_wait_seconds` replaces the setting."""
    url = url or default_url(folder)
    settings, agents = config.load(folder)
    if lock_wait_seconds is not None:
        settings = settings.replace(lock_wait_seconds=lock_wait_seconds)
    store = open_store(url, settings, create=create, lean=lean)
    board = LeanBoard(store, settings, actor=actor) if lean else _class_board()(store, settings, actor=actor)
    if seeded and not is_remote(url):
        seed(board, agents)
    return board


def make(url: str, *, folder: str = ".") -> bool:
    """Create the board at `url` unless it exists; return whether it is new."""
    made = not exists(url, config.load(folder)[0])
    connect(url, folder=folder, create=True).close()
    return made


def migrate(url: str | None = None, *, folder: str = ".") -> tuple[int, int]:
    """Migrate a board to this version's schema; return the versions before and after."""
    return migrate_store(url or default_url(folder), config.load(folder)[0])


def remove(url: str, *, folder: str = ".", force: bool = False) -> list[str]:
    """Remove the board at `url` with everything in it; return what was removed. Refused while an item of it is claimed,
    unless `force` is given."""

    def check() -> None:
        if not force:
            require_unclaimed(url, folder=folder)

    return remove_store(url, config.load(folder)[0], check)


def require_unclaimed(url: str, *, folder: str = ".") -> None:
    """Raise if a session holds an item of the board."""
    board = connect(url, folder=folder, seeded=False)
    try:
        held = [holding.item.id for holding in board.who() if holding.claim is not None]
    finally:
        board.close()
    if held:
        named = ", ".join(held[:NAMED_MAX]) + (", ..." if len(held) > NAMED_MAX else "")
        raise ItemAlreadyClaimed(
            f"the board has live claims, of {named}; end them first (see dibs who), or add --force",
            items=held[:NAMED_MAX],
        )


def make_hub(path: str) -> bool:
    """Create a bare repository for clones of a vault unless it exists; return whether it is new."""
    return make_store_hub(path)


def default_url(folder: str) -> str:
    """The URL in `DIBS_STORE`, or that of the board of `folder`."""
    named = os.environ.get(config.ENV_STORE)
    if named:
        return named
    from dibs import location

    return location.find(folder)


def seed(board: Board, agents: Mapping[str, Mapping[str, Any]]) -> None:
    """Create the agents of a `dibs.toml` that the board does not have yet."""
    if agents:
        known = {agent.name for agent in board.agents()}
        for name, fields in agents.items():
            if name not in known:
                try:
                    board.set_agent(name, **fields)
                except Invalid as error:
                    error.message = f"{config.FILE_NAME}: [agents.{name}]: {error.message}"
                    raise


def _class_board() -> type[Board]:
    from dibs.board.all_verbs import Board

    return Board


def __getattr__(name: str) -> object:
    # Lazily, because a command imports only the verbs that it calls.
    if name == "Board":
        return _class_board()
    raise AttributeError(f"module 'dibs.board' has no attribute {name!r}")
