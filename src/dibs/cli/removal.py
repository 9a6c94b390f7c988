"""`dibs remove-board`: removes a board, and nothing that dibs did not make."""

from __future__ import annotations

import os

from dibs import board as boards
from dibs import location
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean, number_of
from dibs.errors import DibsError
from dibs.system import keyring

#: The names of the folders that `dibs init` makes for a board.
FOLDERS = ("dibs", ".dibs")
#: The file that stays in the folder of worktrees' records.
WORKTREES_LOCK = ".lock"


def remove_board_options(parser: Parser) -> None:
    parser.option("--force", help="also if items are claimed, or the board is damaged")
    parser.yes()


def remove_board(cli: Cli) -> int:
    """Remove a SQLite file and its side files, the index of a vault, or the schema of a database. The markdown files of
    a vault stay: they are the user's."""
    url = location.absolute(cli.place.url)
    place = location.printable(url)
    if not cli.args.force:
        boards.require_unclaimed(url)
    if not _confirmed(cli, url, place):
        return identity.NOT_CONFIRMED
    _stop_background_server(url)
    removed = boards.remove(url, force=cli.args.force)
    removed += _remove_key(url, removed)
    left = _left(url)
    answer = {"store": place, "removed": removed, "left": left}
    lines = [f"{cli.paint('removed', 'yellow')} {clean(path)}" for path in removed]
    cli.reply(answer, *lines, *(cli.paint(f"kept {clean(path)}", "dim") for path in left))
    return 0


def _confirmed(cli: Cli, url: str, place: str) -> bool:
    if cli.args.yes:
        return True
    if not identity.can_confirm(cli):
        raise UsageError("this cannot be undone; to confirm, add --yes", field="yes")
    return identity.confirm(_question(url, place))


def _question(url: str, place: str) -> str:
    if url.startswith(location.VAULT):
        return f"remove the index of the vault {place}; its markdown files stay"
    try:
        board = boards.open_board(location.look(".", url), seeded=False)
        try:
            what = number_of(sum(board.stats().items.values()), "item")
        finally:
            board.close()
    except DibsError:
        what = "everything"
    if "://" in url:
        return f"drop the schemas dibs and dibs_uuid of {place}, with {what} and all history"
    return f"remove the board {place}, with {what} and all history"


def _stop_background_server(url: str) -> None:
    """End the server that `dibs open` started for this board, if one runs."""
    try:
        from dibs.server import background
    except ImportError:
        return  # without the extra there is none
    try:
        background.stop(url)
    except DibsError:
        pass  # a damaged board has no browsers to sign out


def _remove_key(url: str, removed: list[str]) -> list[str]:
    """The key that a server left beside the board, and folders of dibs in which nothing is left."""
    folder = location.folder_of(url)
    if folder is None or folder in removed:
        return []
    found = []
    key = os.path.join(folder, keyring.FILE_NAME)
    if os.path.isfile(key) and not os.path.islink(key):
        os.unlink(key)
        found.append(key)
    found += _remove_empty_records(os.path.join(folder, "worktrees"))
    if os.path.basename(folder) in FOLDERS and not os.listdir(folder):
        os.rmdir(folder)
        found.append(folder)
    return found


def _remove_empty_records(folder: str) -> list[str]:
    """The folder with the records of worktrees, if there is no record in it."""
    if not os.path.isdir(folder) or os.path.islink(folder) or os.listdir(folder) not in ([], [WORKTREES_LOCK]):
        return []
    if os.listdir(folder):
        os.unlink(os.path.join(folder, WORKTREES_LOCK))
    os.rmdir(folder)
    return [folder]


def _left(url: str) -> list[str]:
    """What is still in the folder of the board."""
    folder = location.folder_of(url)
    if folder is None or os.path.basename(folder) not in FOLDERS or not os.path.isdir(folder):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))
