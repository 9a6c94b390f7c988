"""Which `dibs.toml` counts for a board, where there is one at all.

A file decides about the board of its own repository: the two lie in work trees of one repository. Outside of
repositories, it decides about the board of its own folder, or of a folder above it. So the file that a clone brings
decides nothing about a board above the clone. A board on a server has no folder: there, a file counts that no commit
can have brought.
"""

from __future__ import annotations

import os

from dibs import config, location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from dibs.location import Place


def look(folder: str, named: str | None, *, tell: Callable[[str], object] | None = None) -> Place:
    """As `location.look`, for a person who asks which file counts. Also where there is no board that can be used: then
    for the board that `dibs init` would make."""
    from dibs.errors import Invalid, NotTrusted

    try:
        place = location.look(folder, named, tell=tell)
    except (Invalid, NotTrusted):
        place = location.Place(location.new(folder).url, folder, tell)
    _tell_unused(place)
    return place


def _tell_unused(place: Place) -> None:
    """Name the nearest file that does not count, if no other line does: the board was named, and is elsewhere."""
    chosen = place.settings_file
    above = (os.path.join(folder, config.FILE_NAME) for folder in location.upwards(place.folder))
    nearest = next((path for path in above if os.path.isfile(path)), None)
    is_told = nearest is not None and any(nearest in line for line in place.passed_over)
    if nearest is not None and nearest != chosen and not is_told:
        place.pass_over(
            f"{nearest} is passed over: it is outside of the repository or folder of the board"
            f" {location.printable(place.url)}, so it does not apply to this board"
        )


def choose(place: Place, home: str | None, files: list[str]) -> str | None:
    """The file that counts among those that were found from the working folder upwards, and from the board's folder
    upwards. Refused if it is not trusted."""
    from dibs.system import trust

    chosen = _for_server(place, files) if home is None else _for_folder(place, home, files)
    if chosen is not None:
        trust.require_file(chosen, place.folder)
    return chosen


def require_trusted(place: Place, table: str, values: Mapping[str, Any]) -> None:
    """Refuse values of a table that need trust, unless git does not track their file, or it is listed."""
    from dibs.system import trust

    path = place.settings_file
    names = config.TABLES[table].needing_trust(values)
    why = commit_problem(path) if names and path is not None else None
    if path is not None and why is not None and not trust.is_listed(path):
        raise trust.refusal(path, f"sets {', '.join(names)} in [{table}] and {why}", path)


def commit_problem(path: str) -> str | None:
    """Why a file is not trusted: it comes from a commit, or may come from one."""
    for top, git_dir, _ in trees(os.path.dirname(path)):
        from dibs.system import git_index

        return git_index.problem(path, top, git_dir)
    return None


def trees(folder: str) -> Iterator[tuple[str, str, str]]:
    """The work trees around `folder` whose `.git` is trusted, from the inside: the top, the git directory that has the
    index, and the one that all work trees of the repository share."""
    for above in location.upwards(folder):
        git = location.git_dirs(above)
        if git is not None and location.of_git(above, git).is_repository_trusted(folder):
            yield above, git[0], os.path.realpath(git[1])


def _for_folder(place: Place, home: str, files: list[str]) -> str | None:
    repository = _repository_of(place.url, home)
    # From the working folder, if it belongs to the board; else from the folder of the board.
    start = place.folder if _is_around(place.folder, home, repository) else home
    above = location.upwards(start)
    for path in files:
        folder = os.path.dirname(path)
        if folder not in above:
            continue
        if _belongs(folder, home, repository):
            return path
        if _is_around(folder, home, repository):
            place.pass_over(
                f"{path} is passed over: it is in another repository than the board {location.printable(place.url)},"
                f" so it does not apply to this board"
            )
    return None


def _for_server(place: Place, files: list[str]) -> str | None:
    from dibs.system import trust

    for path in files:
        why = commit_problem(path)
        if why is None or trust.is_listed(path):
            return path
        place.pass_over(trust.refusal(path, why, path).message)
    return None


def _repository_of(url: str, home: str) -> str | None:
    """The git directory of the repository that a board belongs to."""
    folder = os.path.realpath(location.folder_of(url) or home)
    above = os.path.dirname(folder)
    if os.path.basename(folder) == "dibs" and os.path.exists(os.path.join(above, "HEAD")):
        return above
    return next((common for _, _, common in trees(home)), None)


def _belongs(folder: str, home: str, repository: str | None) -> bool:
    """Whether a file in this folder decides about the board: the innermost repository around both is the same."""
    innermost = next((common for _, _, common in trees(folder)), None)
    return innermost == repository and (repository is not None or _is_below(folder, home))


def _is_around(folder: str, home: str, repository: str | None) -> bool:
    """Whether the folder lies inside of what the board belongs to, perhaps in another repository there."""
    if repository is None:
        return _is_below(folder, home)
    return any(common == repository for _, _, common in trees(folder))


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path) == folder or os.path.realpath(path).startswith(folder.rstrip(os.sep) + os.sep)
