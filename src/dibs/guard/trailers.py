"""The trailer `Dibs-Claim: ITEM/TOKEN` in the message of a commit: the run that made it."""

from __future__ import annotations

import re

from dibs.check import ID_LENGTH_MAX, TOKEN_MAX
from dibs.value import Value

NAME = "Dibs-Claim"
#: Anywhere in the message, since a squash puts messages one after another, and `git merge --squash` indents them.
#: As in git, the case of the name and blanks before the colon do not matter.
_NAME = "".join(f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else letter for letter in NAME)
ITEM = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{ID_LENGTH_MAX - 1}}}"
#: For grep; it may miss a token that is out of range.
PATTERN = rf"^[[:blank:]]*{_NAME}[[:blank:]]*:[[:blank:]]*{ITEM}/[0-9]{{1,15}}[[:space:]]*$"
_LINE = re.compile(rf"^[ \t]*{_NAME}[ \t]*:[ \t]*({ITEM})/([0-9]{{1,16}})[ \t]*$", re.MULTILINE)


class Trailer(Value):
    """A run, as a commit names it."""

    item: str
    token: int

    def __str__(self) -> str:
        return f"{self.item}/{self.token}"


def of(message: str) -> tuple[Trailer, ...]:
    """The trailers of a message, each once."""
    found = (Trailer(item=item, token=int(token)) for item, token in _LINE.findall(message.replace("\r", "")))
    return tuple(dict.fromkeys(one for one in found if 0 < one.token <= TOKEN_MAX))


def line(run: Trailer) -> str:
    return f"{NAME}: {run}"


def missing(there: tuple[Trailer, ...], runs: tuple[Trailer, ...]) -> list[Trailer]:
    """The trailers that a message lacks if a session commits it that works on these runs.

    A message that has trailers says whose work it is: a rebase, a cherry-pick or an amended commit keeps them. A
    session that took the item over since adds its own, because it builds on that work.
    """
    named = {one.item: max(other.token for other in there if other.item == one.item) for one in there}
    return [run for run in runs if not there or 0 < named.get(run.item, 0) < run.token]
