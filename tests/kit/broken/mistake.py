"""What broken stores are made of: a sound store inside, one mistake around it, and the group that must find it."""

from __future__ import annotations

import re

from dibs.testing.delegate import Delegate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.store.contract import Store
    from dibs.store.sql.transaction import Transaction

    M = TypeVar("M", bound="type[Mistake]")

#: Every broken store, by the name of its mistake.
BROKEN: dict[str, type[Mistake]] = {}


class Mistake(Delegate):
    """A store with one mistake. `group` of the conformance suite finds it; `test`, if that group takes long."""

    group = ""
    test: str | None = None

    def __init__(self, inner: Store, raw: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(inner)
        self._raw = raw

    def raw(self, sql: str, **parameters: Any) -> None:
        """Change rows behind the rules' back. Most of this can be said to any SQL database."""
        self._raw(sql, parameters)


class MistakenTransactions(Mistake):
    """A store whose transactions, of reads or writes or both, have the mistake."""

    kinds: tuple[str, ...] = ("read", "write")

    def __init__(self, inner: Store, raw: Callable[[str, dict[str, Any]], None]) -> None:
        super().__init__(inner, raw)
        for kind in self.kinds:
            vars(inner)[kind] = self._mistaken(getattr(inner, kind))

    def mistake(self, t: Transaction) -> None:
        """Replace methods of `t`."""
        raise NotImplementedError

    def _mistaken(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def mistaken(work: Callable[[Transaction], Any], *how: Any) -> Any:
            def on_mistaken(t: Transaction) -> Any:
                self.mistake(t)
                return work(t)

            return run(on_mistaken, *how)

        return mistaken


def caught_by(group: str, test: str | None = None) -> Callable[[M], M]:
    def register(mistake: M) -> M:
        mistake.group, mistake.test = group, test
        BROKEN[re.sub(r"(?<!^)(?=[A-Z])", "-", mistake.__name__).lower()] = mistake
        return mistake

    return register
