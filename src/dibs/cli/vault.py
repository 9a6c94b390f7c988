"""Vaults, which are boards of markdown files: create one, sync it over git, create a hub for its clones."""

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

LOOP_SECONDS_MIN = 1.0
#: While the remote is unreachable, the pause of `sync --loop` grows up to this many times.
BACKOFF_MAX = 8


def vault_init_options(parser: Parser) -> None:
    parser.argument("path", "the folder of the vault (default: this one)", optional=True)


def vault_init(cli: Cli) -> None:
    """Create the folders of a vault and its index, and accept it; files that are there already stay as they are."""
    folder = cli.args.path or "."
    url = location.VAULT + os.path.abspath(folder)
    created = make(url, folder=folder if os.path.isdir(folder) else ".")
    cli.accept_vault(url)
    if cli.json:
        return cli.print_json({"store": url, "created": created})
    place = clean(os.path.abspath(folder))
    if not created:
        return cli.print(f"the vault exists already: {place}")
    cli.print(f"{cli.paint('created a vault', 'green')}: {place}")
    cli.print(cli.paint("next: put a markdown file into its folder Needs_Action; then, in the vault: dibs next", "dim"))
    other = _other_board(folder, url)
    if other is not None:
        cli.notice(f"commands in that folder find {other} first; to use the vault: export DIBS_STORE={url}")
    return None


def _other_board(folder: str, url: str) -> str | None:
    """The board of the repository around the vault, if commands in the vault's folder find that one instead."""
    try:
        found = location.find(folder)
    except NotTrusted:
        return None
    return None if found == url else found


def vault_sync_options(parser: Parser) -> None:
    parser.duration("--loop", "loop", "repeat, with this pause: 30s, 5m")


def vault_sync(cli: Cli) -> None:
    """Sync once, or in a loop until interrupted. The loop also expires claims of clones that send no heartbeats."""
    every: float | None = cli.args.loop
    if every is None:
        from dibs.cli.progress import STEP, Progress

        with Progress("syncing", unit=STEP):
            synced = cli.board.sync()
        _print_sync(cli, synced, quiet=False)
        return
    if every < LOOP_SECONDS_MIN:
        raise Invalid(f"--loop must be {LOOP_SECONDS_MIN:g}s or more", field="loop")
    try:
        _sync_forever(cli, every)
    except KeyboardInterrupt:
        pass


def vault_hub_options(parser: Parser) -> None:
    parser.argument("what", "init: create the hub, or check its settings")
    parser.argument("path", "the path of the repository")


def vault_hub(cli: Cli) -> None:
    """Create a bare repository that syncs each push to disk before it acknowledges it."""
    if cli.args.what != "init":
        raise Invalid(f"unknown subcommand {cli.args.what!r}; type: dibs vault hub init PATH", field="what")
    place = os.path.abspath(cli.args.path)
    created = make_hub(place)
    if cli.json:
        return cli.print_json({"path": place, "created": created})
    if not created:
        return cli.print(f"the hub exists already: {clean(place)}")
    cli.print(f"{cli.paint('created a hub', 'green')}: {clean(place)}")
    return cli.print(cli.paint(f"next: git clone {clean(place)} tasks; dibs vault init tasks", "dim"))


def _sync_forever(cli: Cli, every: float) -> None:
    failures = 0
    while True:
        try:
            _print_sync(cli, cli.board.sync(expire=True), quiet=True)
            failures = 0
        except StoreUnusable:
            raise
        except StoreUnavailable as error:
            failures += 1
            if cli.json:
                cli.print_json({"code": error.code, "message": error.message})
            elif failures == 1:
                cli.notice(f"{error.message}; trying again")
        sys.stdout.flush()
        time.sleep(every * min(max(1, failures), BACKOFF_MAX))


def _print_sync(cli: Cli, synced: Synced, *, quiet: bool) -> None:
    if cli.json:
        return cli.print_json(synced)
    changes = [
        ("repaired the damaged repository of this clone", "red", synced.repaired),
        (f"received: {', '.join(synced.news)}", "green", bool(synced.news)),
        ("pushed local changes", "green", synced.pushed),
        (f"expired, no sign of life from their sessions: {', '.join(synced.expired)}", "yellow", bool(synced.expired)),
        *((f"changed here and elsewhere, both kept: {path}", "yellow", True) for path in synced.conflicts),
        *((f"not synced: {finding}", "red", True) for finding in synced.findings),
    ]
    lines = [cli.paint(clean(text), colour) for text, colour, applies in changes if applies]
    return cli.print(*(lines or ([] if quiet else ["nothing to sync"])))
