"""What dibs may write to GitHub, from the table `[github.out]`: nothing, unless the table says so."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from dibs import check
from dibs.errors import Invalid
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The commit status that dibs writes. It says nothing about the code.
CLAIM_STATUS = "dibs/claim"
#: The longest name of a label that GitHub accepts.
LABEL_LENGTH_MAX = 50
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\[bot\])?")


class Out(Value):
    """`repositories` are patterns. `assign` has patterns of agents, and the login of each; the first that matches
    counts."""

    repositories: tuple[str, ...] = ("*",)
    comment: bool = False
    label: str | None = None
    assign: tuple[tuple[str, str], ...] = ()
    status: bool = False

    def is_about(self, repository: str) -> bool:
        is_on = self.comment or self.label is not None or bool(self.assign) or self.status
        return is_on and any(fnmatchcase(repository, one) for one in self.repositories)

    def login(self, agent: str) -> str | None:
        return next((login for pattern, login in self.assign if fnmatchcase(agent, pattern)), None)

    @property
    def logins(self) -> frozenset[str]:
        """In lower case: GitHub does not tell cases apart."""
        return frozenset(login.lower() for _, login in self.assign)


def readers(
    *, flag: Callable[[Any], bool], patterns: Callable[[Any], tuple[str, ...]]
) -> Mapping[str, Callable[[Any], Any]]:
    """The settings of the table, each with what checks it."""
    return {"repositories": patterns, "comment": flag, "label": _label, "assign": _assign, "status": flag}


def _label(given: object) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > LABEL_LENGTH_MAX:
        raise Invalid(f"it must be the name of a label, {LABEL_LENGTH_MAX} characters at most")
    return given.strip()


def _assign(given: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, dict):
        raise Invalid('it must be a table of agents and logins, such as {"coder-*" = "octocat"}')
    for agent, login in given.items():
        if not isinstance(login, str) or not _LOGIN.fullmatch(login):
            raise Invalid(f"{agent} needs a login of GitHub, such as octocat")
        check.text(agent, "agent", check.NAME_LENGTH_MAX)
    return tuple(given.items())
