"""Keys for callers of a server: making them, listing them, taking them back, and signing a browser in."""

from __future__ import annotations

import sys

from dibs import api_keys, config, location
from dibs.board import default_url
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import ago, table, terminal_columns
from dibs.errors import Invalid, StoreUnavailable
from dibs.files import keyring
from dibs.model import LOGIN, ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Key

REACH_SECONDS = 2.0


def key_create_options(parser: Parser) -> None:
    parser.option("--role", metavar="ROLE", help=f"what it allows: {', '.join(ROLES)}", required=True)
    parser.option("--agent", metavar="NAME", help="whose it is; an agent's key acts as that agent only")
    parser.duration("--expires", "expires", "how long it is good (until it is revoked)")


def key_create(cli: Cli) -> None:
    """The only time that the secret is told: the board keeps what it can check it by, and nothing more."""
    asked = cli.args
    if asked.role not in ROLES:
        raise api_keys.unknown_role(asked.role)
    key, secret = cli.board.create_key(asked.role, agent=asked.agent, seconds=asked.expires)
    if cli.json:
        return cli.answer({"key": {**api_keys.shown(key), "secret": secret}})
    cli.say(f"{cli.paint('made a key', 'green')} {key.id}  {_about(key)}")
    cli.say(f"  {secret}")
    return cli.say(cli.paint("  it is not told again; whoever has it sets DIBS_KEY to it", "dim"))


def key_list_options(parser: Parser) -> None:
    parser.option("--all", help="also those that are good no more")


def key_list(cli: Cli) -> None:
    now = _now_ms()
    known = cli.board.keys()
    keys = [key for key in known if cli.args.all or _state(key, now) == "good"]
    if cli.json:
        return cli.answer({"keys": [api_keys.shown(key) for key in keys]})
    if not keys:
        return cli.remark("no keys; make one with: dibs key create --role agent --agent NAME")
    rows = [[key.id, key.role, key.agent or "", f"made {ago(key.created_at)}", _until(key, now)] for key in keys]
    styles = [["bold"] if _state(key, now) == "good" else ["dim"] * 5 for key in keys]
    columns = terminal_columns(sys.stdout)
    header = ("key", "role", "agent", "", "")
    return cli.say(*table(rows, header=header, styles=styles, shrink=(2,), columns=columns, paint=cli.paint))


def key_revoke_options(parser: Parser) -> None:
    parser.word("id", "the key's id, as dibs key list shows it")


def key_revoke(cli: Cli) -> None:
    key = cli.board.revoke_key(cli.args.id)
    if cli.json:
        return cli.answer({"key": api_keys.shown(key)})
    return cli.say(f"{cli.paint('revoked', 'green')} {key.id}  {_about(key)}")


def key_link_options(parser: Parser) -> None:
    parser.option("--url", metavar="URL", help="the server's (else where this board was last served)")


def key_link(cli: Cli) -> None:
    """Whoever may make keys may sign in."""
    url = (cli.args.url or _server_of(cli.args.store or default_url("."))).rstrip("/")
    _reach(url)
    key, code = cli.board.create_key(LOGIN, agent=config.user_name(), seconds=api_keys.LOGIN_SECONDS)
    link = f"{keyring.pages(url) or url}/login?code={code}"
    return cli.answer({"login": link, "expires_at": key.expires_at}) if cli.json else cli.say(link)


def _server_of(url: str) -> str:
    if url.startswith(("http://", "https://")):
        return url
    folder = location.folder_of(url)
    if folder is None:
        raise Invalid(
            f"{location.printable(url)} does not know where it is served; name the server with --url", field="url"
        )
    found = keyring.served_at(folder)
    if found is None:
        raise StoreUnavailable(
            f"nobody serves {location.printable(url)} here; start it with dibs serve, or name the server with --url"
        )
    return found


def _reach(url: str) -> None:
    """A link to a server that does not run would be no use."""
    import socket
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host = ""
    if not host:
        raise Invalid("this is no URL of a server; http://127.0.0.1:8377 is right", field="url")
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as error:
        raise StoreUnavailable(f"no server answers at {url}; start it with: dibs serve") from error


def _about(key: Key) -> str:
    whose = f" of {key.agent}" if key.agent else ""
    until = "" if key.expires_at is None else f", {_until(key, _now_ms())}"
    return f"{key.role}{whose}{until}"


def _until(key: Key, now: int) -> str:
    if key.revoked_at is not None:
        return f"revoked {ago(key.revoked_at)}"
    if key.expires_at is None:
        return "good until it is revoked"
    if key.expires_at <= now:
        return f"expired {ago(key.expires_at)}"
    from dibs.text import times

    return f"good for {times.span((key.expires_at - now) / 1000)} more"


def _state(key: Key, now: int) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "good" if key.expires_at is None or key.expires_at > now else "expired"


def _now_ms() -> int:
    """For what is told to people only: whether a key is good is for the store to say."""
    import time

    return int(time.time() * 1000)
