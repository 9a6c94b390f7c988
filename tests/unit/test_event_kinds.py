"""The table of event kinds knows exactly the kinds that the rules write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dibs
from dibs.agents import fence, look
from dibs.cli import timeline
from dibs.cli.event_lines import WITHOUT_TOKEN
from dibs.cli.render import CODES, TONE_COLOURS
from dibs.github import follow
from dibs.model import EDITABLE, Event, Item
from dibs.rules import event_kinds, fencing
from dibs.rules.decision import EVENT_FIELDS
from dibs.rules.event_kinds import BY_NAME, EVENT_KINDS, OUTCOMES, RUN_ENDS, ended_by
from dibs.rules.items import CONTENT
from dibs.store.sql import timeline as series
from dibs.store.sql import transaction
from dibs.store.vault import plan, write_cycle
from dibs.store.vault.taskfile.run_blocks import REVIEW_LABELS
from dibs.testing import refold

SOURCE = Path(dibs.__file__).parent
#: What makes an event in the rules, and where its kind stands among the arguments without a name.
WRITERS = {"step": None, "Event": None, "_end": 1, "_strike": 1}


def written(folder: Path) -> set[str]:
    """The kinds in every call of these rules that makes an event."""
    functions = [
        (node, kind)
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        for kind in _given(node)
    ]
    return {value for function, kind in functions for value in _values(kind, function)}


def _given(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The expressions for the kind in the calls of a function that make an event."""
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in WRITERS:
            place = WRITERS[call.func.id]
            yield call.args[place] if place else next(word.value for word in call.keywords if word.arg == "kind")


def _values(kind: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """What the expression may be. A parameter is that of a writer, whose callers are looked at."""
    if isinstance(kind, ast.Constant):
        yield str(kind.value)
    elif isinstance(kind, ast.IfExp):
        yield from (*_values(kind.body, function), *_values(kind.orelse, function))
    else:
        assert isinstance(kind, ast.Name), f"{function.name}: {ast.unparse(kind)} is no kind that can be read"
        parameters = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
        assigned = [one.value for one in ast.walk(function) if isinstance(one, ast.Assign) and _is_of(one, kind.id)]
        assert assigned or (kind.id in parameters and function.name in WRITERS), f"{function.name}: {kind.id}"
        for value in assigned:
            yield from _values(value, function)


def _is_of(assignment: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in assignment.targets)


def test_the_table_has_exactly_the_kinds_that_are_written() -> None:
    assert written(SOURCE / "rules") == BY_NAME.keys()


def test_only_the_rules_make_events() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(SOURCE / "rules") or not re.search(r"\b(Event|step)\(", text):
            continue
        tree = ast.parse(text)
        named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not {"Event", "step"} & named & calls, path


def test_the_functions_of_postgresql_write_kinds_of_the_table() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "store/postgres/functions").glob("*.sql"))
    found = set(re.findall(r"dibs\.(?:end_run|strike)\(i, c, '(\w+)'", text))
    inserted = r"INSERT INTO dibs\.events \([^)]*\)\s+(?:VALUES \(|SELECT )[^,]+, [^,]+, (CASE .+? END|'\w+')"
    for kind in re.findall(inserted, text):
        found |= set(re.findall(r"(?:THEN |ELSE |^)'(\w+)'", kind))
    assert {"claimed", "progress", "done", "released", "claimable", "offered", "unblocked", "due"} <= found
    assert found <= BY_NAME.keys()


def test_what_a_claim_or_a_hook_does_not_import_from_the_table_is_as_it_says() -> None:
    lapsed, taken = ended_by(event_kinds.LAPSE), ended_by(event_kinds.ADMIN, event_kinds.RESTORE)
    assert lapsed == fencing.LAPSED
    assert (lapsed, taken) == (look.LAPSED, look.TAKEN)
    assert {how: f"was {OUTCOMES[how].word}" for how in ended_by(event_kinds.ADMIN)}.items() <= fence.HOW.items()
    assert {field for kind in EVENT_KINDS for field in kind.changes if kind.name not in ("added", "edited")} == {
        *EVENT_FIELDS,
        *("token", "attempts"),
    }


def test_whoever_chooses_some_kinds_chooses_kinds_that_there_are() -> None:
    chosen = (
        *(transaction.FREED, follow.LET_GO, series.COUNTED, WITHOUT_TOKEN, REVIEW_LABELS),
        *(plan.UNASKED, write_cycle.UNCONFIRMED),
    )
    for kinds in chosen:
        assert set(kinds) <= BY_NAME.keys()
    # The second reading of a history says by itself what each kind does.
    assert refold.KINDS.keys() == BY_NAME.keys()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_statements_choose_kinds_that_there_are(store: str) -> None:
    files = [path for folder in (store, "sql") for path in (SOURCE / "store" / folder).glob("*.sql")]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    chosen = [re.findall(r"'(\w+)'", kinds) for kinds in re.findall(r"\be\.kind (?:NOT )?IN \(([^)]*)\)", text)]
    assert {kind for kinds in chosen for kind in kinds} <= BY_NAME.keys()
    assert list(series.COUNTED) in chosen, "events_in_series"


def test_every_tone_is_a_colour() -> None:
    assert {kind.tone for kind in EVENT_KINDS} | {end.tone for end in RUN_ENDS} == TONE_COLOURS.keys()
    assert set(TONE_COLOURS.values()) - {""} <= CODES.keys()


def test_the_end_of_a_run_is_told_by_its_sign_alone() -> None:
    assert len({end.sign for end in RUN_ENDS}) == len({end.word for end in RUN_ENDS}) == len(RUN_ENDS)
    assert {id(end) for end in OUTCOMES.values()} == {id(end) for end in RUN_ENDS}
    assert {end.sign for end in RUN_ENDS} <= timeline.RANKS.keys()


def test_an_event_changes_fields_of_the_item() -> None:
    assert {field for kind in EVENT_KINDS for field in kind.changes} <= set(Item._fields)
    assert set(CONTENT) <= set(BY_NAME["added"].changes)
    assert set(EDITABLE) <= set(BY_NAME["edited"].changes)
    assert not {"status", "revision", "updated_at"} & {field for kind in EVENT_KINDS for field in kind.changes}
    assert "kind" in Event._fields
