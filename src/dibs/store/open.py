"""From a URL to a store. Each store's module is imported only when a URL asks for it."""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import Invalid, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store

POSTGRES = ("postgresql", "postgres")
HTTP = ("http", "https")
VAULT = "vault"
NEEDS_PSYCOPG = "a board on PostgreSQL needs psycopg; get it with: pip install 'calldibs[postgres]'"


def open_store(url: str, settings: Settings, *, create: bool = False, lean: bool = False) -> Store:
    """The store at `url`: a path, `sqlite:PATH`, `vault:PATH`, `postgresql://...` or a server's `http://...`. Without
    `create`, it has to exist. `lean`: for a process that lives for one verb, and asks again by itself where nobody
    answers."""
    kind, place = _told(url)
    if kind in HTTP:
        if create:
            raise Invalid(f"{url} is a server; make the board where that runs", field="store")
        from dibs import keyring
        from dibs.store.http.store import HttpStore

        return HttpStore(url, settings, keyring.find(url), lean=lean)
    if kind in POSTGRES:
        _require_postgres(url)
        from dibs.store.postgres.store import PostgresStore

        return PostgresStore(url, settings, create=create, lean=lean)
    if kind == VAULT:
        from dibs.store.vault.store import VaultStore

        return VaultStore(place, settings, create=create, lean=lean)
    from dibs.store.sqlite.store import SqliteStore

    try:
        return SqliteStore(place, settings, create=create)
    except StoreUnusable as error:
        if not _is_vault(place):
            raise
        raise StoreUnusable(f"{place} is a vault; name it {VAULT}:{place}", path=place) from error


def is_remote(url: str) -> bool:
    """Whether a server stands between us and the board."""
    return _told(url)[0] in HTTP


def is_there(url: str, settings: Settings) -> bool:
    """Whether there is a board at `url`, in whatever state."""
    import os

    kind, place = _told(url)
    if kind in HTTP:
        return True
    if kind == VAULT:
        return _is_vault(place)
    if kind not in POSTGRES:
        return os.path.exists(place)
    try:
        open_store(url, settings).close()
    except StoreUnusable as error:
        # Schema 0 is a database that answers and has no board yet; everything else that is wrong is the caller's.
        if error.facts.get("schema") != 0:
            raise
        return False
    return True


def migrate_store(url: str, settings: Settings) -> tuple[int, int]:
    """Bring the schema of the board at `url` up to this version; which version it had, and has now."""
    kind, place = _told(url)
    if kind in HTTP:
        raise Invalid(f"{url} is a server; migrate the board where that runs", field="store")
    if kind in POSTGRES:
        _require_postgres(url)
        from dibs.store.postgres.migrating import migrate

        return migrate(url)
    if kind == VAULT:
        place = index_of(place)
    before = _sqlite_schema(place)
    # A file migrates itself when it is opened, and is refused with a reason if that cannot be.
    open_store(url, settings).close()
    return before, _sqlite_schema(place)


def make_hub(path: str) -> bool:
    """Make a bare repository for clones of a vault; whether there was none."""
    from dibs.store.vault import hub

    return hub.make(path)


def index_of(vault: str) -> str:
    """The file of a vault's index."""
    import os

    from dibs.store.vault.folders import HIDDEN, INDEX

    return os.path.join(vault, HIDDEN, INDEX)


def _is_vault(folder: str) -> bool:
    from dibs.store.vault.ground import is_vault

    return is_vault(folder)


def _told(url: str) -> tuple[str, str]:
    """What kind of store a URL names, and where it is."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        return "sqlite", url
    if scheme not in ("sqlite", VAULT, *POSTGRES, *HTTP):
        raise Invalid(
            f"{scheme}: is no kind of store this version knows; a path, sqlite:PATH, vault:PATH, postgresql://... or"
            " http://... is right",
            field="store",
        )
    return scheme, rest


def _require_postgres(url: str) -> None:
    """There is a client library, and the URL is one that it can read."""
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
        # Without the library's own words: they repeat the URL, or what it took for a host, and so the password.
        raise Invalid(
            "this is no URL of a PostgreSQL database; postgresql://USER@HOST:5432/DATABASE is right, "
            "with what is special in a name or password as %XX",
            field="store",
        )


def _is_encoded(url: str) -> bool:
    """Whether every @ stands where it means something: one in a password moves the host into the middle of it."""
    server, _, database = url.partition("://")[2].partition("?")[0].partition("/")
    return server.count("@") < 2 and "@" not in database


def _sqlite_schema(path: str) -> int:
    """The version that a file says its schema has; 0 where no such thing can be read."""
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
