"""`dibs serve`: the board behind HTTP, until it is told to stop.

On loopback nothing has to be set up: the user's own commands find a key that is left beside the board, and a browser is
signed in by a link that is good once.
"""

from __future__ import annotations

import sys

from dibs import api_keys, config, location
from dibs.board import connect, default_url
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean
from dibs.errors import Invalid, StoreUnusable
from dibs.files import keyring, trust
from dibs.model import ADMIN, LOGIN
from dibs.server.ops import address, open_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any

    from dibs.board import Board
    from dibs.config import ServerSettings
    from dibs.server.ops.open_files import FileLimit

NEEDS_SERVER = "a server needs FastAPI and uvicorn; get them with: pip install 'calldibs[server]'"


def serve_options(parser: Parser) -> None:
    given = config.SERVER_DEFAULTS
    parser.option("--host", metavar="ADDRESS", help=f"where to listen ({given.host})")
    parser.number("--port", help=f"at which port ({given.port}; 0 is any)")
    parser.option("--name", metavar="NAME", help="a name callers use; may be repeated", repeated=True)
    parser.option("--tls-cert", metavar="FILE", help="encrypt, with this certificate")
    parser.option("--tls-key", metavar="FILE", help="and its private key")
    parser.option("--insecure", help="listen to others without TLS all the same")
    parser.number("--workers", help="so many processes (1; PostgreSQL only)")
    parser.option("--log-json", help="log requests as JSON, a line each")
    parser.option("--quiet", help="do not log requests")


def serve(cli: Cli) -> None:
    settings = asked_settings(cli)
    url = location.absolute(cli.args.store or default_url("."))
    if url.startswith(("http://", "https://")):
        raise Invalid(f"{url} is a server already; serve the board itself", field="store")
    if settings.workers > 1 and "://" not in url:
        raise Invalid("a board in a file is served by one process; --workers is for PostgreSQL", field="workers")
    listener = address.listen(settings)
    board = connect(url)
    _require_server()
    # Where nobody looks on, what is printed is kept: in a file, in a journal, where a link would outlive its use.
    is_read = cli.json or sys.stdout.isatty()
    port = listener.getsockname()[1]
    with address.ipv6_loopback_reserved(settings, port):
        told = introduced(board, url, settings, address.url_of(settings, port), with_link=is_read)
        if told["pages"] is not None:
            settings = settings.replace(names=(*settings.names, told["pages"]))
        _serve(cli, board, url, settings, listener, told)


def _serve(cli: Cli, board: Board, url: str, settings: ServerSettings, listener: socket, told: dict[str, Any]) -> None:
    """Until it is told to stop."""
    limit = open_files.raise_limit()
    told["streams"] = limit.streams_max(settings.subscribers_max)
    live = live_events(told["streams"], limit, settings)
    if settings.workers > 1:
        from dibs.server.ops import workers

        board.close()
        _announce(cli, told, live)
        workers.run(url, settings, listener, quiet=cli.args.quiet)
    else:
        from dibs.server.ops import run

        log = None if cli.args.quiet else sys.stderr
        server = run.make_server(board, settings, listener, log, lambda: _announce(cli, told, live))
        server.run(sockets=[listener])


def asked_settings(cli: Cli) -> ServerSettings:
    """Those of `dibs.toml`, and over them what the line says."""
    asked = cli.args
    said = {
        "host": asked.host,
        "port": asked.port,
        "names": tuple(asked.name) or None,
        "tls_cert": asked.tls_cert,
        "tls_key": asked.tls_key,
        "insecure": asked.insecure or None,
        "workers": asked.workers,
        "log_json": asked.log_json or None,
    }
    given = {name: value for name, value in said.items() if value is not None}
    settings = config.load_server(".")
    _require_own_words({name: value for name, value in settings.as_dict().items() if name not in given})
    return config.checked_server(settings.replace(**given))


def _require_own_words(settings: dict[str, Any]) -> None:
    """That no commit says where others reach the server: a `dibs.toml` may, if it is untracked or trusted."""
    harmless = {"host": address.LOOPBACK, "names": ((),), "tls_cert": (None,), "tls_key": (None,)}
    public = [name for name in harmless if name in settings and settings[name] not in harmless[name]]
    path = config.find_file(".") if public else None
    why = None if path is None else location.commit_problem(path, ".")
    if path is not None and why is not None and not trust.is_listed(path):
        raise trust.refusal(path, f"sets {', '.join(public)} of the server and {why}", path)


def introduced(board: Board, url: str, settings: ServerSettings, at: str, *, with_link: bool) -> dict[str, Any]:
    """Where the server is and, on this machine, a key for its user and a way in for a browser."""
    told: dict[str, Any] = {"url": at, "store": location.printable(url), "key_file": None, "pages": None, "login": None}
    if address.is_local(settings):
        told["key_file"] = left_key(board, at, location.folder_of(url))
        told["pages"] = keyring.pages(at)
    if address.is_local(settings) and with_link:
        _, code = board.create_key(LOGIN, agent=config.user_name(), seconds=api_keys.LOGIN_SECONDS)
        told["login"] = f"{told['pages'] or at}/login?code={code}"
    return told


def left_key(board: Board, at: str, folder: str | None) -> str:
    """Where an admin's key for whoever runs this lies: the one that was there, if it is still good."""
    secret = keyring.kept(at, folder)
    if secret is None or not _is_good(board, secret):
        _, secret = board.create_key(ADMIN, agent=config.user_name())
    return keyring.keep(at, secret, folder)


def _is_good(board: Board, secret: str) -> bool:
    id = api_keys.id_of(secret)
    key = None if id is None else board.store.find_key(id)
    return key is not None and key.role == ADMIN and api_keys.matches(key, secret)


def _require_server() -> None:
    from importlib.util import find_spec

    if not all(map(find_spec, ("fastapi", "uvicorn", "httptools"))):
        raise StoreUnusable(NEEDS_SERVER)


def _announce(cli: Cli, told: dict[str, Any], live: str) -> None:
    if cli.json:
        cli.answer({"serving": told})
    else:
        serving = f"{cli.paint('serving', 'green')} {clean(told['store'] or '')} at {told['url']}"
        cli.say(serving, *ways_in(told), live)
    sys.stdout.flush()


def ways_in(told: dict[str, Any]) -> list[str]:
    lines = [f"  from a shell:  export DIBS_STORE={told['url']}"]
    if told["key_file"] is None and told["url"].startswith("http:"):
        lines[0] += f" {config.ENV_INSECURE_HTTP}=1"
    if told["login"] is not None:
        return [*lines, f"  in a browser:  {told['login']}  (good once, for 10 minutes)"]
    if told["key_file"] is not None:
        return [*lines, "  in a browser:  dibs key link prints a link that is good once"]
    return [*lines, "  each caller needs a key: dibs key create --role agent --agent NAME"]


def live_events(streams: int, limit: FileLimit, settings: ServerSettings) -> str:
    line = f"  live events:   {streams} streams at once"
    if settings.workers > 1:
        line += f" in each of {settings.workers} processes"
    if streams < settings.subscribers_max:
        line += f", since {limit.files} open files are allowed (ulimit -Hn)"
    return line
