"""The HTTP server and its API keys: serve, key create, key list, key revoke, key link.

On loopback nothing has to be set up: the user's own commands find a key that `serve` leaves beside the board, and a
one-time link signs a browser in.
"""

from __future__ import annotations

import sys

from dibs import api_keys, config, location
from dibs.board import open_board
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import ago, clean, now_ms
from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.model import ADMIN, LOGINS, ROLES
from dibs.system import keyring
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any

    from dibs.board import Board
    from dibs.config import ServerSettings
    from dibs.github.intake import Intake
    from dibs.model import Key
    from dibs.server.ops.open_files import FileLimit

NEEDS_SERVER = "{} needs FastAPI and uvicorn; install them with: pip install 'calldibs[server]'"
#: How long `key link` waits for the server to accept a connection.
CONNECT_SECONDS = 2.0


def serve_options(parser: Parser) -> None:
    given = config.SERVER_DEFAULTS
    parser.option("--host", metavar="ADDRESS", help=f"the address to listen on (default: {given.host})")
    parser.number("--port", help=f"the port; 0 picks a free one (default: {given.port})")
    parser.option("--name", metavar="NAME", help="a host name or URL that clients use; repeatable", repeated=True)
    parser.option("--tls-cert", metavar="FILE", help="serve over TLS with this certificate")
    parser.option("--tls-key", metavar="FILE", help="the private key of the certificate")
    parser.option("--insecure", help="listen beyond loopback without TLS")
    parser.number("--workers", help="the number of processes (default: 1; PostgreSQL only)")
    parser.option("--log-json", help="log requests as JSON lines")
    parser.option("--quiet", help="do not log requests")


def serve(cli: Cli) -> None:
    from dibs.github.intake import load_intake
    from dibs.server.ops import address

    settings, intake = _server_settings(cli), load_intake(cli.place)
    url = location.absolute(cli.place.url)
    if url.startswith(("http://", "https://")):
        raise Invalid(f"{url} is a server already; name the board that it serves instead", field="store")
    if settings.workers > 1 and "://" not in url:
        raise Invalid("only one process can serve a board in a file; --workers needs PostgreSQL", field="workers")
    listener = address.listen(settings)
    board = open_board(cli.place)
    require_server()
    # A log or a journal would keep the login link longer than it is valid, so only a terminal or a program gets one.
    with_link = cli.json or sys.stdout.isatty()
    port = listener.getsockname()[1]
    with address.ipv6_loopback_reserved(settings, port):
        access = prepare_access(board, url, settings, address.url_of(settings, port), with_link=with_link)
        if access["pages"] is not None:
            settings = settings.replace(names=(*settings.names, access["pages"]))
        _run_server(cli, board, url, settings, listener, access, intake)


def _run_server(
    cli: Cli,
    board: Board,
    url: str,
    settings: ServerSettings,
    listener: socket,
    access: dict[str, Any],
    intake: Intake,
) -> None:
    """Serve until a signal stops the server."""
    from dibs.server.ops import open_files

    limit = open_files.raise_limit()
    access["streams"] = limit.streams_max(settings.subscribers_max)
    streams = streams_line(access["streams"], limit, settings)
    if settings.workers > 1:
        from dibs.server.ops import workers

        board.close()
        _announce(cli, access, streams, settings.log_json)
        workers.run(url, settings, listener, quiet=cli.args.quiet)
    else:
        from dibs.server.ops import run

        log = None if cli.args.quiet else sys.stderr
        server = run.make_server(
            board, settings, listener, log, lambda: _announce(cli, access, streams, settings.log_json), intake=intake
        )
        server.run(sockets=[listener])


def _server_settings(cli: Cli) -> ServerSettings:
    """The settings of `dibs.toml`, overridden by the options."""
    args = cli.args
    options = {
        "host": args.host,
        "port": args.port,
        "names": tuple(args.name) or None,
        "tls_cert": args.tls_cert,
        "tls_key": args.tls_key,
        "insecure": args.insecure or None,
        "workers": args.workers,
        "log_json": args.log_json or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    path = cli.place.settings_file
    if path is not None:
        table = config.read_tables(path)["server"]
        cli.place.require_trusted("server", {name: value for name, value in table.items() if name not in given})
    return config.checked_server(config.load_server(path).replace(**given))


def prepare_access(board: Board, url: str, settings: ServerSettings, at: str, *, with_link: bool) -> dict[str, Any]:
    """The server's address and, on loopback, a key file for its user and a login link for a browser."""
    from dibs.server.ops import address

    access: dict[str, Any] = {
        "url": at,
        "store": location.printable(url),
        "key_file": None,
        "pages": None,
        "login": None,
    }
    is_local = address.is_local(settings)
    if is_local:
        access["key_file"] = keep_key(board, at, location.folder_of(url))
        access["pages"] = keyring.pages(at)
    if is_local and with_link:
        access["login"] = login_link(board, access["pages"] or at)[1]
    return access


def keep_key(board: Board, at: str, folder: str | None) -> str:
    """Leave an admin key for the user of this process in a file, or keep the valid one there; return the path."""
    secret = keyring.kept(at, folder)
    if secret is None or not _is_valid(board, secret):
        _, secret = board.create_key(ADMIN, agent=config.user_name())
    return keyring.keep(at, secret, folder)


def _is_valid(board: Board, secret: str) -> bool:
    id = api_keys.id_of(secret)
    key = None if id is None else board.store.find_key(id)
    return key is not None and key.role == ADMIN and api_keys.matches(key, secret)


def require_server(command: str = "dibs serve") -> None:
    from importlib.util import find_spec

    if not all(map(find_spec, ("fastapi", "uvicorn", "httptools"))):
        raise StoreUnusable(NEEDS_SERVER.format(command))


def _announce(cli: Cli, access: dict[str, Any], streams: str, log_json: bool = False) -> None:
    if log_json and not cli.json and not sys.stdout.isatty():
        # A journal gets it between the lines of the log.
        message = f"serving {access['store']} at {access['url']}"
        cli.print_json({"at": times.iso(now_ms()), "level": "info", "message": message, "serving": access})
        sys.stdout.flush()
        return
    serving = f"{cli.paint('serving', 'green')} {clean(access['store'] or '')} at {access['url']}"
    cli.reply({"serving": access}, serving, *access_lines(access), streams)
    sys.stdout.flush()


def access_lines(access: dict[str, Any]) -> list[str]:
    lines = [f"  from a shell:  export DIBS_STORE={access['url']}"]
    if access["key_file"] is None and access["url"].startswith("http:"):
        lines[0] += f" {config.ENV_INSECURE_HTTP}=1"
    if access["login"] is not None:
        return [*lines, f"  in a browser:  {access['login']}  (valid once, for 10 minutes)"]
    if access["key_file"] is not None:
        return [*lines, "  in a browser:  dibs key link prints a link that is valid once"]
    return [*lines, "  every client needs a key: dibs key create --role agent --agent NAME"]


def streams_line(streams: int, limit: FileLimit, settings: ServerSettings) -> str:
    line = f"  live events:   {streams} streams at once"
    if settings.workers > 1:
        line += f" in each of {settings.workers} processes"
    if streams < settings.subscribers_max:
        line += f", limited by {limit.files} open files (ulimit -Hn)"
    return line


def key_create_options(parser: Parser) -> None:
    parser.option("--role", metavar="ROLE", help=f"its permissions: {', '.join(ROLES)}", required=True)
    parser.option("--agent", metavar="NAME", help="the owner; with role agent, it acts as this agent only")
    parser.option("--name", metavar="TEXT", help="what the key is for, as key list shows it")
    parser.duration("--expires", "expires", "how long it is valid (default: until revoked)")


def key_create(cli: Cli) -> None:
    """Create a key and show its secret, once: the board keeps only a hash of it."""
    args = cli.args
    if args.role not in ROLES:
        raise api_keys.unknown_role(args.role)
    key, secret = cli.board.create_key(args.role, agent=args.agent, seconds=args.expires, name=args.name)
    cli.reply(
        {"key": {**api_keys.shown(key), "secret": secret}},
        f"{cli.paint('created key', 'green')} {key.id}  {_summary(key)}",
        f"  {secret}",
        cli.paint("  shown only once; give it to the caller as DIBS_KEY", "dim"),
    )


def key_list_options(parser: Parser) -> None:
    parser.option("--all", help="include expired and revoked keys")


def key_list(cli: Cli) -> None:
    now, known = now_ms(), cli.board.keys()
    keys = [key for key in known if cli.args.all or _is_live(key, now)]
    if cli.json:
        return cli.print_json({"keys": [api_keys.shown(key) for key in keys]})
    if not keys:
        return cli.notice("no keys; create one with: dibs key create --role agent --agent NAME")
    rows = [
        [
            key.id,
            key.role,
            key.agent or "",
            key.name or "",
            f"created {ago(key.created_at)}",
            _use(key),
            _validity(key, now),
        ]
        for key in keys
    ]
    styles = [["bold"] if _is_live(key, now) else ["dim"] * 7 for key in keys]
    header = ("key", "role", "agent", "name", "", "", "")
    cli.print(*cli.table(rows, header=header, styles=styles, shrink=(2, 3)))
    for key in api_keys.ending(known, now):
        cli.notice(f"the key {key.id} is {_validity(key, now)}; dibs key rotate {key.id} makes its successor")
    return None


def _use(key: Key) -> str:
    return "never used" if key.last_used_at is None else f"used {ago(key.last_used_at)}"


def key_rotate_options(parser: Parser) -> None:
    parser.argument("id", "the id of the key, as dibs key list shows it")
    parser.duration("--grace", "grace", "how long the replaced key stays valid (default: 1d)")
    parser.duration("--expires", "expires", "how long the new one is valid (default: until revoked)")


def key_rotate(cli: Cli) -> None:
    """Create the successor of a key, which acts for its sessions, and show its secret, once."""
    args = cli.args
    given = {} if args.grace is None else {"grace_seconds": args.grace}
    key, secret = cli.board.rotate_key(args.id, seconds=args.expires, **given)
    cli.reply(
        {"key": {**api_keys.shown(key), "secret": secret}},
        f"{cli.paint('created key', 'green')} {key.id} in place of {args.id}  {_summary(key)}",
        f"  {secret}",
        cli.paint("  shown only once; give it to the caller as DIBS_KEY: it acts for the same sessions", "dim"),
    )


def key_revoke_options(parser: Parser) -> None:
    parser.argument("id", "the id of the key, as dibs key list shows it")


def key_revoke(cli: Cli) -> None:
    key = cli.board.revoke_key(cli.args.id)
    cli.reply({"key": api_keys.shown(key)}, f"{cli.paint('revoked', 'green')} {key.id}  {_summary(key)}")


def key_link_options(parser: Parser) -> None:
    parser.option("--url", metavar="URL", help="the server (default: the last one for this board)")
    parser.option("--role", metavar="ROLE", help=f"{', '.join(ROLES)} (default: {ADMIN})")


def key_link(cli: Cli) -> None:
    """Print a login link. A caller who may create keys may sign in."""
    url = (cli.args.url or _server_of(cli.place.url)).rstrip("/")
    role = cli.args.role or ADMIN
    if role not in ROLES:
        raise api_keys.unknown_role(role)
    _require_reachable(url)
    key, link = login_link(cli.board, keyring.pages(url) or url, role)
    cli.reply({"login": link, "expires_at": key.expires_at}, link)


def login_link(board: Board, pages: str, role: str = ADMIN) -> tuple[Key, str]:
    """A link that signs a browser in once, with the key in it."""
    key, code = login_code(board, role)
    return key, link_with(pages, code)


def login_code(board: Board, role: str = ADMIN) -> tuple[Key, str]:
    login = next(name for name, given in LOGINS.items() if given == role)
    return board.create_key(login, agent=config.user_name(), seconds=api_keys.LOGIN_SECONDS)


def link_with(pages: str, code: str) -> str:
    return f"{pages}/login?code={code}"


def _server_of(url: str) -> str:
    """The server that last served the board."""
    if url.startswith(("http://", "https://")):
        return url
    folder = location.folder_of(url)
    if folder is None:
        raise Invalid(f"the server of {location.printable(url)} is not known; name it with --url URL", field="url")
    found = keyring.served_at(folder)
    if found is None:
        problem = f"no server is known for {location.printable(url)}"
        raise StoreUnavailable(f"{problem}; start one with dibs serve, or name it with --url URL")
    return found


def _require_reachable(url: str) -> None:
    """Refuse to print a link to a server that does not run."""
    import socket
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host = ""
    if not host:
        raise Invalid("not a server's URL; write it like http://127.0.0.1:8377", field="url")
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise StoreUnavailable(f"no server answers at {url}; start it with: dibs serve") from error


def _summary(key: Key) -> str:
    """`agent coder, valid for 30d more`."""
    owner = f" {key.agent}" if key.agent else ""
    return f"{key.role}{owner}" + ("" if key.expires_at is None else f", {_validity(key, now_ms())}")


def _validity(key: Key, now: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {ago(key.revoked_at)}"
    if key.expires_at is None:
        return "valid until revoked"
    if key.expires_at <= now:
        return f"expired {ago(key.expires_at)}"
    return f"valid for {times.span((key.expires_at - now) / 1000)} more"


def _is_live(key: Key, now: int) -> bool:
    """Whether to list the key by default, by this machine's clock; the store decides whether a key is valid."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)
