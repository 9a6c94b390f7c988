"""A board in one SQLite file.

Every module of this package needs apsw, which imports `collections.abc` for one class. The interpreter has loaded that
module already, as `_collections_abc`; but the package around it, `collections`, takes as long to import as apsw, and no
claim needs it. So the first import of apsw finds a stand-in for the package, which answers from the package itself if
anything is asked of it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class _Collections(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if sys.modules.get("collections") is self:
            del sys.modules["collections"]
        import collections

        return getattr(collections, name)


def _import_apsw() -> None:
    import _collections_abc

    stand_in = sys.modules["collections"] = _Collections("collections")
    sys.modules["collections.abc"] = _collections_abc
    try:
        import apsw  # noqa: F401
    finally:
        if sys.modules.get("collections") is stand_in:
            del sys.modules["collections"], sys.modules["collections.abc"]


if "apsw" not in sys.modules and "collections" not in sys.modules:
    _import_apsw()
