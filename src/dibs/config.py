"""Settings: the numbers of DESIGN's defaults, each of which `dibs.toml` may change, and the environment's names.

`Settings` is a plain value; `load` reads the `[board]` table of a `dibs.toml` if there is one, `load_server` the
`[server]` table. Reading TOML costs 15 ms of imports, so it happens only where a file exists.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE_NAME = "dibs.toml"
ENV_STORE = "DIBS_STORE"
ENV_SESSION = "DIBS_SESSION"
ENV_AGENT = "DIBS_AGENT"
ENV_TOKEN = "DIBS_CLAIM_TOKEN"
ENV_CLAIM_FILE = "DIBS_CLAIM_FILE"
ENV_KEY = "DIBS_KEY"
ENV_INSECURE_HTTP = "DIBS_INSECURE_HTTP"


class Settings(Value):
    """What a board can be told about time, limits and patience. All durations are seconds."""

    ttl_seconds: float = 30 * 60
    ttl_seconds_min: float = 60
    ttl_seconds_max: float = 2 * 3600
    person_ttl_seconds: float = 8 * 3600
    person_ttl_seconds_max: float = 7 * 86400
    heartbeat_seconds: float = 60
    stale_seconds: float = 5 * 60
    orphan_seconds: float = 10 * 60
    warning_seconds: float = 5 * 60
    expiring_seconds: float = 60
    max_strikes: int = 5
    accept_seconds: float = 15
    ticket_ttl_seconds: float = 600
    ticket_ttl_seconds_max: float = 24 * 3600
    waiters_max: int = 1000
    retry_backoff_seconds: float = 30
    retry_backoff_seconds_max: float = 3600
    request_kept_seconds: float = 24 * 3600
    activity_kept: int = 10_000
    sweep_batch: int = 500
    sweep_seconds: float = 5 * 60
    lock_wait_seconds: float = 10
    network_filesystem: bool = False


class ServerSettings(Value):
    """Where and how `dibs serve` serves a board. `names`: those by which it is called beside its own address."""

    host: str = "127.0.0.1"
    port: int = 8377
    names: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure: bool = False
    workers: int = 1
    log_json: bool = False
    subscribers_max: int = 2_000
    subscribers_per_key: int = 500


DEFAULTS = Settings()
SERVER_DEFAULTS = ServerSettings()
PORT_MAX = 65535
WORKERS_MAX = 64


def load(folder: str) -> tuple[Settings, dict[str, dict[str, Any]]]:
    """The settings and the agents that the nearest `dibs.toml` at or above `folder` gives; defaults without one."""
    path = find_file(folder)
    return (DEFAULTS, {}) if path is None else read(path)


def find_file(folder: str) -> str | None:
    """The nearest `dibs.toml` at or above `folder`, which has to be trusted."""
    start = folder = os.path.abspath(folder)
    while True:
        path = os.path.join(folder, FILE_NAME)
        if os.path.isfile(path):
            from dibs.files import trust

            trust.require_file(path, start)
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read(path: str) -> tuple[Settings, dict[str, dict[str, Any]]]:
    tables = read_tables(path)
    return from_table(tables["board"], path), tables["agents"]


def load_server(folder: str) -> ServerSettings:
    """How to serve, as the nearest `dibs.toml` says."""
    path = find_file(folder)
    return SERVER_DEFAULTS if path is None else server_from_table(read_tables(path)["server"], path)


def read_tables(path: str) -> dict[str, dict[str, Any]]:
    """The tables that we know, as they stand there."""
    import tomllib

    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: {error}", field=FILE_NAME) from error
    known = {name: tables.get(name, {}) for name in ("board", "server", "agents")}
    if not all(isinstance(table, dict) for table in known.values()):
        raise Invalid(f"{path}: [board], [server] and [agents.NAME] are tables", field=FILE_NAME)
    return known


def from_table(table: dict[str, Any], source: str) -> Settings:
    """Settings with the table's values over the defaults; a wrong name, type or sign is refused by name."""
    for name, value in table.items():
        if name not in Settings._fields:
            raise Invalid(f"{source}: [board] has no setting {name!r}", field=name)
        default = getattr(DEFAULTS, name)
        kinds = (bool,) if isinstance(default, bool) else (int, float) if "_seconds" in name else (int,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = {bool: "true or false", int: "a whole number"}.get(kinds[-1], "a number")
            raise Invalid(f"{source}: {name} must be {wanted}", field=name)
        if not isinstance(value, bool) and not 0 < value < 1e9:
            raise Invalid(f"{source}: {name} must be above zero and below 1e9", field=name)
    settings = DEFAULTS.replace(**table)
    if not settings.ttl_seconds_min <= settings.ttl_seconds <= settings.ttl_seconds_max:
        raise Invalid(
            f"{source}: ttl_seconds must lie between ttl_seconds_min and ttl_seconds_max", field="ttl_seconds"
        )
    if not settings.ttl_seconds_min <= settings.person_ttl_seconds <= settings.person_ttl_seconds_max:
        raise Invalid(
            f"{source}: person_ttl_seconds must lie between ttl_seconds_min and person_ttl_seconds_max",
            field="person_ttl_seconds",
        )
    return settings


def server_from_table(table: dict[str, Any], source: str) -> ServerSettings:
    """The same for `[server]`; files are named from the folder in which `source` lies."""
    given = dict(table)
    for name, value in table.items():
        if name == "insecure":
            raise Invalid(
                f"{source}: insecure is no setting of a file, which may come with a clone; say it on the line:"
                " dibs serve --insecure",
                field=name,
            )
        if name not in ServerSettings._fields:
            raise Invalid(f"{source}: [server] has no setting {name!r}", field=name)
        default = getattr(SERVER_DEFAULTS, name)
        if isinstance(default, bool):
            wanted, right = "true or false", isinstance(value, bool)
        elif isinstance(default, int):
            wanted, right = "a whole number", isinstance(value, int) and not isinstance(value, bool)
        elif isinstance(default, tuple):
            wanted = "a list of names"
            right = isinstance(value, list) and all(isinstance(one, str) and one for one in value)
            given[name] = tuple(value) if right else ()
        else:
            wanted, right = "text", isinstance(value, str) and bool(value)
        if not right:
            raise Invalid(f"{source}: {name} must be {wanted}", field=name)
        if name in ("tls_cert", "tls_key"):
            given[name] = os.path.join(os.path.dirname(source), value)
    return checked_server(SERVER_DEFAULTS.replace(**given), f"{source}: ")


def checked_server(settings: ServerSettings, source: str = "") -> ServerSettings:
    """The settings, if they go together."""
    if not 0 <= settings.port <= PORT_MAX:
        raise Invalid(f"{source}port must lie between 0 and {PORT_MAX}", field="port")
    if not 1 <= settings.workers <= WORKERS_MAX:
        raise Invalid(f"{source}workers must lie between 1 and {WORKERS_MAX}", field="workers")
    for name in ("subscribers_max", "subscribers_per_key"):
        if getattr(settings, name) < 0:
            raise Invalid(f"{source}{name} must not be below zero", field=name)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise Invalid(f"{source}tls_cert and tls_key are given together", field="tls_cert")
    return settings


def user_name() -> str:
    """Who runs this process, as far as a name is needed in the history."""
    import pwd

    try:
        known = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        known = ""
    for name in (os.environ.get("LOGNAME", ""), os.environ.get("USER", ""), known):
        if name and name.isascii() and all(c.isalnum() or c in "._-" for c in name) and name[0].isalnum():
            return name[:64]
    return f"uid-{os.getuid()}"
