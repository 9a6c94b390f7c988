"""Durations (`90s`, `30m`, `2h`) and instants (ISO 8601 in UTC with milliseconds): parsed and formatted."""

from __future__ import annotations

import time

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: A claim with a longer TTL does not expire by the clock: the claim of another clone of a vault lasts as long as that
#: clone's heartbeats arrive.
ENDLESS_SECONDS = 100 * 365 * 86400
WHILE_ALIVE = "while its clone shows signs of life"
#: The text of each minute that was formatted: an answer can have thousands of instants, most of them of a few hours.
_MINUTES: dict[int, str] = {}
MINUTES_MAX = 10_000
OFFSET_LENGTH = len("+02:00")


def parse_duration(text: str, field: str = "duration") -> float:
    """Seconds in `90s`, `30m`, `1h30m`, `250ms` or a bare number of seconds."""
    rest, total = text.strip().lower(), 0.0
    if rest.isascii() and "_" not in rest:  # `float` would take underscores and the digits of other scripts
        try:
            total, rest = float(rest), ""
        except ValueError:
            pass
    while rest:
        number = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(number) :]
        unit = rest[: len(rest) - len(rest.lstrip("abcdefghijklmnopqrstuvwxyz"))]
        rest = rest[len(unit) :]
        if unit not in UNITS or number.count(".") > 1 or number in ("", "."):
            total = -1.0
            break
        total += float(number) * UNITS[unit]
    if not text.strip() or not 0 <= total < 1e9:
        raise Invalid(f"{text!r} is not a duration; write 90s, 30m, 2h or 1h30m", field=field)
    return total


def span(seconds: float) -> str:
    """A duration for people, in at most two units: `45s`, `4m`, `2h 5m`, `3d`; `∞` for an endless one."""
    seconds = max(0, round(seconds))
    if seconds > ENDLESS_SECONDS:
        return "∞"
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600 - 30:
        return _two_units(seconds, "m", "s")
    return _two_units(seconds, "h", "m") if seconds < 86400 - 1800 else _two_units(seconds, "d", "h")


def exact(seconds: float) -> str:
    """A duration as `span` writes it, if that is the whole of it; else its seconds: `59.9s` and not `1m`."""
    shown = span(seconds)
    try:
        is_whole = parse_duration(shown.replace(" ", "")) == seconds
    except Invalid:
        is_whole = True
    return shown if is_whole else f"{seconds:.15g}s"


def for_more(seconds: float) -> str:
    """How long something is still held: `for 4m more`, or the condition of an endless one."""
    return WHILE_ALIVE if seconds > ENDLESS_SECONDS else f"for {span(seconds)} more"


def _two_units(seconds: float, unit: str, part: str) -> str:
    """The smaller unit is shown only below ten of the larger one."""
    size, small = UNITS[unit], UNITS[part]
    if seconds >= 10 * size - small / 2:
        return f"{round(seconds / size)}{unit}"
    whole, rest = divmod(round(seconds / small), round(size / small))
    return f"{whole}{unit} {rest}{part}" if rest else f"{whole}{unit}"


def iso(at: int) -> str:
    """An instant as ISO 8601 in UTC with milliseconds."""
    minute, milliseconds = divmod(at, 60_000)
    text = _MINUTES.get(minute)
    if text is None:
        if len(_MINUTES) >= MINUTES_MAX:
            _MINUTES.clear()
        text = _MINUTES[minute] = time.strftime("%Y-%m-%dT%H:%M:", time.gmtime(60 * minute))
    return f"{text}{milliseconds // 1000:02d}.{milliseconds % 1000:03d}Z"


def parse_instant(text: str, field: str = "time") -> int:
    """An ISO 8601 time that a file or another program has, as milliseconds since the epoch; UTC if it has no offset,
    because nobody knows where it was written."""
    from datetime import UTC

    moment = _parse(text, field)
    return _milliseconds(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def parse_exact_instant(text: str, field: str) -> int:
    """The same from a program, which has to say what offset it means."""
    moment = _parse(text, field)
    if moment.tzinfo is None:
        right = moment.isoformat()
        raise Invalid(f"{text!r} has no offset; write {right}Z for UTC, or an offset as in {right}+02:00", field=field)
    return _milliseconds(moment)


def parse_clock_time(text: str, field: str) -> int:
    """The same from a person, who means the clock of this machine, by which times are shown."""
    moment = _parse(text, field)
    if moment.tzinfo is not None:
        return _milliseconds(moment)
    try:
        first, second = (moment.replace(fold=fold).astimezone() for fold in (0, 1))
    except (OverflowError, ValueError, OSError) as error:
        raise Invalid(f"{text!r} is outside of the calendar of this machine", field=field) from error
    if first.utcoffset() != second.utcoffset():
        forms = " or ".join(moment.isoformat() + one.isoformat()[-OFFSET_LENGTH:] for one in (first, second))
        raise Invalid(f"the clock shows {text} twice or never, because it is changed then: write {forms}", field=field)
    return _milliseconds(first)


def _parse(text: str, field: str) -> datetime:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Invalid(f"{text!r} is not an ISO 8601 time; write 2026-11-15T09:30:00Z", field=field) from error


def _milliseconds(moment: datetime) -> int:
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1000 + moment.microsecond // 1000
