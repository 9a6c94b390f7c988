"""`dibs add --file`: many items, one JSON object a line, in batches that are added whole or not at all."""

from __future__ import annotations

import json
import sys

from dibs import check
from dibs.cli.claim_lines import never_done
from dibs.cli.context import Cli
from dibs.cli.render import number_of
from dibs.errors import DibsError, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from dibs.model import Added

    Batch = list[tuple[int, dict[str, Any]]]

#: How many items that will not move are named.
STUCK_SHOWN = 10


def opened(path: str) -> BinaryIO:
    """The file that a command was told to read, or stdin for `-`."""
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="file") from error


def add_file(cli: Cli, path: str) -> None:
    """Add the file's items; a refusal names the line and says what is on the board already."""
    added = Tally()
    with opened(path) as file:
        _add_all(cli, file, added)
    if cli.json:
        told = {"added": added.new, "ids": added.ids, "existed": added.existed, "will_not_move": added.stuck}
        return cli.answer(told)
    cli.say(f"{cli.paint('added', 'green')} {number_of(added.new, 'item')}{added.already}")
    if added.stuck:
        shown = ", ".join(added.stuck[:STUCK_SHOWN]) + (", ..." if len(added.stuck) > STUCK_SHOWN else "")
        cli.say(cli.paint(f"  will not move as things stand: {shown}; see dibs show {added.stuck[0]}", "red"))
    return None


class Tally:
    """What came of the items of a file: which were there already, and which wait for what will never be done."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.existed: list[str] = []
        self.stuck: list[str] = []

    @property
    def new(self) -> int:
        return len(self.ids) - len(self.existed)

    def count(self, items: Iterable[Added]) -> None:
        for item in items:
            self.ids.append(item.id)
            if item.existed:
                self.existed.append(item.id)
            if never_done(item, item.blockers):
                self.stuck.append(item.id)

    @property
    def already(self) -> str:
        return f", {len(self.existed)} there already" if self.existed else ""


def _add_all(cli: Cli, file: BinaryIO, added: Tally) -> None:
    progress = sys.stderr.isatty()
    try:
        for number, batch in enumerate(_batches(file), start=1):
            added.count(_add_batch(cli, batch, number))
            if progress:
                sys.stderr.write(f"\r{number_of(added.new, 'item')} added{added.already}")
                sys.stderr.flush()
    except DibsError as error:
        are = "is" if added.new == 1 else "are"
        error.message += f"; {number_of(added.new, 'item')} from the lines before {are} added{added.already}"
        error.facts["added"] = added.new
        raise
    finally:
        if progress and added.ids:
            sys.stderr.write("\r\x1b[K")


def _add_batch(cli: Cli, batch: Batch, number: int) -> tuple[Added, ...]:
    request_id = cli.args.request_id and f"{cli.args.request_id}:{number}"
    try:
        return cli.board.add_many([fields for _, fields in batch], request_id=request_id)
    except Invalid as error:
        line = _line_of(error, batch)
        if line is not None:
            error.message, error.facts["line"] = f"line {line}: {error.message}", line
        raise


def _line_of(error: Invalid, batch: Batch) -> int | None:
    """The line that a refusal is about: by its number in the batch, or by the id that was taken."""
    if "number" in error.facts:
        number: int = error.facts.pop("number")
        return batch[number - 1][0]
    return next((line for line, fields in batch if fields.get("id") == error.facts.get("item", ...)), None)


def _batches(file: BinaryIO) -> Iterator[Batch]:
    """Items with their line numbers, in batches of what the board takes at once. A wrong line comes after its batch."""
    batch: Batch = []
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            batch.append((number, _item(line)))
        except Invalid as error:
            if batch:
                yield batch
            error.message, error.facts["line"] = f"line {number}: {error.message}", number
            raise
        if len(batch) == check.BATCH_MAX:
            yield batch
            batch = []
    if batch:
        yield batch


def _item(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is no JSON: {error}", field="file") from error
    if not isinstance(fields, dict):
        raise Invalid('an item is a JSON object, like {"title": "Fix login"}', field="file")
    return fields
