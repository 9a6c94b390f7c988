"""The base of every value in dibs: a light frozen record.

Fields are the class's annotations, after those of the value it derives from; defaults are its class attributes. Values
compare by content, copy with `replace`, and turn into plain dicts with `as_dict`. The class exists because the standard
library's two answers cost 10 ms (`typing.NamedTuple`) and 17 ms (`dataclasses`) of import time, more than a whole claim
takes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_: object):
        return lambda cls: cls


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    #: Each field's annotation, as it is written.
    _hints: ClassVar[dict[str, Any]] = {}
    _fields: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = {n: hint for n, hint in cls.__annotations__.items() if not n.startswith("_")}
        cls._hints = cls._hints | own
        cls._fields = tuple(cls._hints)
        cls._names = frozenset(cls._fields)
        cls._defaults = cls._defaults | {n: cls.__dict__[n] for n in own if n in cls.__dict__}

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            values = {**self._defaults, **fields}
            if values.keys() != self._names:
                wrong = self._names ^ values.keys()
                raise TypeError(f"{type(self).__name__}: missing or unknown fields {sorted(wrong)}")
            self.__dict__.update(values)

        def __setattr__(self, name: str, _: object) -> None:
            raise AttributeError(f"{type(self).__name__}.{name} is frozen; use replace()")

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """The value with exactly these fields, which are not looked at: for rows, of which there are many."""
        made = object.__new__(cls)
        made.__dict__.update(fields)
        return made

    def replace(self, **changes: Any) -> Self:
        return type(self)(**{**self.__dict__, **changes})

    def as_dict(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._fields}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"
