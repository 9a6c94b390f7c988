"""`dibs add --file`: many items, one JSON object a line, in batches that are added whole or not at all."""

from __future__ import annotations

import json
import sys

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.render import number_of
from dibs.errors import DibsError, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    Batch = list[tuple[int, dict[str, Any]]]


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
    with opened(path) as file:
        ids = _add_all(cli, file)
    if cli.json:
        return cli.answer({"added": len(ids), "ids": ids})
    return cli.say(f"{cli.paint('added', 'green')} {number_of(len(ids), 'item')}")


def _add_all(cli: Cli, file: BinaryIO) -> list[str]:
    ids: list[str] = []
    progress = sys.stderr.isatty()
    try:
        for number, batch in enumerate(_batches(file), start=1):
            ids += _add_batch(cli, batch, number)
            if progress:
                sys.stderr.write(f"\r{number_of(len(ids), 'item')} added")
                sys.stderr.flush()
    except DibsError as error:
        error.message += (
            f"; {number_of(len(ids), 'item')} from the lines before {'is' if len(ids) == 1 else 'are'} added"
        )
        error.facts["added"] = len(ids)
        raise
    finally:
        if progress and ids:
            sys.stderr.write("\r\x1b[K")
    return ids


def _add_batch(cli: Cli, batch: Batch, number: int) -> list[str]:
    request_id = cli.args.request_id and f"{cli.args.request_id}:{number}"
    try:
        return [item.id for item in cli.board.add_many([fields for _, fields in batch], request_id=request_id)]
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
