"""Input, checked once above every store: what is wrong is refused by field, before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dibs import check, randomness
from dibs.errors import Invalid
from dibs.model import Owner

NEVER_WORDS = ["", " ", "-a", ".a", "a b", "ä", "a\0", "a\n", "\ud800", "x" * 129, 5, None, b"a", ["a"]]


@pytest.mark.parametrize("given", ["a", "A-1", "fix-login", "0", "a.b_c-d", "x" * 128])
def test_an_id_is_letters_digits_and_a_few_signs(given: str) -> None:
    assert check.item_id(given) == given


@pytest.mark.parametrize("given", [*NEVER_WORDS, "a/b", "a:b", "../a", "a\\b"])
def test_an_id_that_is_no_file_name_is_refused(given: object) -> None:
    with pytest.raises(Invalid) as caught:
        check.item_id(given)
    assert caught.value.facts["field"] == "id"


@pytest.mark.parametrize("given", ["web/front", "a:b", "a@b", "a#1", "c++"])
def test_a_name_may_hold_more_signs(given: str) -> None:
    assert check.name(given, "project") == given


@pytest.mark.parametrize("given", NEVER_WORDS)
def test_a_name_that_is_none_is_refused(given: object) -> None:
    with pytest.raises(Invalid):
        check.name(given, "project")


def test_names_are_told_apart_from_one_text_and_not_repeated() -> None:
    assert check.names(["b", "a", "b"], "labels") == ("b", "a")
    with pytest.raises(Invalid, match="list"):
        check.names("abc", "labels")
    with pytest.raises(Invalid, match="64"):
        check.names([f"l{number}" for number in range(65)], "labels")


def test_what_is_finished_is_named_with_its_token() -> None:
    assert check.finished({}) == {}
    assert check.finished({"b": 2, "a": 1}) == {"b": 2, "a": 1}
    for given in ({"a": None}, {"a": 0}, {"a": True}, {"a b": 1}, ["a"], "a", None):
        with pytest.raises(Invalid):
            check.finished(given)
    with pytest.raises(Invalid, match="1000"):
        check.finished({f"item-{number}": 1 for number in range(1001)})


def test_what_is_held_is_named_with_or_without_its_token_and_is_not_endless() -> None:
    assert check.holding({"b": None, "a": 1}) == {"b": None, "a": 1}
    for given in ({"a": 0}, {"a b": 1}, ["a"], "a", None):
        with pytest.raises(Invalid):
            check.holding(given)
    check.holding({f"item-{number}": None for number in range(10_000)})
    with pytest.raises(Invalid, match="10000") as caught:
        check.holding({f"item-{number}": None for number in range(10_001)})
    assert caught.value.facts["field"] == "holding"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("boot_id", "a\0"),
        ("boot_id", "\ud800"),
        ("boot_id", "x" * 129),
        ("pid_namespace", -1),
        ("pid_namespace", 2**64),
        ("pid", 0),
        ("pid", -1),
        ("pid", 2**31),
        ("pid", 2**40),
        ("pid", True),
        ("start_time", -1),
        ("start_time", 2**64),
    ],
)
def test_an_owner_is_a_process_that_there_could_be(field: str, value: Any) -> None:
    sound = Owner(boot_id="00000000-0000-4000-8000-000000000000", pid_namespace=2**32, pid=2**31 - 1, start_time=0)
    assert check.owner(sound) == sound
    for wrong in (sound.replace(**{field: value}), sound.as_dict()):
        with pytest.raises(Invalid) as caught:
            check.owner(wrong)
        assert caught.value.facts["field"] == "owner"


@pytest.mark.parametrize("given", ["", "   ", "two\nlines", "a\rb", "x" * 501, "nul\0", "\ud800", 5, None])
def test_a_title_is_one_line_that_says_something(given: object) -> None:
    with pytest.raises(Invalid) as caught:
        check.title(given)
    assert caught.value.facts["field"] == "title"


def test_a_title_is_trimmed_and_may_be_long() -> None:
    assert check.title("  Grüße 🌍 ") == "Grüße 🌍"
    assert len(check.title("x" * 500)) == 500


@pytest.mark.parametrize(
    "given",
    [
        [],
        "{}",
        None,
        5,
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": object()},
        {"a": b"bytes"},
        {"a": "\ud800"},
        {"a\0": 1},
        {"a": ["\0"]},
        {"a": "x" * 1_000_001},
    ],
)
def test_a_payload_is_an_object_of_plain_json(given: object) -> None:
    with pytest.raises(Invalid) as caught:
        check.json_object(given, "payload")
    assert caught.value.facts["field"] == "payload"


def test_a_payload_that_refers_to_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(Invalid):
        check.json_object(endless, "payload")


def test_a_payload_too_deep_to_read_is_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"d": deep}
    with pytest.raises(Invalid):
        check.json_object(deep, "payload")


def test_a_payload_comes_back_as_json_has_it() -> None:
    assert check.json_object({"a": (1, 2), "b": {"c": None}}, "payload") == {"a": [1, 2], "b": {"c": None}}
    assert check.json_object({"said": "\\u0000"}, "payload") == {"said": "\\u0000"}


@pytest.mark.parametrize("given", [True, "5", None, -1, 11, float("nan"), [1]])
def test_a_number_is_one_and_within_bounds(given: object) -> None:
    with pytest.raises(Invalid):
        check.number(given, "n", low=0, high=10)


@pytest.mark.parametrize("given", [True, 1.5, "5", -1, 11])
def test_a_whole_number_is_one(given: object) -> None:
    with pytest.raises(Invalid):
        check.whole(given, "n", low=0, high=10)


@pytest.mark.parametrize("verb", [check.token, check.ttl_seconds])
def test_a_token_and_a_ttl_may_be_left_out_but_not_be_nonsense(verb: Callable[[object], object]) -> None:
    assert verb(None) is None
    for given in (0, -1, "1", True, 1e300):
        with pytest.raises(Invalid):
            verb(given)


def test_statuses_are_known_ones() -> None:
    assert check.statuses(["ready", "done"]) == ("ready", "done")
    with pytest.raises(Invalid, match="unknown status"):
        check.statuses(["finished"])


def test_a_reason_has_to_be_given() -> None:
    assert check.reason(" stuck ") == "stuck"
    for given in ("", "  ", None):
        with pytest.raises(Invalid):
            check.reason(given)


def test_a_made_up_id_is_readable() -> None:
    assert check.new_item({"title": "Fix the Login, now!"}).id == "", "the store chooses one"
    assert randomness.words_of_title("Fix the Login, now!") == "fix-the-login-now"
    assert randomness.id_from_title("Fix the Login, now!").startswith("fix-the-login-now-")
    assert check.item_id(randomness.id_from_title("🌍" * 50))
    assert check.item_id(randomness.id_from_title("x" * 500))


def test_made_up_ids_of_one_title_do_not_meet() -> None:
    # With 24 random bits, as it once was, two of these meet about three times.
    assert len({randomness.id_from_title("Fix login") for _ in range(10_000)}) == 10_000


def test_a_new_item_with_unknown_or_wrong_fields_is_refused_by_field() -> None:
    for given, field in (
        ({"title": "t", "owner": "me"}, "owner"),
        ({"title": "t", "status": "done"}, "status"),
        ({"title": "t", "priority": "urgent"}, "priority"),
        ({"title": "t", "timeout_seconds": 0}, "timeout_seconds"),
        ({"title": "t", "labels": "one"}, "labels"),
        ({"title": "t", "body": 5}, "body"),
        ({"title": "t", "id": "a/b"}, "id"),
        ({}, "title"),
    ):
        with pytest.raises(Invalid) as caught:
            check.new_item(given)
        assert caught.value.facts["field"] == field


def test_edits_name_what_can_be_edited() -> None:
    assert check.edits({"priority": "high", "labels": ["a"]}) == {"priority": 8, "labels": ("a",)}
    for given in ({}, {"id": "y"}, {"status": "done"}, {"token": 9}):
        with pytest.raises(Invalid):
            check.edits(given)
