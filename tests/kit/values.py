"""Every value of the model, made from the kinds of its fields. Its texts and names look like other kinds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dibs import check, model
from dibs.model import STATUSES, dashboard, kinds, webhooks
from dibs.value import Value

#: The classes of the model, each after those that it contains.
MODEL: list[type[Value]] = [
    kind
    for kind in {**vars(model), **vars(dashboard), **vars(webhooks)}.values()
    if isinstance(kind, type) and issubclass(kind, Value) and kind is not Value
]
#: The kinds, each with its type.
KINDS: dict[str, Any] = {
    name: kind for name, kind in vars(kinds).items() if name[0].isupper() and name not in ("Any", "TypeAlias")
}

HOSTILE = ("2026-11-15T12:00:00.000Z", "looked_at", "not_before", "payload", "ready", "1", "true", "null", "[]", "{}")
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(HOSTILE)
#: One line, which a check neither refuses nor changes.
lines = st.sampled_from((*HOSTILE, "Fix é", "# x", "- a", "a: b"))
ids = st.sampled_from(("x", "looked_at", "not_before", "payload", "ready", "1", "true", "null", "a.b-c"))
names = ids | st.sampled_from(("host/2:b", "a@b", "a+1"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, plain, max_size=3)
#: The board's own facts, among them instants.
facts = st.fixed_dictionaries(
    {},
    optional={
        "reason": st.none() | st.text("ab\n", max_size=3),
        "strikes": st.integers(0, 5),
        "deadline_at": st.none() | st.integers(0, 10**13),
        "not_before": st.integers(0, 10**13),
        "payload": objects,
        "ready": st.lists(ids, max_size=2),
        "before": st.fixed_dictionaries({"looked_at": st.integers(0, 10**13), "links": objects}),
    },
)
#: From the epoch to the year 5138, in milliseconds.
instants = st.integers(0, check.INSTANT_MAX)
#: Some counters are integers of 32 bits in PostgreSQL.
counts = st.integers(0, 2**31 - 1)
seconds = st.floats(0, 1e9) | st.integers(0, 10**9).map(float)
states = st.fixed_dictionaries({"state": st.sampled_from(("success", "failure", "pending"))})


def tuples(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(inner, max_size=3, unique=True).map(tuple)


def by_id(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, inner, max_size=3)


#: A valid value of each kind.
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("ItemId", "AgentName", "AgentOrEmpty"), ids),
    **dict.fromkeys(("Name", "NameOrEmpty"), names),
    "Status": st.sampled_from(STATUSES),
    "Title": lines,
    "Subject": st.sampled_from(("looked_at", "https://example.org/1", "null")),
    **dict.fromkeys(("Actor", "NoteText", "Text"), texts),
    "Flag": st.booleans(),
    "Instant": instants,
    "Count": counts,
    "Token": st.integers(1, check.COUNT_MAX),
    "Priority": st.integers(-1_000_000, 1_000_000),
    **dict.fromkeys(("Seconds", "Number"), seconds),
    "Rate": st.floats(0, 1),
    "Names": tuples(names),
    "ItemIds": tuples(ids),
    "Resources": tuples(st.sampled_from(("src/a.py", "port:8080", "null", "looked_at", "é/ b"))),
    "Texts": tuples(texts),
    "Groups": st.lists(st.fixed_dictionaries({"type": names, "priority": counts, "count": counts}), max_size=2),
    "Rows": st.lists(st.lists(st.none() | counts | names, max_size=3), max_size=2).map(tuple),
    **dict.fromkeys(("Json", "Meta"), objects),
    "Checks": st.dictionaries(st.sampled_from(("tests", "ready", "looked_at", "payload")), states, max_size=2),
    "Facts": facts,
    **dict.fromkeys(("Counts", "Instants"), by_id(instants)),
    **dict.fromkeys(("Numbers", "Costs"), by_id(seconds)),
    "Beats": by_id(st.tuples(instants, counts)),
    "Queues": by_id(tuples(names)),
    "CountsByField": by_id(by_id(counts)),
    **dict.fromkeys(("Columns", "CostColumns"), by_id(st.lists(st.none() | seconds, max_size=3))),
    "Words": by_id(texts),
}


#: Fields that have other bounds than their kind.
OF_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "retries": st.integers(0, check.RETRIES_MAX),
    "timeout_seconds": st.floats(1, check.TIMEOUT_SECONDS_MAX) | st.just(1800.0),
    "pid": st.integers(1, check.PID_MAX),
}


def values_of(kind: type[Value]) -> st.SearchStrategy[Any]:
    """Any value of this class."""
    return st.builds(kind, **{name: _field(kind, name) for name in kind._fields})


def _field(kind: type[Value], name: str) -> st.SearchStrategy[Any]:
    word, nested = kind._kinds[name], kind.nested().get(name)
    found = OF_FIELD.get(name, OF_KIND.get(word)) if nested is None else values_of(nested)
    assert found is not None, f"{kind.__name__}.{name} is of an unknown kind: {word}"
    if nested is not None and word.startswith("tuple"):
        return st.lists(found, max_size=2).map(tuple)
    return st.none() | found if kind._hints[name].endswith("| None") else found
