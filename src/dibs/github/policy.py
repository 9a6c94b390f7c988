"""The policy: what to do about which fact, from the table `[github]` of a `dibs.toml`.

A rule matches states, not actions: `opened` holds for as long as an issue is open. So a rule says the same about a
webhook, a read of the API and a delivery that comes late. The first rule that matches decides; the rules of the file
come before the defaults, which need no file. A mistake in the table is refused with its line and with what may have
been meant.
"""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase

from dibs import check, config
from dibs.errors import Invalid
from dibs.github import out_policy, payload
from dibs.github.out_policy import Out
from dibs.github.payload import CLOSED, FAILED, ISSUES, MERGED, OPEN, PULL_REQUEST, SUCCEEDED, WORKFLOW_RUN, Fact
from dibs.model import DEFAULT_PRIORITY, DEFAULT_PROJECT
from dibs.text import priorities
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

MAKE, REPRIORITISE, CLOSE, CANCEL, UNBLOCK, IGNORE = "make", "reprioritise", "close", "cancel", "unblock", "ignore"
VERBS = (MAKE, REPRIORITISE, CLOSE, CANCEL, UNBLOCK, IGNORE)
#: What makes sense only as long as there is something to do.
FOR_WORK = (MAKE, REPRIORITISE)
OVER = ("closed", "merged", "succeeded")
#: The names that each state has in a rule; an issue with a label is `labeled`, too.
LABELED = "labeled"
ACTIONS = {
    OPEN: ("opened",),
    CLOSED: ("closed",),
    MERGED: ("merged",),
    FAILED: ("failed", "completed"),
    SUCCEEDED: ("succeeded", "completed"),
}
KNOWN_ACTIONS = ("opened", LABELED, "closed", "merged", "completed", "failed", "succeeded")
ASSOCIATIONS = (
    *("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"),
    *("FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "NONE"),
)
#: What becomes of work from somebody who is no member.
APPROVAL, ACCEPT = "approval", "accept"
OUTSIDERS = (APPROVAL, ACCEPT, IGNORE)
PRIORITIES = {"critical": 10, "security": 9, "bug": 8, "feature": 5, "enhancement": 5, "documentation": 3}
PRIORITIES |= {"refactoring": 1}
SECRET_LENGTH_MIN = 16
SECRETS_BYTES_MAX = 64_000
#: GitHub itself sends at most 25 MB; a payload with an issue has some kilobytes. A server takes no larger bodies than
#: the limit, whatever they are.
WEBHOOK_BYTES_MAX = 2_000_000
WEBHOOK_BYTES_LIMIT = 8_000_000
RULES_MAX = 1000


class Rule(Value):
    """What to match, each empty for anything, and what to do. `line` is that of its table in the file."""

    do: str
    event: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    branch: tuple[str, ...] = ()
    association: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    workflow: tuple[str, ...] = ()
    draft: bool | None = None
    type: str | None = None
    priority: int | None = None
    project: str | None = None
    add_labels: tuple[str, ...] = ()
    line: int = 0

    def matches(self, fact: Fact) -> bool:
        if self.do in FOR_WORK and not fact.is_work:
            return False
        actions = {*ACTIONS[fact.state], *([LABELED] if fact.labels and fact.state == OPEN else [])}
        return (
            (not self.event or fact.event in self.event)
            and (not self.action or not actions.isdisjoint(self.action))
            and (self.draft is None or self.draft == fact.draft)
            and (not self.association or fact.association in self.association)
            and _any_matches(self.labels, fact.labels)
            # A pull request is matched by the branch that it goes to.
            and _any_matches(self.branch, (fact.base or fact.branch,))
            and _any_matches(self.repository, (fact.repository,))
            and _any_matches(self.workflow, (fact.workflow,))
        )

    @property
    def name(self) -> str:
        return f"the rule in line {self.line}" if self.line else "a default rule"


DEFAULT_RULES = (
    Rule(do=MAKE, event=(ISSUES,), action=("opened",), type="issue_triage"),
    Rule(do=CANCEL, event=(ISSUES,), action=("closed",)),
    Rule(do=MAKE, event=(PULL_REQUEST,), action=("opened",), draft=False, type="pr_review"),
    Rule(do=CANCEL, event=(PULL_REQUEST,), action=("closed", "merged")),
    Rule(do=MAKE, event=(WORKFLOW_RUN,), action=("failed",), type="build_failure", priority=PRIORITIES["bug"]),
    Rule(do=CLOSE, event=(WORKFLOW_RUN,), action=("succeeded",)),
)


class Policy(Value):
    rules: tuple[Rule, ...] = DEFAULT_RULES
    priorities: dict[str, int] = PRIORITIES
    #: Patterns of repositories, and their projects; the first that matches counts.
    projects: tuple[tuple[str, str], ...] = ()
    outsiders: str = APPROVAL
    approve_label: str | None = None
    webhook_bytes_max: int = WEBHOOK_BYTES_MAX
    secrets_file: str | None = None
    out: Out = Out()

    def rule(self, fact: Fact) -> Rule | None:
        return next((rule for rule in self.rules if rule.matches(fact)), None)

    def project(self, fact: Fact, rule: Rule) -> str:
        mapped = next((to for pattern, to in self.projects if fnmatchcase(fact.repository, pattern)), DEFAULT_PROJECT)
        return rule.project or mapped

    def priority(self, fact: Fact, rule: Rule) -> tuple[int, str | None]:
        """The priority, and the label that gave it."""
        known = [(self.priorities[word], label) for label in fact.labels if (word := self._word(label)) is not None]
        best = max(known, key=lambda one: one[0], default=(DEFAULT_PRIORITY, None))
        return (best[0] if rule.priority is None else rule.priority), best[1]

    def _word(self, label: str) -> str | None:
        """The word of the table in a label: `Bug`, `kind/bug` and `type: bug` are `bug`."""
        whole = label.casefold()
        last = whole.replace(":", "/").rpartition("/")[2].strip()
        return next((word for word in (whole, last) if word in self.priorities), None)


class Intake:
    """What a server needs to accept webhooks. Not a `Value`, whose text would show the secrets."""

    __slots__ = ("policy", "secrets")

    def __init__(self, policy: Policy, secrets: tuple[bytes, ...]) -> None:
        self.policy, self.secrets = policy, secrets


def load_intake(folder: str) -> Intake:
    policy = load(folder)
    return Intake(policy, secrets(policy))


def load(folder: str) -> Policy:
    """The policy of the nearest `dibs.toml` at or above the folder; the defaults without one."""
    path = config.find_file(folder)
    return Policy() if path is None else read(path)


def read(path: str) -> Policy:
    import tomllib

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        table = tomllib.loads(text).get("github", {})
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}: {error}", field=config.FILE_NAME) from error
    return _Reader(path, text).policy(table)


def secrets(policy: Policy) -> tuple[bytes, ...]:
    """The secrets that a webhook may be signed with: those of the environment, and a line each of `secrets_file`."""
    given = os.environ.get(config.ENV_GITHUB_SECRET, "").split()
    if policy.secrets_file is not None:
        given += _kept_secrets(policy.secrets_file)
    for secret in given:
        if len(secret) < SECRET_LENGTH_MIN:
            problem = f"a secret of GitHub's webhooks needs {SECRET_LENGTH_MIN} characters or more"
            raise Invalid(f"{problem}; make one with: openssl rand -hex 32", field=config.ENV_GITHUB_SECRET)
    return tuple(secret.encode() for secret in given)


def _kept_secrets(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(SECRETS_BYTES_MAX)
    except OSError as error:
        raise Invalid(f"cannot read secrets_file {path}: {error.strerror}", field="secrets_file") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        # Also keeps a `dibs.toml` that came with a clone from naming a file whose content everybody knows.
        raise Invalid(f"{path} can be read by others; type: chmod 600 {path}", field="secrets_file")
    return content.decode(errors="replace").split()


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
            "repository": _patterns,
            "workflow": _texts,
            "draft": _flag,
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
        if found["do"] == REPRIORITISE and "priority" not in found:
            raise self._mistake('a rule with do = "reprioritise" needs a priority', where)
        return Rule(**found, line=self._line(where))

    def _priorities(self, given: object) -> dict[str, int]:
        where, table = ("github", "priorities"), _table(given)
        return {name.casefold(): self._checked(priorities.parse, value, name, where) for name, value in table.items()}

    def _projects(self, given: object) -> tuple[tuple[str, str], ...]:
        where, table = ("github", "projects"), _table(given)

        def project(value: object) -> str:
            return check.name(value, "project")

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
        for number, full in enumerate(self._lines, start=1):
            line = full.strip()
            is_header = line.startswith("[")
            if is_header:
                header = tuple(line.partition("#")[0].strip(" []").replace(" ", "").split("."))
                rule += header == ("github", "rules")
            if wanted is not None and (header != ("github", "rules") or rule != wanted):
                continue
            if is_header and header == names[: len(header)] and len(header) > table_depth:
                table_line, table_depth = number, len(header)
            elif (*header, line.partition("=")[0].strip(" \"'")) == names:
                return number
        return table_line


def _any_matches(patterns: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(value.casefold(), one.casefold()) for one in patterns for value in values)


def _close(given: object, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(given), known, n=1)
    return f"{near[0]}, or another of {', '.join(known)}" if near else f"one of {', '.join(known)}"


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise Invalid("it must be a text")
    return check.text(given, "text", 1000)


def _texts(given: object) -> tuple[str, ...]:
    return tuple(
        _text(one) for one in ([given] if isinstance(given, str) else given if isinstance(given, list) else [0])
    )


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
