"""What broken stores are made of: a sound store inside, one mistake around it, and the group that must find it."""

from __future__ import annotations

import inspect
import re

from dibs.store.contract import Store
from dibs.store.contract.manage import ManageVerbs
from dibs.store.contract.read import ReadVerbs
from dibs.store.contract.work import WorkVerbs
from dibs.testing.delegate import Delegate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.store.sql.transaction import Transaction

    M = TypeVar("M", bound="type[Mistake]")
    Around = Callable[..., Any]
    Raw = Callable[[str, dict[str, Any]], None]


class Verbs(Store, ManageVerbs, WorkVerbs, ReadVerbs):
    """The contract: what the arguments of a verb are called."""


#: Every broken store, by the name of its mistake.
BROKEN: dict[str, type[Mistake]] = {}


class Mistake(Delegate):
    """A store with one mistake. `group` of the conformance suite finds it; `test`, if that group takes long."""

    group = ""
    test: str | None = None

    def __init__(self, inner: Store, raw: Raw) -> None:
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


def caught(group: str, test: str | None = None, /, **mistakes: type[Mistake]) -> None:
    """Registers mistakes that `asks`, `answers`, `before` or `after` made, by their names."""
    for name, mistake in mistakes.items():
        mistake.group, mistake.test = group, test
        BROKEN[name.replace("_", "-")] = mistake


def asks(verb: str, **instead: Any) -> type[Mistake]:
    """Calls the verb with other arguments: the value given here, or what a function makes of the value asked for."""

    def around(inner: Around, _: Raw, asked: dict[str, Any]) -> Any:
        changed = {name: value(asked.get(name)) if callable(value) else value for name, value in instead.items()}
        return inner(**{**asked, **changed})

    return _around(verb, around)


def answers(verb: str, change: Around | None = None, **fields: Any) -> type[Mistake]:
    """Changes the answer: by a function, or in these fields, which are those of each row if there are several."""

    def around(inner: Around, _: Raw, asked: dict[str, Any]) -> Any:
        answer = inner(**asked)
        if change is not None:
            return change(answer)
        return tuple(row.replace(**fields) for row in answer) if isinstance(answer, tuple) else answer.replace(**fields)

    return _around(verb, around)


def before(verb: str, sql: str, **given: Any) -> type[Mistake]:
    """Changes rows before the verb; names in the statement are those of its arguments."""

    def around(inner: Around, raw: Raw, asked: dict[str, Any]) -> Any:
        raw(sql, asked | given)
        return inner(**asked)

    return _around(verb, around)


def after(verb: str, sql: str, **given: Any) -> type[Mistake]:
    """Changes rows after the verb; names in the statement are those of its arguments."""

    def around(inner: Around, raw: Raw, asked: dict[str, Any]) -> Any:
        answer = inner(**asked)
        raw(sql, asked | given)
        return answer

    return _around(verb, around)


def _around(verb: str, around: Callable[[Around, Raw, dict[str, Any]], Any]) -> type[Mistake]:
    names = list(inspect.signature(getattr(Verbs, verb)).parameters)[1:]

    def method(self: Mistake, *of: Any, **asked: Any) -> Any:
        return around(getattr(self.inner, verb), self._raw, {**dict(zip(names, of, strict=False)), **asked})

    return type(verb, (Mistake,), {verb: method})
