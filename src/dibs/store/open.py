"""From a URL to a store. Each store's module is imported only when a URL asks for it."""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store


def open_store(url: str, settings: Settings, *, create: bool = False) -> Store:
    """The store at `url`: `sqlite:PATH` or a plain path. Without `create`, it has to exist."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme or scheme == "sqlite":
        from dibs.store.sqlite.store import SqliteStore

        return SqliteStore(rest if scheme == "sqlite" and colon else url, settings, create=create)
    raise Invalid(f"{scheme}: is no kind of store this version knows; sqlite:PATH or a path is right", field="store")
