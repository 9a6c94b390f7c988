"""What is in the URL of a board: the secrets, and which board it names."""

from __future__ import annotations

import os

from dibs import location


def secrets_in(url: str) -> set[str]:
    """The passwords in the URL of a board: as they are written there, and decoded."""
    if "://" not in url:
        return set()
    from urllib.parse import unquote

    rest, _, query = url.partition("://")[2].partition("?")
    settings = (setting.partition("=") for setting in query.split("&"))
    found = {value for name, _, value in settings if unquote(name) in location.SECRETS}
    found.add(rest.rpartition("@")[0].partition(":")[2])
    return (found | {unquote(one) for one in found}) - {""}


def is_same(one: str, other: str) -> bool:
    """Whether two URLs name the same board, judged by their text."""
    return _canonical(one) == _canonical(other)


def _canonical(url: str) -> str:
    if "://" not in url:
        return os.path.realpath(url.removeprefix("sqlite:").removeprefix(location.VAULT))
    server, slash, database = url.partition("://")[2].partition("/")
    return server.rpartition("@")[2] + slash + database
