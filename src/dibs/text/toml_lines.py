"""Where in a TOML file a setting stands, for messages about it. The parser of the standard library does not tell."""

from __future__ import annotations


def find(text: str, names: tuple[str, ...]) -> int:
    """The line of a setting, or else of the table nearest to it; settings are looked for one a line."""
    header: tuple[str, ...] = ()
    nearest, depth = 1, 0
    for number, full in enumerate(text.splitlines(), start=1):
        line = full.strip()
        if line.startswith("["):
            header = _keys(line.partition("#")[0].strip(" []"))
            if header == names:
                return number
            if header == names[: len(header)] and len(header) > depth:
                nearest, depth = number, len(header)
        elif (*header, *_keys(line.partition("=")[0])) == names:
            return number
    return nearest


def _keys(text: str) -> tuple[str, ...]:
    """The names of a dotted key, without the quotes around them."""
    return tuple(part.strip().strip("\"'") for part in text.split("."))
