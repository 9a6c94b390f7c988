"""Facts from payloads: GitHub's own examples, each for itself, and payloads of which a part is missing or wrong."""

from __future__ import annotations

import copy
import functools
import json
import random
from typing import Any

import pytest

from dibs import check
from dibs.errors import Invalid
from dibs.github import issue_list, payload
from dibs.github.decide import decide, new_item
from dibs.github.policy import DEFAULT_RULES, Policy
from dibs.testing import sizes
from tests.github.conftest import GitHub
from tests.github.examples import Example, examples
from tests.github.payloads import HOSTILE_TITLES, issue, pull, run

OVER = frozenset({"closed", "deleted", "transferred"})
WRONG: tuple[Any, ...] = (None, True, -1, 2**70, 1.5, "", "x\x00\n", [], {}, [None], {"name": []}, float("nan"))
DROPPED = "dropped"


def expected(example: Example) -> tuple[str, int] | None:
    """The type and the priority of the item of an example, by what its action says."""
    told = example.payload
    if example.event == "workflow_run" or told["action"] in OVER or told["action"] == "converted_to_draft":
        return None
    found = told["issue" if example.event == "issues" else "pull_request"]
    is_bug = any(label["name"] == "bug" for label in found.get("labels") or ())
    return ("issue_triage" if example.event == "issues" else "pr_review"), 8 if is_bug else 5


def test_each_of_githubs_examples_leads_to_the_expected_item(github: GitHub) -> None:
    seen = 0
    for number, example in enumerate(examples(), start=1):
        told = copy.deepcopy(example.payload)
        for name in ("issue", "pull_request"):
            if name in told:
                told[name]["number"] = number
        fact = payload.from_webhook(example.event, told)
        if example.event not in payload.EVENTS:
            assert fact is None, example.event
            continue
        seen += 1
        if fact is None:
            assert example.event == "workflow_run"
            continue
        github.tell(told, example.event)
        items = [(one.type, one.priority) for one in github.board.list(subject=fact.subject, limit=2)]
        wanted = expected(example)
        assert items == ([] if wanted is None else [wanted]), (example.event, told["action"])
    assert seen == 63


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(one for name, value in inner for one in places(value, (*path, name)))]


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(data)
    if not path:
        return value
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


@pytest.mark.parametrize("told", [issue(labels=["bug"]), pull(), run(1, "failure")], ids=["issue", "pull", "run"])
def test_no_payload_is_wrong_enough_to_crash(told: Any) -> None:
    facts = 0
    for path in places(told):
        for value in WRONG:
            for event in payload.EVENTS:
                fact = payload.from_webhook(event, changed(told, path, value), "dibs")
                facts += fact is not None
                if fact is not None:
                    json.dumps([one.arguments for one in decide(fact, Policy(), None).steps])
                    assert fact.title.isprintable()
                    assert fact.title
                    assert fact.subject.isprintable()
    assert facts > 50


def test_no_mutated_example_crashes() -> None:
    """A value of each of GitHub's examples is dropped, or is another one: of every value in a soak, else of some."""
    seed = random.randrange(10**6)
    chosen = random.Random(seed)
    made = 0
    for example in examples():
        told = copy.deepcopy(example.payload)
        fact = payload.from_webhook(example.event, told)
        paths = places(told)[1:]
        for *above, name in paths if sizes.FACTOR > 1 else chosen.sample(paths, min(15, len(paths))):
            place = functools.reduce(lambda inner, step: inner[step], above, told)
            before = place[name]
            for value in (*WRONG, DROPPED):
                place[name] = value
                if value is DROPPED and isinstance(place, dict):
                    del place[name]
                found = payload.from_webhook(example.event, told, "dibs")
                if found is not None and found != fact and found.is_work:
                    check.new_item({**new_item(found, Policy(), DEFAULT_RULES[0]), "id": "x"})
                    made += 1
            place[name] = before
    assert made > 0, seed


@pytest.mark.parametrize("title", HOSTILE_TITLES)
def test_a_hostile_name_of_a_branch_or_workflow_stays_one_line(title: str) -> None:
    fact = payload.from_webhook("workflow_run", run(1, "failure", branch=title, path=title))
    if fact is not None:
        assert fact.subject.isprintable()
        assert len(fact.subject) <= 500


def test_repositories_are_compared_without_their_case() -> None:
    told = {**issue(), "repository": {"full_name": "ACME/Shop"}}
    assert payload.from_webhook("issues", told) == payload.from_webhook("issues", issue())
    for name in ("acme", "acme/shop/x", "../shop", "acme/sh op", "", None, 5):
        assert payload.repository_name(name) is None


def test_an_object_a_line_and_lists_after_each_other_are_read() -> None:
    one = json.dumps(issue()["issue"])
    for text in (f"{one}\n{one}\n", f"[{one}] [{one}]", f"\ufeff \n{one}\r\n\t{one}"):
        assert len(issue_list.read(text.encode())) == 2
    for wrong in ("{", f"{one},{one}", f"[{one}] x", "[" * 10**5, "1" * 5000, "[NaN]", "\xff"):
        with pytest.raises(Invalid, match="nothing was added"):
            issue_list.read(wrong.encode("latin-1"))


def test_a_list_of_gh_and_one_of_the_api_are_the_same_facts() -> None:
    gh = {
        **{"number": 12, "title": "Login fails", "body": "It does.", "state": "OPEN", "labels": [{"name": "bug"}]},
        **{"author": {"login": "ann"}, "url": "https://github.com/acme/shop/issues/12"},
        "updatedAt": "2026-11-16T09:00:00Z",
    }
    api = {**issue(labels=["bug"])["issue"], "author_association": "NONE"}
    (of_gh,) = issue_list.read(json.dumps([gh]).encode())
    assert [of_gh] == issue_list.read(json.dumps(api).encode())
    assert of_gh.subject == "github:acme/shop#12"
