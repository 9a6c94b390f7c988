"""The board: the verbs for clients. Each verb checks its input and calls the store once.

A few do more: `next` and `claim` can wait, a verb that a claim prevents is retried after the claims of dead owners were
ended, and the ends of a run can recover a claim that expired.
"""

from __future__ import annotations

from dibs import config, location
from dibs.board.work import WorkVerbs
from dibs.errors import Invalid, ItemAlreadyClaimed, NotTrusted
from dibs.store.open import exists, is_remote, migrate_store, open_store, remove_store
from dibs.store.open import make_hub as make_store_hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.board.all_verbs import Board as Board
    from dibs.config import Settings
    from dibs.location import Place

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
    """The board at `url`; without it, that of `DIBS_STORE`, or the board of `folder`. With `seeded`, the agents of its
    `dibs.toml` are created (behind a server, the server does that). `lean`: for a process that runs one verb.
    `lock_wait_seconds` replaces the setting."""
    passed_over: list[str] = []
    place = location.look(folder, url, tell=passed_over.append)
    board = open_board(place, actor=actor, create=create, seeded=seeded, lean=lean, lock_wait_seconds=lock_wait_seconds)
    for line in passed_over:
        import warnings

        warnings.warn(line, stacklevel=2)
    return board


def open_board(
    place: Place,
    *,
    actor: str | None = None,
    create: bool = False,
    seeded: bool = True,
    lean: bool = False,
    lenient: bool = False,
    lock_wait_seconds: float | None = None,
) -> Board:
    """The board of a place that was looked for, as `connect` opens it. `lenient`: a `dibs.toml` that cannot be used is
    replaced by the defaults. The fence and the guard need this: an agent could write such a file."""
    settings, agents = _settings(place, lenient=lenient)
    if lock_wait_seconds is not None:
        settings = settings.replace(lock_wait_seconds=lock_wait_seconds)
    store = open_store(place.url, settings, create=create, lean=lean)
    board = LeanBoard(store, settings, actor=actor) if lean else _class_board()(store, settings, actor=actor)
    if seeded and agents:
        try:
            seed(board, agents)
        except Invalid:
            if not lenient:
                raise
    return board


def _settings(place: Place, *, lenient: bool = False) -> tuple[Settings, dict[str, dict[str, Any]]]:
    """The settings of a board, and the agents that it has from the start. A server has its own."""
    if is_remote(place.url):
        return config.DEFAULTS, {}
    try:
        return config.load(place.settings_file)
    except (Invalid, NotTrusted):
        if not lenient:
            raise
        return config.DEFAULTS, {}


def make(url: str, *, folder: str = ".") -> bool:
    """Create the board at `url` unless it exists; return whether it is new."""
    made = not exists(url, _settings(location.look(folder, url))[0])
    open_board(location.look(folder, url), create=True).close()
    return made


def exists_at(url: str) -> bool:
    """Whether there is a board at `url`, in any state."""
    return exists(url, config.DEFAULTS)


def migrate(url: str | None = None, *, folder: str = ".") -> tuple[int, int]:
    """Migrate a board to this version's schema; return the versions before and after."""
    place = location.look(folder, url)
    return migrate_store(place.url, _settings(place)[0])


def remove(url: str, *, folder: str = ".", force: bool = False) -> list[str]:
    """Remove the board at `url` with everything in it; return what was removed. Refused while an item of it is claimed,
    unless `force` is given."""

    def check() -> None:
        if not force:
            require_unclaimed(url, folder=folder)

    return remove_store(url, _settings(location.look(folder, url))[0], check)


def require_unclaimed(url: str, *, folder: str = ".") -> None:
    """Raise if a session holds an item of the board."""
    board = open_board(location.look(folder, url), seeded=False)
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
    return location.look(folder).url


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
