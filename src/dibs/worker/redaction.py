"""The secrets of a worker, struck out of what its commands leave on the board, where every viewer reads it.

They are the key for its server and the passwords of its board: a command inherits them, and may print its environment.
dibs knows no other secrets.
"""

from __future__ import annotations

import os
import re

from dibs import board_url, config, location
from dibs.system import keyring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Variables whose whole value is a secret.
VARIABLES = (config.ENV_KEY, "PGPASSWORD")
#: A shorter secret is also a part of harmless words, so it is struck out only where it stands as in a URL.
CHARACTERS_MIN = 6


class Redaction:
    """Replaces secrets by a mask."""

    def __init__(self, secrets: set[str]) -> None:
        # The longest first: a secret may be the beginning of another one.
        known = sorted(filter(None, secrets), key=len, reverse=True)
        self._words = [os.fsencode(one if len(one) >= CHARACTERS_MIN else f":{one}@") for one in known]
        self._pattern = re.compile(b"|".join(map(re.escape, self._words)))

    def data(self, data: bytes) -> bytes:
        return self._pattern.sub(location.MASK.encode(), data) if self._words else data

    def value(self, value: Any) -> Any:
        """The same for a text, and for the texts in a JSON value."""
        if isinstance(value, str):
            return self.data(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, dict):
            return {self.value(name): self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def incomplete(self, data: bytes) -> int:
        """Where at the end of the data a secret begins that may go on; the length of the data if none does."""
        at = self._next_incomplete(data, 0)
        if at == len(data):
            return at
        for found in self._pattern.finditer(data):
            if found.start() < at < found.end():
                at = self._next_incomplete(data, found.end())
        return at

    def _next_incomplete(self, data: bytes, start: int) -> int:
        longest = max(map(len, self._words), default=0)
        for at in range(max(start, len(data) - longest + 1), len(data)):
            end = data[at:]
            if any(word.startswith(end) for word in self._words):
                return at
        return len(data)


class StreamRedaction:
    """The same for data that comes in pieces: a secret may be in two of them."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction, self._rest = redaction, b""

    def add(self, piece: bytes) -> bytes:
        """What may be passed on by now."""
        data = self._rest + piece
        at = self._redaction.incomplete(data)
        self._rest = data[at:]
        return self._redaction.data(data[:at])

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest


def of_worker(*environments: Mapping[str, str], url: str | None) -> Redaction:
    """For a worker and a command with these environments, on the board at `url`, if it has one."""
    secrets = {environment.get(name, "") for environment in environments for name in VARIABLES}
    for board in {url or "", *(environment.get(config.ENV_STORE, "") for environment in environments)}:
        secrets |= board_url.secrets_in(board)
        if board.startswith(("http://", "https://")):
            secrets.add(keyring.find(board) or "")
    return Redaction(secrets)
