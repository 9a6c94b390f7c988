"""Opens the store of a URL. The module of a store is imported only for its URLs."""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import Invalid, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.store.contract import Store

POSTGRES = ("postgresql", "postgres")
HTTP = ("http", "https")
VAULT = "vault"
NEEDS_PSYCOPG = "a board on PostgreSQL needs psycopg; get it with: pip install 'calldibs[postgres]'"


def open_store(url: str, settings: Settings, *, create: bool = False, lean: bool = False) -> Store:
    """The store at `url`: a path, `sqlite:PATH`, `vault:PATH`, `postgresql://...` or a server's `http://...`. Without
    `create`, it has to exist. `lean`: the process runs one verb, and the caller retries while no server listens."""
    kind, path = _parse(url)
    if kind in HTTP:
        if create:
            raise Invalid(f"{url} is a server; create the board on its machine", field="store")
        from dibs.store.http.store import HttpStore
        from dibs.system import keyring

        return HttpStore(url, settings, keyring.find(url), lean=lean)
    if kind in POSTGRES:
        _require_postgres(url)
        from dibs.store.postgres.store import PostgresStore

        return PostgresStore(url, settings, create=create, lean=lean)
    if kind == VAULT:
        from dibs.store.vault.store import VaultStore

        return VaultStore(path, settings, create=create, lean=lean)
    from dibs.store.sqlite.store import SqliteStore

    try:
        return SqliteStore(path, settings, create=create, lean=lean)
    except StoreUnusable as error:
        if not _is_vault(path):
            raise
        raise StoreUnusable(f"{path} is a vault; its URL is {VAULT}:{path}", path=path) from error


def is_remote(url: str) -> bool:
    """Whether the URL is that of a server."""
    return _parse(url)[0] in HTTP


def exists(url: str, settings: Settings) -> bool:
    """Whether a board exists at `url`, in any state."""
    import os

    kind, path = _parse(url)
    if kind in HTTP:
        return True
    if kind == VAULT:
        return _is_vault(path)
    if kind not in POSTGRES:
        return os.path.exists(path)
    try:
        open_store(url, settings).close()
    except StoreUnusable as error:
        # Schema 0: the database answers and has no board yet. Any other error is for the caller.
        if error.facts.get("schema") != 0:
            raise
        return False
    return True


def migrate_store(url: str, settings: Settings) -> tuple[int, int]:
    """Migrate the board at `url` to this version's schema; return the versions before and after."""
    kind, path = _parse(url)
    if kind in HTTP:
        raise Invalid(f"{url} is a server; migrate the board on its machine", field="store")
    if kind in POSTGRES:
        _require_postgres(url)
        from dibs.store.postgres.migrating import migrate

        return migrate(url)
    if kind == VAULT:
        path = index_of(path)
    before = _sqlite_schema(path)
    # Opening the file migrates it.
    open_store(url, settings).close()
    return before, _sqlite_schema(path)


def remove_store(url: str, settings: Settings, check: Callable[[], None]) -> list[str]:
    """Remove the board at `url`, unless `check` refuses it; return the paths that were removed, or the name of the
    schema."""
    kind, path = _parse(url)
    if kind in HTTP:
        raise Invalid(f"{url} is a server; remove the board on its machine", field="store")
    if kind in POSTGRES:
        _require_postgres(url)
        from dibs.store.postgres import removal as postgres_removal

        return postgres_removal.remove(url, check)
    if kind == VAULT:
        from dibs.store.vault import removal as vault_removal

        return vault_removal.remove(path, settings.lock_wait_seconds, check)
    from dibs.store.sqlite import removal

    return removal.remove(path, settings.lock_wait_seconds, check)


def make_hub(path: str) -> bool:
    """Create a bare repository for clones of a vault; return whether it is new."""
    from dibs.store.vault.git import hub

    return hub.make(path)


def index_of(vault: str) -> str:
    """The path of a vault's index."""
    import os

    from dibs.store.vault.layout import HIDDEN, INDEX

    return os.path.join(vault, HIDDEN, INDEX)


def _is_vault(folder: str) -> bool:
    from dibs.store.vault.vault_root import is_vault

    return is_vault(folder)


def _parse(url: str) -> tuple[str, str]:
    """The scheme of a URL, or `sqlite` for a path; and the rest of the URL."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        return "sqlite", url
    if scheme not in ("sqlite", VAULT, *POSTGRES, *HTTP):
        raise Invalid(
            f"unknown kind of store {scheme}:; use a path, sqlite:PATH, vault:PATH, postgresql://... or http://...",
            field="store",
        )
    return scheme, rest


def _require_postgres(url: str) -> None:
    """Raise unless psycopg is installed and can parse the URL."""
    try:
        from psycopg import OperationalError, pq
    except ImportError as error:
        raise StoreUnusable(NEEDS_PSYCOPG) from error
    try:
        ports = [option.val or b"" for option in pq.Conninfo.parse(url.encode()) if option.keyword == b"port"]
        readable = all(port.replace(b",", b"").isdigit() or not port for port in ports) and _is_encoded(url)
    except (OperationalError, UnicodeError):
        readable = False
    if not readable:
        # libpq's message is left out: it repeats parts of the URL, perhaps the password.
        raise Invalid(
            "this is not the URL of a PostgreSQL database; an example is postgresql://USER@HOST:5432/DATABASE, with"
            " special characters of a name or password as %XX",
            field="store",
        )


def _is_encoded(url: str) -> bool:
    """Whether every @ of a name or password is written as %40: libpq would take what follows another @ for the host."""
    server, _, database = url.partition("://")[2].partition("?")[0].partition("/")
    return server.count("@") < 2 and "@" not in database


def _sqlite_schema(path: str) -> int:
    """The schema version of a file; 0 if it cannot be read."""
    import os

    import apsw

    if not os.path.isfile(path):
        return 0
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return int(connection.pragma("user_version"))
        finally:
            connection.close()
    except apsw.Error:
        return 0
