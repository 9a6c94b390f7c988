"""What a person can do to an item: what every screen and the guide say of it is what the table says."""

from __future__ import annotations

import inspect
from itertools import combinations

from dibs.board import Board
from dibs.cli.top import dialogs
from dibs.cli.top.actions import BULK_KEYS, role_of
from dibs.cli.top.keys import SIMPLE
from dibs.model import ROLES
from dibs.rules.actions import ACTIONS, by_key
from dibs.rules.table import TRANSITIONS
from dibs.verbs import BY_NAME
from tests.docs.markdown import code, read, table


def test_an_action_is_a_call_that_there_is() -> None:
    for action in ACTIONS:
        parameters = inspect.signature(getattr(Board, action.verb)).parameters
        asked = () if action.asks is None else action.asks[:1]
        assert {*action.reads, *action.args, *asked} <= parameters.keys(), action.label


def test_an_action_is_offered_to_fewer_than_may_call_its_verb() -> None:
    for action in ACTIONS:
        assert ROLES.index(role_of(action)) >= ROLES.index(BY_NAME[action.verb].role)
        assert action.role != BY_NAME[action.verb].role, f"{action.label}: dibs.verbs says so"
        assert set(action.never_in) < TRANSITIONS[action.verb].keys()


def test_a_key_is_for_one_thing() -> None:
    assert not by_key().keys() & SIMPLE.keys()
    for actions in by_key().values():
        for one, other in combinations(actions, 2):
            assert not set(one.statuses) & set(other.statuses)


def test_the_help_and_the_guide_have_every_key() -> None:
    told = dict(dialogs.KEYS)
    guide = [
        (code(keys), row.split("; ")) for keys, row in table(read("docs/guides/terminal.md"), "keys", "what they do")
    ]
    meanings = {key: meaning for keys, row in guide for key, meaning in zip(keys, row, strict=False)}
    for key, actions in by_key().items():
        labels = " or ".join(action.label for action in actions)
        assert told[key].removesuffix("; also a selection") == labels
        assert meanings[key] == labels, "docs/guides/terminal.md"
    bulk = next(line for line in read("docs/guides/terminal.md").split("\n") if line.startswith("With rows selected"))
    assert set(code(bulk)) == BULK_KEYS
