"""The policy: what to do about which fact, from the table `[github]` of a `dibs.toml`.

A rule matches states, not actions: `opened` holds for as long as an issue is open. So a rule says the same about a
webhook, a read of the API and a delivery that comes late. The first rule that matches decides; the rules of the file
come before the defaults, which need no file.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from dibs.github.out_policy import CLAIM_STATUS, Out
from dibs.github.payload import CLOSED, FAILED, ISSUES, MERGED, OPEN, PULL_REQUEST, SUCCEEDED, WORKFLOW_RUN, Fact
from dibs.model import DEFAULT_PRIORITY, DEFAULT_PROJECT
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

MAKE, REPRIORITISE, CLOSE, CANCEL, UNBLOCK, IGNORE = "make", "reprioritise", "close", "cancel", "unblock", "ignore"
VERBS = (MAKE, REPRIORITISE, CLOSE, CANCEL, UNBLOCK, IGNORE)
#: What makes sense only as long as there is something to do.
FOR_WORK = (MAKE, REPRIORITISE)
OVER = ("closed", "merged", "succeeded")
#: Settings that only these verbs obey.
OBEYED_BY = {"type": (MAKE,), "project": (MAKE,), "add_labels": (MAKE,), "complete": (MAKE,), "priority": FOR_WORK}
#: The names that each state has in a rule; an issue with a label is `labeled`, too.
LABELED = "labeled"
ACTIONS = {
    OPEN: ("opened",),
    CLOSED: ("closed",),
    MERGED: ("merged",),
    FAILED: ("failed", "completed"),
    SUCCEEDED: ("succeeded", "completed"),
}
ACTIONS_OF = {
    ISSUES: ("opened", LABELED, "closed"),
    PULL_REQUEST: ("opened", LABELED, "closed", "merged"),
    WORKFLOW_RUN: ("completed", "failed", "succeeded"),
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
#: What completes an item whose run is done: that its pull request is merged, or that its checks are green.
NEVER, ON_MERGE, ON_CHECKS = "never", "merged", "checks"
CONTRACTS = (ON_MERGE, ON_CHECKS, NEVER)
#: Stands between the file of a workflow and what started its run.
RUN_MARK = " on "
#: Stands between the name of a check and who reports it, if another one reports a check of the same name.
BY_MARK = " by "
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
    linked: bool | None = None
    complete: str | None = None
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
            and (self.linked is None or self.linked == fact.linked)
            and (not self.association or fact.association in self.association)
            and _any_matches(self.labels, fact.labels)
            # A pull request is matched by the branch that it goes to.
            and _any_matches(self.branch, (fact.base or fact.branch,))
            and _any_matches(self.repository, (fact.repository,))
            and _any_matches(self.workflow, (fact.workflow,))
        )

    def is_besides(self, fact: Fact) -> bool:
        """Whether the item is made and kept up to date all the same, by the next rule that matches."""
        return fact.is_work and self.do in (REPRIORITISE, UNBLOCK)

    @property
    def name(self) -> str:
        return f"the rule in line {self.line}" if self.line else "a default rule"


DEFAULT_RULES = (
    Rule(do=MAKE, event=(ISSUES,), action=("opened",), type="issue_triage"),
    Rule(do=CANCEL, event=(ISSUES,), action=("closed",)),
    Rule(do=MAKE, event=(PULL_REQUEST,), action=("opened",), draft=False, linked=False, type="pr_review"),
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
    #: What completes an item, unless its rule says otherwise, and the checks that count: patterns, none for all.
    complete: str = NEVER
    checks: tuple[str, ...] = ()
    webhook_bytes_max: int = WEBHOOK_BYTES_MAX
    secrets_file: str | None = None
    out: Out = Out()

    def rule(self, fact: Fact) -> Rule | None:
        return next((rule for rule in self.rules if rule.matches(fact)), None)

    def after(self, rule: Rule) -> Policy:
        """The policy for what is left to say after a rule that is `besides`. One priority counts, the first."""
        rest = self.rules[self.rules.index(rule) + 1 :]
        if rule.do == REPRIORITISE:
            rest = tuple(
                one.replace(priority=rule.priority) if one.do == MAKE else one for one in rest if one.do != REPRIORITISE
            )
        return self.replace(rules=rest)

    def ruling(self, fact: Fact) -> Rule | None:
        """The first rule that matches and is not `besides`."""
        rule = self.rule(fact)
        return self.after(rule).ruling(fact) if rule is not None and rule.is_besides(fact) else rule

    def project(self, fact: Fact, rule: Rule) -> str:
        return rule.project or self._mapped(fact.repository)

    def projects_of(self, repository: str) -> frozenset[str]:
        """The projects whose items pull requests of this repository may belong to."""
        rules = [rule for rule in self.rules if rule.project and _any_matches(rule.repository, (repository,))]
        return frozenset({self._mapped(repository), *(rule.project for rule in rules if rule.project)})

    def is_mapped(self, repository: str) -> bool:
        return any(fnmatchcase(repository, pattern) for pattern, _ in self.projects)

    def _mapped(self, repository: str) -> str:
        return next((to for pattern, to in self.projects if fnmatchcase(repository, pattern)), DEFAULT_PROJECT)

    def contract(self, rule: Rule) -> str:
        return rule.complete or self.complete

    def counts(self, check: str) -> bool:
        if not self.checks:
            return CLAIM_STATUS not in (check, check.rpartition(BY_MARK)[0])
        return any(self.is_named(pattern, check) for pattern in self.checks)

    def is_named(self, pattern: str, check: str) -> bool:
        """A run of a workflow goes by the name of its file, too, and the second check of a name by that name: see
        `of_workflow` in checks.py and `_name` in pull_memory.py."""
        return _any_matches((pattern,), (check, check.partition(RUN_MARK)[0], check.rpartition(BY_MARK)[0] or check))

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


def _any_matches(patterns: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(value.casefold(), one.casefold()) for one in patterns for value in values)
