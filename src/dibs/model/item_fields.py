"""The fields that people write of an item, once: what options, tools and forms call them, and who may change them.

The kind of a field, which is in `NewItem`, says how its text is read. The order is that of the help.
"""

from __future__ import annotations

from dibs.value import Value


class ItemField(Value):
    """`option`: that of `add`, `edit` and `claim --subject`, with its `short` form and its `help`; `tool`: what the MCP
    tool `add` says of it, None if that has no such parameter; `form`: its label in the dashboard's form. `option` and
    `form` are empty where the field is not asked for.

    `is_approved`: an approval covers it, so that an edit withdraws the approval; `is_held`: it cannot change while the
    item is claimed, because the claim was decided on it; `decides`: what, so that only an admin changes it.
    """

    option: str = ""
    short: tuple[str, ...] = ()
    metavar: str = "P"
    help: str = ""
    tool: str | None = None
    form: str = ""
    is_approved: bool = False
    is_held: bool = False
    decides: str = ""


FIELDS = {
    "title": ItemField(tool="", form="title", is_approved=True),
    "id": ItemField(tool="Made from the title unless given", form="id (empty: one is made)"),
    "body": ItemField(
        option="--body",
        metavar="TEXT",
        help="the description, in markdown (- reads stdin)",
        tool="Markdown: what to do, how to check it",
        form="text",
        is_approved=True,
    ),
    "type": ItemField(
        option="--type",
        short=("-t",),
        metavar="T",
        help="the kind of work: bug, docs, ... (default: task)",
        tool="As bug, docs; default task",
        form="type (empty: task)",
        is_approved=True,
        is_held=True,
        decides="which agents may take it",
    ),
    "priority": ItemField(
        option="--priority",
        short=("-p",),
        help="high, ..., low; P0 to P4; or N: higher is sooner",
        tool="10 critical, 8 high, 5 medium (default), 1 low",
        form="priority (critical, high, medium, low or a number; empty: 5)",
    ),
    "labels": ItemField(option="--label", metavar="L", help="a label", tool="", form="labels, with commas"),
    "payload": ItemField(option="--payload", help="data for the holder, a JSON object", is_approved=True),
    "project": ItemField(
        option="--project",
        help="the project (default: default)",
        tool="",
        form="project (empty: default)",
        is_held=True,
    ),
    "action": ItemField(
        option="--action",
        metavar="A",
        help="what agents' policies apply to (default: the type)",
        is_approved=True,
        is_held=True,
        decides="which agents may take it",
    ),
    "phase": ItemField(option="--phase", help="the phase"),
    "depends_on": ItemField(
        option="--needs",
        metavar="ID",
        help="an item that must be done first",
        tool="Ids that must be done first",
        form="needs, with commas",
    ),
    "resources": ItemField(
        option="--resource",
        metavar="R",
        help="a path or port:80 that it uses",
        tool="Paths and ports that the work touches; one holder at a time",
        is_approved=True,
        is_held=True,
    ),
    "not_before": ItemField(
        option="--not-before", metavar="TIME", help="ready from: 2h, 2026-11-15T09:30 (local), ...Z"
    ),
    "retries": ItemField(option="--retries", help="retry a failed run up to N times (default: 0)"),
    "timeout_seconds": ItemField(option="--timeout", help="the longest a claim may last (default: 8h)"),
    "subject": ItemField(option="--subject", metavar="KEY", help="what it is about elsewhere: a URL, github:o/r#12"),
    "review": ItemField(
        option="--review",
        metavar="yes|no",
        help="with yes, `done` waits for approval of the result",
        decides="whether its result is reviewed",
    ),
    "needs_approval": ItemField(tool="A person approves it before it can be claimed"),
}
#: The fields that have an option.
OPTIONS = {name: field for name, field in FIELDS.items() if field.option}
