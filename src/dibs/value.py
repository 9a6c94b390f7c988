"""The base of every value in dibs: a light frozen record.

The fields are the annotations of the class, after those of its base; defaults are class attributes. Values compare by
content, copy with `replace`, and turn into dicts with `as_dict`. The standard library's equivalents cost 10 ms
(`typing.NamedTuple`) and 17 ms (`dataclasses`) of import time, more than a whole claim takes.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_: object):
        return lambda cls: cls


#: Types whose values can be changed in place.
_CHANGING = (dict, list, set)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    #: The annotation of each field, as text; and its kind, which is the annotation without `| None`.
    _hints: ClassVar[dict[str, str]] = {}
    _kinds: ClassVar[dict[str, str]] = {}
    _fields: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}
    #: Makes the defaults that can be changed in place. Each value gets one of its own: a default that values shared
    #: would be changed for all of them.
    _fresh: ClassVar[dict[str, Callable[[], Any]]] = {}
    _nested: ClassVar[dict[str, type[Value]]]

    def __init_subclass__(cls) -> None:
        own = {n: hint for n, hint in cls.__annotations__.items() if not n.startswith("_")}
        cls._hints = cls._hints | own
        cls._kinds = cls._kinds | {n: hint.removesuffix(" | None") for n, hint in own.items()}
        cls._fields = tuple(cls._hints)
        cls._names = frozenset(cls._fields)
        defaults = {n: cls.__dict__[n] for n in own if n in cls.__dict__}
        cls._defaults = cls._defaults | {n: value for n, value in defaults.items() if type(value) not in _CHANGING}
        fresh = {n: value.copy for n, value in defaults.items() if type(value) in _CHANGING}
        cls._fresh = cls._fresh | fresh
        for n in fresh:
            delattr(cls, n)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            own = self.__dict__
            own.update(self._defaults)
            for name, make in self._fresh.items():
                own[name] = make()
            own.update(fields)
            if own.keys() != self._names:
                wrong = self._names ^ own.keys()
                raise TypeError(f"{type(self).__name__}: missing or unknown fields {sorted(wrong)}")

        def __setattr__(self, name: str, _: object) -> None:
            raise AttributeError(f"{type(self).__name__}.{name} is frozen; use replace()")

    @classmethod
    def default_of(cls, name: str) -> Any:
        """The default of a field, for one value; None if it has none."""
        make = cls._fresh.get(name)
        return cls._defaults.get(name) if make is None else make()

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each field that has one, for one value."""
        return cls._defaults | {name: make() for name, make in cls._fresh.items()}

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """The value with exactly these fields, unchecked, because a store makes many of them from rows."""
        made = object.__new__(cls)
        made.__dict__.update(fields)
        return made

    @classmethod
    def of_known(cls, fields: dict[str, Any]) -> Self:
        """The value with these fields, as another version of dibs wrote them: those that this version does not know are
        left out, and missing ones have their defaults."""
        return cls(**{name: value for name, value in fields.items() if name in cls._names})

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Self:
        """The value with these fields in order, unchecked. `zip` fills the value itself: with a dict in between, or
        `strict`, it takes half as long again."""
        made = object.__new__(cls)
        made.__dict__.update(zip(cls._fields, row))  # noqa: B905
        return made

    @classmethod
    def nested(cls) -> dict[str, type[Value]]:
        """The fields that hold other values, one or a tuple of them, with the class of those values."""
        if "_nested" not in cls.__dict__:
            known = vars(sys.modules[cls.__module__])
            kinds = {n: known.get(_element(kind)) for n, kind in cls._kinds.items()}
            cls._nested = {n: k for n, k in kinds.items() if isinstance(k, type) and issubclass(k, Value)}
        return cls._nested

    def replace(self, **changes: Any) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        if len(made.__dict__) != len(self._names):
            raise TypeError(f"{type(self).__name__}: unknown fields {sorted(changes.keys() - self._names)}")
        return made

    def without_defaults(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        return {name: held for name in self._fields if (held := getattr(self, name)) != self.default_of(name)}

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"


class Late:
    """What a value holds in place of a field that is made of its `source` when it is first read: see `LateField`."""

    __slots__ = ("_found", "_make", "source")
    _found: Any

    def __init__(self, make: Callable[[str], Any], source: str) -> None:
        self._make, self.source = make, source

    def made(self) -> Any:
        """Made once, also for the copies of a value, which share it."""
        try:
            return self._found
        except AttributeError:
            self._found = self._make(self.source)
            return self._found

    def __eq__(self, other: object) -> bool:
        return bool(self.made() == (other.made() if isinstance(other, Late) else other))

    __hash__ = None  # type: ignore[assignment]  # as the dict that it stands for

    def __repr__(self) -> str:
        return repr(self.made())


class LateField:
    """A field that may hold a `Late`. Copies of a value that was not read are not made either."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: Value | None, kind: type[Value]) -> Any:
        if value is None:
            return self
        held = value.__dict__[self._name]
        if type(held) is Late:
            held = value.__dict__[self._name] = held.made()
        return held

    def __set__(self, value: Value, _: object) -> None:
        raise AttributeError(f"{type(value).__name__}.{self._name} is frozen; use replace()")


def _element(kind: str) -> str:
    """The name of the class in `Run` or `tuple[Run, ...]`."""
    return kind.removeprefix("tuple[").partition(",")[0]
