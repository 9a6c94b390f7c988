"""What a field is: the kinds, each the name of a type.

A record says `not_before: Instant | None`. The type checker and the editor read `int | None`; at run time
`Value._kinds` has the word `Instant`. Rows, the wire format, PostgreSQL's answers, front matter, checks and the OpenAPI
document have an entry for a kind, and none for a field. No command imports this module.
"""

from __future__ import annotations

from typing import Any, TypeAlias

# Text.
ItemId: TypeAlias = str
AgentName: TypeAlias = str
#: Sessions, projects, types, events, outcomes.
Name: TypeAlias = str
#: A name, or '' for the default.
NameOrEmpty: TypeAlias = str
#: The agent of a refused call, or '' if its session did not exist.
AgentOrEmpty: TypeAlias = str
Status: TypeAlias = str
Actor: TypeAlias = str
Title: TypeAlias = str
Subject: TypeAlias = str
#: A note, a reason or a comment.
NoteText: TypeAlias = str
Text: TypeAlias = str

# Numbers.
Flag: TypeAlias = bool
#: Milliseconds since the epoch by the store's clock.
Instant: TypeAlias = int
Count: TypeAlias = int
#: A counter that begins at 1.
Token: TypeAlias = int
Priority: TypeAlias = int
Seconds: TypeAlias = float
Number: TypeAlias = float
#: Between 0 and 1. It keeps its fraction: 1.0, not 1.
Rate: TypeAlias = float

# Lists.
Names: TypeAlias = tuple[str, ...]
ItemIds: TypeAlias = tuple[str, ...]
Resources: TypeAlias = tuple[str, ...]
Texts: TypeAlias = tuple[str, ...]
#: Numbers with what they were counted by.
Groups: TypeAlias = list[dict[str, Any]]
Rows: TypeAlias = tuple[list[Any], ...]

# Objects.
#: A caller's own JSON: passed on as it is, whatever its names.
Json: TypeAlias = dict[str, Any]
#: A caller's own JSON, within the limit of a session's.
Meta: TypeAlias = dict[str, Any]
#: The name of a check -> its state and, if there is one, its url.
Checks: TypeAlias = dict[str, Any]
#: Untyped data of dibs, in which names have a meaning: see `text/wire.py`.
Facts: TypeAlias = dict[str, Any]
Counts: TypeAlias = dict[str, int]
Numbers: TypeAlias = dict[str, float]
#: Sums of numbers that callers gave.
Costs: TypeAlias = dict[str, float]
#: The id of a session -> an instant, in milliseconds on the wire as well.
Instants: TypeAlias = dict[str, int]
#: The id of an item -> when its claim expires, in milliseconds on the wire as well, and its heartbeats.
Beats: TypeAlias = dict[str, tuple[int, int]]
Queues: TypeAlias = dict[str, tuple[str, ...]]
CountsByField: TypeAlias = dict[str, dict[str, int]]
Columns: TypeAlias = dict[str, list[Any]]
CostColumns: TypeAlias = dict[str, list[Any]]
Words: TypeAlias = dict[str, str]
