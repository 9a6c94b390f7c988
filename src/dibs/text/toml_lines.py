"""What the parser of the standard library does not tell about a TOML file: where a setting stands, for messages about
it, and whether a key would hold the parser up."""

from __future__ import annotations

#: The most dots of a key. The parser takes time that grows with their cube: minutes for a line of 100 kB.
DOTS_MAX = 32


def long_key(text: str) -> int | None:
    """The line of a key that has more dots than any setting. A key ends before an equals sign, or is a heading."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > DOTS_MAX:
            keys = line.rpartition("=")[0] if "=" in line else line if line.lstrip().startswith("[") else ""
            if keys.count(".") > DOTS_MAX:
                return number
    return None


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
