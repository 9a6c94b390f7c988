"""The table `[github]` of a `dibs.toml`, read as a policy. A mistake is refused with its line and with what may have
been meant."""

from __future__ import annotations

import os

from dibs import check, config
from dibs.errors import Invalid
from dibs.github import out_policy, payload
from dibs.github.out_policy import Out
from dibs.github.policy import (
    ACTIONS_OF,
    ASSOCIATIONS,
    CONTRACTS,
    DEFAULT_RULES,
    FOR_WORK,
    KNOWN_ACTIONS,
    MAKE,
    OBEYED_BY,
    OUTSIDERS,
    OVER,
    REPRIORITISE,
    RULES_MAX,
    VERBS,
    WEBHOOK_BYTES_LIMIT,
    Policy,
    Rule,
)
from dibs.text import priorities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dibs.location import Place


def load(place: Place, *, acts: bool = True) -> Policy:
    """The policy of the `dibs.toml` that counts for a board; the defaults without one. Refused if it comes from a
    commit and sets what needs trust, unless the caller only reads it."""
    path = place.settings_file
    if path is None:
        return Policy()
    policy, table = _read(path)
    if acts:
        place.require_trusted("github", table)
    return policy


def read(path: str) -> Policy:
    return _read(path)[0]


def _read(path: str) -> tuple[Policy, dict[str, Any]]:
    text = config.read_text(path)
    table = config.parse(text, path).get("github", {})
    return _Reader(path, text).policy(table), table


class _Reader:
    """Checks the table, and finds the line of a mistake."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._lines = path, text.splitlines()

    def policy(self, table: object) -> Policy:
        if not isinstance(table, dict):
            raise self._mistake("[github] must be a table", ())
        fields: dict[str, Any] = {}
        readers = self._settings()
        with_defaults = True
        for name, value in table.items():
            if name not in readers:
                raise self._unknown(name, tuple(readers), "[github] has no setting", ("github",))
            found = self._checked(readers[name], value, name, ("github",))
            if name == "defaults":
                with_defaults = found
            else:
                fields[name] = found
        rules = fields.get("rules", ())
        return Policy(**{**fields, "rules": (*rules, *DEFAULT_RULES) if with_defaults else rules})

    def _settings(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "rules": self._rules,
            "priorities": self._priorities,
            "projects": self._projects,
            "out": self._out,
            "outsiders": lambda given: self._one_of(given, OUTSIDERS),
            "approve_label": _text,
            "complete": lambda given: self._one_of(given, CONTRACTS),
            "checks": _texts,
            "defaults": _flag,
            "webhook_bytes_max": lambda given: check.whole(
                given, "webhook_bytes_max", low=1000, high=WEBHOOK_BYTES_LIMIT
            ),
            "secrets_file": lambda given: os.path.join(os.path.dirname(self._path), os.path.expanduser(_text(given))),
        }

    def _rules(self, given: object) -> tuple[Rule, ...]:
        if not isinstance(given, list) or len(given) > RULES_MAX:
            raise Invalid(f"rules must be tables [[github.rules]], {RULES_MAX} at most")
        return tuple(self._rule(number, one) for number, one in enumerate(given))

    def _rule(self, number: int, given: object) -> Rule:
        where = ("github", "rules", number)
        readers: dict[str, Callable[[Any], Any]] = {
            "do": lambda one: self._one_of(one, VERBS),
            "event": lambda one: self._some_of(one, payload.EVENTS),
            "action": lambda one: self._some_of(one, KNOWN_ACTIONS),
            "association": lambda one: self._some_of(one, ASSOCIATIONS),
            "labels": _patterns,
            "branch": _texts,
            "repository": _repositories,
            "workflow": _texts,
            "draft": _flag,
            "linked": _flag,
            "complete": lambda one: self._one_of(one, CONTRACTS),
            "type": lambda one: check.name(one, "type"),
            "priority": priorities.parse,
            "project": lambda one: check.name(one, "project"),
            "add_labels": lambda one: check.names(one, "add_labels"),
        }
        if not isinstance(given, dict):
            raise Invalid("rules must be tables [[github.rules]]")
        for name in given:
            if name not in readers:
                raise self._unknown(name, tuple(readers), "a rule has no setting", where)
        found = {name: self._checked(readers[name], value, name, where) for name, value in given.items()}
        if "do" not in found:
            raise self._mistake(f"a rule needs do: one of {', '.join(VERBS)}", where)
        if found["do"] == MAKE and "type" not in found:
            raise self._mistake('a rule with do = "make" needs the type of the item', where)
        if found["do"] in FOR_WORK and set(found.get("action", ())) & set(OVER):
            raise self._mistake(f"do = {found['do']!r} is for what is open or failed, not {', '.join(OVER)}", where)
        events = found.get("event", payload.EVENTS)
        for action in found.get("action", ()):
            if not any(action in ACTIONS_OF[event] for event in events):
                known = ", ".join(dict.fromkeys(one for event in events for one in ACTIONS_OF[event]))
                raise self._mistake(f"{' and '.join(events)} are never {action}, but {known}", (*where, "action"))
        for name, verbs in OBEYED_BY.items():
            if name in found and found["do"] not in verbs:
                problem = f"{name} is for do = {' or '.join(map(repr, verbs))}; {found['do']!r} does not obey it"
                raise self._mistake(problem, (*where, name))
        if found["do"] == REPRIORITISE and "priority" not in found:
            raise self._mistake('a rule with do = "reprioritise" needs a priority', where)
        return Rule(**found, line=self._line(where))

    def _priorities(self, given: object) -> dict[str, int]:
        where, table = ("github", "priorities"), _table(given)
        if len({name.casefold() for name in table}) < len(table):
            raise Invalid("two names differ only in case, which does not count; keep one of them")
        return {name.casefold(): self._checked(priorities.parse, value, name, where) for name, value in table.items()}

    def _projects(self, given: object) -> tuple[tuple[str, str], ...]:
        where, table = ("github", "projects"), _table(given)

        def project(value: object) -> str:
            return check.name(value, "project")

        for name in table:
            self._checked(_repositories, name, name, where)
        return tuple((name.lower(), self._checked(project, value, name, where)) for name, value in table.items())

    def _out(self, given: object) -> Out:
        where, table = ("github", "out"), _table(given)
        readers = out_policy.readers(flag=_flag, patterns=_patterns)
        for name in table:
            if name not in readers:
                raise self._unknown(name, tuple(readers), "[github.out] has no setting", where)
        return Out(**{name: self._checked(readers[name], value, name, where) for name, value in table.items()})

    def _one_of(self, given: object, known: tuple[str, ...]) -> str:
        if given in known and isinstance(given, str):
            return given
        raise Invalid(f"{given!r:.60} is not known; choose {_close(given, known)}")

    def _some_of(self, given: object, known: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._one_of(one, known) for one in _texts(given))

    def _checked(self, reader: Callable[[Any], Any], value: object, name: str, where: tuple[str | int, ...]) -> Any:
        try:
            return reader(value)
        except Invalid as error:
            if error.facts.get("line"):
                raise
            raise self._mistake(f"{name}: {error.message}", (*where, name)) from error

    def _unknown(self, name: str, known: tuple[str, ...], problem: str, where: tuple[str | int, ...]) -> Invalid:
        return self._mistake(f"{problem} {name!r}; choose {_close(name, known)}", (*where, name))

    def _mistake(self, problem: str, where: tuple[str | int, ...]) -> Invalid:
        number = self._line(where)
        return Invalid(f"{self._path}, line {number}: {problem}", field=config.FILE_NAME, line=number)

    def _line(self, where: tuple[str | int, ...]) -> int:
        """The line of a setting, or else of the table that it stands in: one setting a line, below its header."""
        names = tuple(one for one in where if isinstance(one, str))
        wanted = next((one for one in where if isinstance(one, int)), None)
        header: tuple[str, ...] = ()
        table_line, table_depth, rule = 1, 0, -1
        headers = [_keys(line.strip(" []")) for line in self._lines if line.lstrip().startswith("[")]
        if wanted is not None and ("github", "rules") not in headers:
            names, wanted = names[:2], None  # the rules are a list in one place
        for number, full in enumerate(self._lines, start=1):
            line = full.strip()
            is_header = line.startswith("[")
            if is_header:
                header = _keys(line.partition("#")[0].strip(" []"))
                rule += header == ("github", "rules")
            if wanted is not None and (header != ("github", "rules") or rule != wanted):
                continue
            if is_header and header == names[: len(header)] and len(header) > table_depth:
                table_line, table_depth = number, len(header)
            elif (*header, *_keys(line.partition("=")[0], names[len(header) :])) == names:
                return number
        return table_line


def _keys(dotted: str, whole: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The keys of a dotted key; one that is `whole` is not split."""
    plain = dotted.strip(" \"'")
    return (plain,) if (plain,) == whole else tuple(one.strip(" \"'") for one in dotted.split("."))


def _close(given: object, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(given), known, n=1)
    return f"{near[0]}, or another of {', '.join(known)}" if near else f"one of {', '.join(known)}"


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise Invalid("it must be a text")
    return check.text(given, "text", 1000)


def _texts(given: object) -> tuple[str, ...]:
    if given == []:
        raise Invalid("an empty list matches nothing; leave it out to match anything")
    return tuple(
        _text(one) for one in ([given] if isinstance(given, str) else given if isinstance(given, list) else [0])
    )


def _repositories(given: object) -> tuple[str, ...]:
    found = _patterns(given)
    wrong = next((one for one in found if "/" not in one and "*" not in one), None)
    if wrong is not None:
        raise Invalid(f"{wrong!r:.60} is no repository; name it as OWNER/NAME, or all of an owner as OWNER/*")
    return found


def _patterns(given: object) -> tuple[str, ...]:
    return tuple(one.casefold() for one in _texts(given))


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise Invalid("it must be true or false")
    return given


def _table(given: object) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise Invalid("it must be a table")
    return given
