"""Boards of markdown files: making one, and bringing it together with its clones over git."""

from __future__ import annotations

import os
import sys
import time

from dibs import location
from dibs.board import make, make_hub
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean
from dibs.errors import Invalid, NotTrusted, StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Synced

#: More often would be no news for anybody, and a burden for the remote.
LOOP_SECONDS_MIN = 1.0
#: With a loop, the remote may be away: the wait grows up to so many times what was asked for.
LONGER_MAX = 8


def vault_init_options(parser: Parser) -> None:
    parser.word("path", "the folder of the vault (this one)", optional=True)


def vault_init(cli: Cli) -> None:
    """Make a vault of a folder: its folders, and the index beside them. What is in it already stays as it is."""
    folder = cli.args.path or "."
    url = location.VAULT + os.path.abspath(folder)
    made = make(url, folder=folder if os.path.isdir(folder) else ".")
    if cli.json:
        return cli.answer({"store": url, "created": made})
    place = clean(os.path.abspath(folder))
    if not made:
        return cli.say(f"the vault is there already: {place}")
    cli.say(f"{cli.paint('made a vault', 'green')}: {place}")
    cli.say(cli.paint("now: put a task into Needs_Action, as a markdown file; then, in there: dibs next", "dim"))
    first = _board_before(folder, url)
    if first is not None:
        cli.remark(f"{first} comes first there; name the vault with: export DIBS_STORE={url}")
    return None


def _board_before(folder: str, url: str) -> str | None:
    """The board of the repository around a new vault, which a search finds before the vault."""
    try:
        found = location.find(folder)
    except NotTrusted:
        return None
    return None if found == url else found


def vault_sync_options(parser: Parser) -> None:
    parser.duration("--loop", "loop", "go on, with a pause of so long: 30s, 5m")


def vault_sync(cli: Cli) -> None:
    """Once, or until it is interrupted; then claims of sessions elsewhere that fell silent end, too."""
    every: float | None = cli.args.loop
    if every is None:
        _tell(cli, cli.board.sync(), quiet=False)
        return
    if every < LOOP_SECONDS_MIN:
        raise Invalid(f"--loop takes {LOOP_SECONDS_MIN:g}s or more", field="loop")
    try:
        _go_on(cli, every)
    except KeyboardInterrupt:
        pass  # how one ends it


def vault_hub_options(parser: Parser) -> None:
    parser.word("what", "init: make it, or see that it is as it should be")
    parser.word("path", "where the repository lies")


def vault_hub(cli: Cli) -> None:
    """Make a hub that has on disk what it has acknowledged."""
    if cli.args.what != "init":
        raise Invalid(f"dibs vault hub init PATH is right, not {cli.args.what!r}", field="what")
    place = os.path.abspath(cli.args.path)
    made = make_hub(place)
    if cli.json:
        return cli.answer({"path": place, "created": made})
    if not made:
        return cli.say(f"the hub is there already: {clean(place)}")
    cli.say(f"{cli.paint('made a hub', 'green')}: {clean(place)}")
    return cli.say(cli.paint(f"now: git clone {clean(place)} tasks; dibs vault init tasks", "dim"))


def _go_on(cli: Cli, every: float) -> None:
    failed = 0
    while True:
        try:
            _tell(cli, cli.board.sync(expire=True), quiet=True)
            failed = 0
        except StoreUnusable:
            raise
        except StoreUnavailable as error:
            failed += 1
            if cli.json:
                cli.answer({"code": error.code, "message": error.message})
            elif failed == 1:
                cli.remark(f"{error.message}; trying again")
        sys.stdout.flush()
        time.sleep(every * min(max(1, failed), LONGER_MAX))


def _tell(cli: Cli, synced: Synced, *, quiet: bool) -> None:
    """What came and went. In a loop, only if anything did."""
    if cli.json:
        return cli.answer(synced)
    told = [
        (f"from elsewhere: {', '.join(synced.news)}", "green", bool(synced.news)),
        ("sent off what was done here", "green", synced.pushed),
        (f"ended, their sessions were silent: {', '.join(synced.expired)}", "yellow", bool(synced.expired)),
        *((f"changed here and elsewhere, kept apart: {path}", "yellow", True) for path in synced.conflicts),
        *((f"left alone: {finding}", "red", True) for finding in synced.findings),
    ]
    lines = [cli.paint(clean(text), colour) for text, colour, is_so in told if is_so]
    return cli.say(*(lines or ([] if quiet else ["nothing new, here or elsewhere"])))
