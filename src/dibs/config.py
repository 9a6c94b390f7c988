"""Settings: the numbers of DESIGN's defaults, each of which `dibs.toml` may change, and the environment's names.

`Settings` is a plain value; `load` reads the `[board]` table of a `dibs.toml` if there is one. Reading TOML costs
15 ms of imports, so it happens only where a file exists.
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


DEFAULTS = Settings()


def load(folder: str) -> tuple[Settings, dict[str, dict[str, Any]]]:
    """The settings and the agents that the nearest `dibs.toml` at or above `folder` gives; defaults without one."""
    path = find_file(folder)
    return (DEFAULTS, {}) if path is None else read(path)


def find_file(folder: str) -> str | None:
    folder = os.path.abspath(folder)
    while True:
        path = os.path.join(folder, FILE_NAME)
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read(path: str) -> tuple[Settings, dict[str, dict[str, Any]]]:
    import tomllib

    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path}: {error}", field=FILE_NAME) from error
    board, agents = tables.get("board", {}), tables.get("agents", {})
    if not isinstance(board, dict) or not isinstance(agents, dict):
        raise Invalid(f"{path}: [board] and [agents.NAME] are tables", field=FILE_NAME)
    return from_table(board, path), agents


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
