"""`dibs open`: a browser on the dashboard, signed in, at the server of the board or at one in the background."""

from __future__ import annotations

import os
import sys

from dibs import location
from dibs.cli import server
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.errors import Invalid
from dibs.system import keyring

#: Any of them says that there is a browser to open.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
ENDS = "ends when it was not used for 10 minutes, or with dibs open --stop"


def open_options(parser: Parser) -> None:
    parser.option("--print", help="print the link that signs a browser in; open none")
    parser.option("--stop", help="end the background server of this board")


def open_(cli: Cli) -> None:
    url = location.absolute(cli.place.url)
    has_server = url.startswith(("http://", "https://"))
    if cli.args.stop:
        return _stop(cli, url, has_server)
    board = cli.board
    if not has_server:
        server.require_server("dibs open")
    _, code = server.login_code(board)
    pages = (keyring.pages(url) or url.rstrip("/")) if has_server else _pages_in_background(url, code)
    link = server.link_with(pages, code)
    is_opened = not cli.args.print and opens(link)
    if is_opened:
        line = f"{cli.paint('opened', 'green')} {pages}"
        line += "" if has_server else f"; its server {ENDS}"
    else:
        line = link
    told = {"opened": is_opened, "url": pages, "login": None if is_opened else link, "background": not has_server}
    cli.reply(told, line)
    if not (is_opened or has_server or cli.json):
        cli.notice(f"the server of this link {ENDS}")
    return None


def _stop(cli: Cli, url: str, has_server: bool) -> None:
    if has_server:
        raise Invalid(f"{url} is no background server; stop it where dibs serve runs", field="stop")
    from dibs.server import background

    stopped = background.stop(url)
    line = "stopped the background server" if stopped else "no background server of this board runs"
    cli.reply({"stopped": stopped}, line)


def _pages_in_background(url: str, code: str) -> str:
    from dibs.server import background

    return background.ensure(url, code).pages


def opens(link: str) -> bool:
    """Open a browser at the link, if there is a display; return whether one has."""
    return has_display() and _is_opened(link)


def has_display() -> bool:
    """Without one, `webbrowser` would run a text browser in the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in DISPLAYS)


def _is_opened(link: str) -> bool:
    from dibs.cli import browser

    return browser.open_link(link)
