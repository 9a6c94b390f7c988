"""The error tree: one code each, as DESIGN.md and the picture at the top of the module have it."""

from __future__ import annotations

import json
import pickle
import re

import pytest

from dibs import errors
from dibs.errors import DibsError, StoreUnusable
from dibs.text import wire

#: Code -> HTTP status, exit code.
DESIGN = {
    "TASK_NOT_FOUND": (404, 5),
    "SESSION_NOT_FOUND": (404, 5),
    "TASK_ALREADY_CLAIMED": (409, 4),
    "TASK_NOT_CLAIMED": (404, 4),
    "TASK_NOT_CLAIMABLE": (400, 4),
    "NOT_CLAIM_OWNER": (403, 4),
    "CLAIM_EXPIRED": (410, 4),
    "TASK_CHANGED": (409, 4),
    "AGENT_AT_CAPACITY": (409, 75),
    "RESOURCE_BUSY": (409, 75),
    "RATE_LIMITED": (429, 75),
    "INVALID": (422, 1),
    "FORBIDDEN": (403, 6),
    "NOT_TRUSTED": (403, 6),
    "UNAUTHENTICATED": (401, 6),
    "STORE_UNAVAILABLE": (503, 75),
}


def children(root: type[DibsError]) -> list[type[DibsError]]:
    """Those of the tree itself: an interface may have its own beneath, and may have been imported before."""
    return [child for child in root.__subclasses__() if child.__module__ == "dibs.errors"]


def tree(root: type[DibsError] = DibsError) -> list[type[DibsError]]:
    return [found for child in children(root) for found in (child, *tree(child))]


def test_every_code_of_the_design_is_one_class() -> None:
    direct = children(DibsError)
    assert {kind.code: (kind.http_status, kind.exit_code) for kind in direct} == DESIGN
    assert len({kind.code for kind in direct}) == len(direct)


def test_a_subclass_keeps_its_parents_code() -> None:
    for kind in tree():
        for parent in kind.__bases__:
            assert issubclass(parent, DibsError)
            if parent is not DibsError:
                assert (kind.code, kind.http_status) == (parent.code, parent.http_status)


def test_no_refusal_exits_as_success() -> None:
    assert all(kind.exit_code not in (0, 2, 3) for kind in tree())


def test_the_picture_at_the_top_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+) +(\w+) +(\d+) +exit (\d+)", errors.__doc__ or "")
    found = [(kind.__name__, kind.code, str(kind.http_status), str(kind.exit_code)) for kind in tree()]
    assert sorted(drawn) == sorted(found)


@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_facts_across_processes_and_the_wire(kind: type[DibsError]) -> None:
    error = kind("said plainly", item="x", expires_at=1_700_000_000_123)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, again.facts) == (kind, "said plainly", error.facts)
    told = json.loads(json.dumps(wire.error(error)))["error"]
    facts = {"permanent": True} if kind is StoreUnusable else {}
    said = {"code": kind.code, "message": "said plainly", "item": "x", "expires_at": "2023-11-14T22:13:20.123Z"}
    assert told == said | facts
