"""What broken stores are made of: a sound store inside, one mistake around it, and the group that must find it."""

from __future__ import annotations

import re

from dibs.testing.delegate import Delegate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    M = TypeVar("M", bound="type[Mistake]")

#: Every broken store, by the name of its mistake.
BROKEN: dict[str, type[Mistake]] = {}


class Mistake(Delegate):
    """A store with one mistake. `group` of the conformance suite finds it; `test`, if that group takes long."""

    group = ""
    test: str | None = None

    def raw(self, sql: str, **parameters: Any) -> None:
        """Change rows behind the rules' back, on stores that can (`write` with a transaction that runs SQL)."""
        self.inner.write(lambda transaction: transaction.run(sql, parameters))  # type: ignore[attr-defined]


def caught_by(group: str, test: str | None = None) -> Callable[[M], M]:
    def register(mistake: M) -> M:
        mistake.group, mistake.test = group, test
        BROKEN[re.sub(r"(?<!^)(?=[A-Z])", "-", mistake.__name__).lower()] = mistake
        return mistake

    return register
