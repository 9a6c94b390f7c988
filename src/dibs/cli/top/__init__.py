"""`dibs top`: the board live in a terminal, with the keys of the dashboard.

`state` folds what happens into what is known, `feed` follows the board in a thread, `app` and its parts draw.
"""

from __future__ import annotations

import os
import sys
import traceback

from dibs import location
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean
from dibs.errors import Invalid

NEEDS_TEXTUAL = "dibs top needs Textual; install it with: pip install 'calldibs[top]'"


def top_options(parser: Parser) -> None:
    parser.actor()


def top(cli: Cli) -> int:
    if cli.json:
        raise UsageError("dibs top draws a screen; for JSON, use dibs who, dibs list or dibs events", field="json")
    try:
        from dibs.cli.top.app import TopApp
        from dibs.cli.top.feed import read
    except ModuleNotFoundError as error:
        if error.name not in ("textual", "rich"):
            raise
        raise Invalid(NEEDS_TEXTUAL, field="top") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("dibs top needs a terminal; dibs who and dibs events --follow print lines", field="terminal")
    if cli.args.no_color:
        os.environ["NO_COLOR"] = "1"
    app = TopApp(cli.board, read(cli.board), name=_name(cli), args=cli.args)
    app.run()
    if app.crash is not None:
        sys.stderr.write(f"dibs: {_described(app.crash)}\n")
    return app.return_code or 0


def _described(crash: BaseException) -> str:
    """One line: what went wrong, and where."""
    last = traceback.extract_tb(crash.__traceback__)[-1]
    what = f"{type(crash).__name__}: {clean(str(crash))}"
    return f"dibs top ended because of a bug: {what} ({os.path.basename(last.filename)}:{last.lineno})"


def _name(cli: Cli) -> str:
    """What tells this board from others: the server, the database, or the folder."""
    url = location.without_password(location.absolute(cli.place.url))
    if url.startswith(("http://", "https://")):
        return url.partition("://")[2].rstrip("/")
    if "://" in url:
        return url.partition("?")[0].rpartition("/")[2]
    folders = [part for part in url.split("/")[:-1] if part not in (".git", "dibs", ".dibs")]
    return folders[-1] if folders else url
