"""Settings, from the tables `[board]` and `[server]` of a `dibs.toml`, and the names of environment variables.

The TOML parser costs 15 ms of imports, so it is imported only where a file exists.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.model import Agent
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

FILE_NAME = "dibs.toml"
ENV_STORE = "DIBS_STORE"
ENV_SESSION = "DIBS_SESSION"
ENV_AGENT = "DIBS_AGENT"
ENV_TOKEN = "DIBS_CLAIM_TOKEN"
ENV_CLAIM_FILE = "DIBS_CLAIM_FILE"
ENV_KEY = "DIBS_KEY"
ENV_INSECURE_HTTP = "DIBS_INSECURE_HTTP"
ENV_FENCE = "DIBS_FENCE"
ENV_RESERVE_EDITS = "DIBS_RESERVE_EDITS"
ENV_WAKE = "DIBS_WAKE"
ENV_GUARD_PASS = "DIBS_GUARD_PASS"
ENV_GITHUB_SECRET = "DIBS_GITHUB_SECRET"

#: Environment variables in which coding agents pass their session id to the commands they run, and each agent's name.
CLIENT_SESSIONS = {
    "CLAUDE_CODE_SESSION_ID": "claude",
    "CODEX_THREAD_ID": "codex",
    "COPILOT_AGENT_SESSION_ID": "copilot",
}


class Settings(Value):
    """Times and limits of a board."""

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
    sessions_per_key: int = 20_000
    retry_backoff_seconds: float = 30
    retry_backoff_seconds_max: float = 3600
    request_kept_seconds: float = 24 * 3600
    activity_kept: int = 10_000
    sweep_batch: int = 500
    sweep_seconds: float = 5 * 60
    lock_wait_seconds: float = 10
    network_filesystem: bool = False


class ServerSettings(Value):
    """Settings of `dibs serve`. `names` are the host names that it accepts besides its own address."""

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


class Table(Value):
    """A table of a `dibs.toml`. `heading` is how it is written.

    `needs_trust` has the settings that open this machine to others, lead to requests, name a file that is read, or run
    a command, each with the values that do none of this. Any other value counts only in a file that git does not track,
    or that `dibs trust` lists: the author of a commit must not decide it.
    """

    heading: str
    needs_trust: Mapping[str, tuple[object, ...]]

    def needing_trust(self, values: Mapping[str, Any]) -> list[str]:
        """The settings among these values that need trust."""
        return [name for name, harmless in self.needs_trust.items() if name in values and values[name] not in harmless]


#: What names this machine only to itself.
LOOPBACK = ("127.0.0.1", "::1", "localhost")
TABLES = {
    "board": Table(heading="[board]", needs_trust={}),
    "server": Table(
        heading="[server]",
        needs_trust={"host": LOOPBACK, "names": ((), []), "tls_cert": (None,), "tls_key": (None,)},
    ),
    "agents": Table(heading="[agents.NAME]", needs_trust={}),
    "github": Table(heading="[github]", needs_trust={"out": ({},), "secrets_file": ()}),
}
#: The most that is read of a file. The parser takes milliseconds for as much, and a hook has seconds.
BYTES_MAX = 256_000
DEFAULTS = Settings()
SERVER_DEFAULTS = ServerSettings()
#: Times and counts of a board stay below this.
SETTING_MAX = 1_000_000_000
PORT_MAX = 65535
WORKERS_MAX = 64


def load(path: str | None) -> tuple[Settings, dict[str, dict[str, Any]]]:
    """The settings and the agents of a `dibs.toml`; defaults without one. `location.Place` knows which file counts."""
    if path is None:
        return DEFAULTS, {}
    tables = read_tables(path)
    return from_table(tables["board"], path), checked_agents(tables["agents"], path)


def load_server(path: str | None) -> ServerSettings:
    return SERVER_DEFAULTS if path is None else server_from_table(read_tables(path)["server"], path)


def read_text(path: str) -> str:
    """The text of a file, within the limit of its size."""
    from dibs.system import bounded_read

    try:
        return bounded_read.read(path, BYTES_MAX).decode()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", field=FILE_NAME) from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not text in UTF-8, at byte {error.start}", field=FILE_NAME) from error


def parse(text: str, path: str) -> dict[str, Any]:
    """The tables of a file's text, as they are."""
    import tomllib

    from dibs.text import toml_lines

    line = toml_lines.long_key(text)
    if line is not None:
        raise Invalid(f"{path}, line {line}: a key has too many parts", field=FILE_NAME, line=line)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path}: {error}", field=FILE_NAME) from error
    except (RecursionError, ValueError) as error:
        # ValueError: a whole number of thousands of digits.
        what = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise Invalid(f"{path}: {what}", field=FILE_NAME) from None


def read_tables(path: str) -> dict[str, dict[str, Any]]:
    """The tables of a file, their content unchecked. A table that dibs does not know is refused."""
    tables = parse(read_text(path), path)
    for name, table in tables.items():
        if name in TABLES and not isinstance(table, dict):
            raise mistake(path, (name,), f"{name} must be a table: {TABLES[name].heading}", name)
        if name not in TABLES:
            raise mistake(path, (name,), _unknown_table(name, table), name)
    return {name: tables.get(name, {}) for name in TABLES}


def checked_agents(agents: dict[str, Any], source: str) -> dict[str, dict[str, Any]]:
    """The tables of agents, without a name that agents do not have; the board checks the values."""
    known = tuple(name for name in Agent._fields if name != "name")
    for agent, fields in agents.items():
        if not isinstance(fields, dict):
            raise mistake(source, ("agents", agent), f"{agent} must be a table: [agents.NAME]", agent)
        for name in fields:
            if name not in known:
                problem = f"[agents.{agent}] has no setting {name!r}; {nearest(name, known)}"
                raise mistake(source, ("agents", agent, name), problem, name)
    return agents


def mistake(source: str, where: tuple[str, ...], problem: str, field: str) -> Invalid:
    """A refusal of a setting, with its line, if `source` is a file that can be read."""
    from dibs.text import toml_lines

    try:
        line = toml_lines.find(read_text(source), where)
    except (Invalid, ValueError):
        return Invalid(f"{source}: {problem}", field=field)
    return Invalid(f"{source}, line {line}: {problem}", field=field, line=line)


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean ttl_seconds`, or else every name that there is."""
    import difflib

    names = tuple(known)
    near = difflib.get_close_matches(name, names, n=1) or [one for one in names if one.startswith(name)]
    return f"did you mean {near[0]}" if near else f"choose one of {', '.join(names)}"


def _unknown_table(name: str, value: object) -> str:
    headings = [table.heading for table in TABLES.values()]
    if isinstance(value, dict):
        return f"unknown table [{name}]; {nearest(f'[{name}]', headings)}"
    for table, defaults in (("board", DEFAULTS), ("server", SERVER_DEFAULTS)):
        if name in defaults._fields:
            return f"{name} is in no table; write it below [{table}]"
    return f"{name} is in no table; tables are {', '.join(headings)}"


def from_table(table: dict[str, Any], source: str) -> Settings:
    """The defaults with the values of the table; an unknown name or a wrong value is refused by name."""
    for name, value in table.items():
        _check_type(name, value, DEFAULTS, "board", source)
        if not isinstance(value, bool) and not 0 < value < SETTING_MAX:
            raise mistake(source, ("board", name), f"{name} must be above zero and below {SETTING_MAX}", name)
    settings = DEFAULTS.replace(**table)
    for name, high in (("ttl_seconds", "ttl_seconds_max"), ("person_ttl_seconds", "person_ttl_seconds_max")):
        if not settings.ttl_seconds_min <= getattr(settings, name) <= getattr(settings, high):
            low, most = settings.ttl_seconds_min, getattr(settings, high)
            problem = f"{name} must lie between ttl_seconds_min ({low:g}) and {high} ({most:g})"
            raise mistake(source, ("board", name), problem, name)
    return settings


def server_from_table(table: dict[str, Any], source: str) -> ServerSettings:
    """The same for `[server]`; paths of files are relative to the folder of `source`."""
    given = dict(table)
    for name, value in table.items():
        if name == "insecure":
            problem = "insecure cannot be set in a file, which may come with a clone; type: dibs serve --insecure"
            raise mistake(source, ("server", name), problem, name)
        _check_type(name, value, SERVER_DEFAULTS, "server", source)
        if name in ("tls_cert", "tls_key"):
            given[name] = os.path.join(os.path.dirname(source), value)
        elif isinstance(value, list):
            given[name] = tuple(value)
    return checked_server(SERVER_DEFAULTS.replace(**given), source)


def _check_type(name: str, value: object, defaults: Value, table: str, source: str) -> None:
    if name not in defaults._fields:
        problem = f"[{table}] has no setting {name!r}; {nearest(name, defaults._fields)}"
        raise mistake(source, (table, name), problem, name)
    default, is_bool = getattr(defaults, name), isinstance(value, bool)
    if isinstance(default, bool):
        wanted, right = "true or false", is_bool
    elif isinstance(default, tuple):
        wanted, right = "a list of names", isinstance(value, list) and all(isinstance(n, str) and n for n in value)
    elif not isinstance(default, int | float):
        wanted, right = "text", isinstance(value, str) and bool(value)
    elif "_seconds" in name:
        wanted, right = "a number of seconds", isinstance(value, int | float) and not is_bool
    else:
        wanted, right = "a whole number", isinstance(value, int) and not is_bool
    if not right:
        raise mistake(source, (table, name), f"{name} must be {wanted}, not {value!r:.60}", name)


def checked_server(settings: ServerSettings, source: str = "") -> ServerSettings:
    """The settings, if they are consistent; `source` is the file that they come from."""
    for name, problem in _server_problems(settings):
        raise mistake(source, ("server", name), problem, name) if source else Invalid(problem, field=name)
    return settings


def _server_problems(settings: ServerSettings) -> Iterator[tuple[str, str]]:
    if not 0 <= settings.port <= PORT_MAX:
        yield "port", f"port must lie between 0 and {PORT_MAX}"
    if not 1 <= settings.workers <= WORKERS_MAX:
        yield "workers", f"workers must lie between 1 and {WORKERS_MAX}"
    for name in ("subscribers_max", "subscribers_per_key"):
        if getattr(settings, name) < 0:
            yield name, f"{name} must not be negative"
    if (settings.tls_cert is None) != (settings.tls_key is None):
        yield "tls_cert", "tls_cert and tls_key must be given together"


def agents_folder() -> str:
    """Where the hooks of coding agents keep the state of each session: see `agents.state`."""
    return os.path.join(state_folder(), "agents")


def state_folder() -> str:
    """Where dibs keeps what belongs to this user and to no board. A relative path in the variable is ignored, as its
    specification demands: it would name another folder in each working directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "dibs")


def user_name() -> str:
    """The name of this process's user, for the history."""
    import pwd

    try:
        known = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        known = ""
    for name in (os.environ.get("LOGNAME", ""), os.environ.get("USER", ""), known):
        if name and name.isascii() and all(c.isalnum() or c in "._-" for c in name) and name[0].isalnum():
            return name[:64]
    return f"uid-{os.getuid()}"
