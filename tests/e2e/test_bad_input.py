"""Bad input: each a clear refusal on one line, and nothing changed."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Dibs

NOT_UTF8 = b"caf\xe9"
MEGABYTES_2 = json.dumps({"key": "x" * 2_000_000})


@pytest.fixture
def seeded(dibs: Dibs) -> Dibs:
    dibs.ok("add", "Fix login", "--id", "x")
    return dibs


BAD_ADDS: dict[str, tuple[tuple[str | bytes, ...], str]] = {
    "an empty title": (("",), "title"),
    "a blank title": (("  \t ",), "title"),
    "a title of two lines": (("one\ntwo",), "title"),
    "a title of 501 characters": (("x" * 501,), "title"),
    "a title that is no UTF-8": ((NOT_UTF8,), "title"),
    "an id with a slash": (("t", "--id", "a/b"), "id"),
    "an id that climbs": (("t", "--id", ".."), "id"),
    "an id of 300 characters": (("t", "--id", "x" * 300), "id"),
    "an empty id": (("t", "--id", ""), "id"),
    "an id that is no UTF-8": (("t", "--id", NOT_UTF8), "id"),
    "a payload that is no JSON": (("t", "--payload", "{"), "payload"),
    "a payload that is no object": (("t", "--payload", "[1]"), "payload"),
    "a payload with NaN": (("t", "--payload", '{"a": NaN}'), "payload"),
    "a payload with NUL": (("t", "--payload", '{"a": "\\u0000"}'), "payload"),
    "a payload with a lone surrogate": (("t", "--payload", '{"a": "\\ud800"}'), "payload"),
    "a payload nested too deep": (("t", "--payload", '{"a":' + "[" * 5000 + "]" * 5000 + "}"), "payload"),
    "an unknown priority": (("t", "--priority", "urgentissimo"), "priority"),
    "a negative timeout": (("t", "--timeout", "-5m"), "timeout_seconds"),
    "a timeout of zero": (("t", "--timeout", "0"), "timeout_seconds"),
    "a type with a space": (("t", "--type", "two words"), "type"),
    "a label with a control character": (("t", "--label", "a\x1bb"), "labels"),
    "a body that is no UTF-8": (("t", "--body", NOT_UTF8), "body"),
    "a dependency that is no id": (("t", "--needs", "a/b"), "depends_on"),
    "a dependency that is not there": (("t", "--needs", "nowhere"), "depends_on"),
    "a resource with a control character": (("t", "--resource", "a\x1bb"), "resources"),
    "an empty resource": (("t", "--resource", ""), "resources"),
    "retries below zero": (("t", "--retries", "-1"), "retries"),
    "a time that is none": (("t", "--not-before", "tomorrow"), "not_before"),
}


@pytest.mark.parametrize(("words", "field"), BAD_ADDS.values(), ids=BAD_ADDS.keys())
def test_add_refuses_by_field(shared: Dibs, words: tuple[str | bytes, ...], field: str) -> None:
    code, error = shared.refused("add", *words)
    assert (code, error["code"], error["field"]) == (1, "INVALID", field)
    plain = shared("add", *words)
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (1, "", 1)
    assert plain.stderr.startswith("dibs: ")
    assert shared.json("list", "--all") == {"items": []}


def test_a_payload_of_two_megabytes_is_refused(dibs: Dibs) -> None:
    # Longer than one argument may be, so it comes from a file.
    line = f'{{"title": "t", "payload": {MEGABYTES_2}}}'
    code, error = dibs.refused("add", "--file", "-", input=line)
    assert (code, error["field"], error["line"]) == (1, "payload", 1)
    assert dibs.json("list") == {"items": []}


def test_a_body_of_two_megabytes_is_refused(dibs: Dibs) -> None:
    code, error = dibs.refused("add", "t", "--body", "-", input="x" * 2_000_000)
    assert (code, error["field"]) == (1, "body")


def test_a_body_from_stdin_that_is_no_utf8_is_refused(dibs: Dibs) -> None:
    assert dibs.refused("add", "t", "--body", "-", input=NOT_UTF8)[1]["field"] == "body"


@pytest.mark.parametrize("field", ["title", "body", "id", "type"])
def test_nul_in_a_file_is_refused(shared: Dibs, field: str) -> None:
    line = json.dumps({"title": "t", field: "a\0b"})
    code, error = shared.refused("add", "--file", "-", input=line)
    assert (code, error["field"], error["line"]) == (1, field, 1)


@pytest.mark.parametrize("ttl", ["-5", "0", "1ms", "30d", "1e99", "inf", "nan", "soon", "", "5m!"])
def test_a_ttl_out_of_bounds_is_refused(seeded: Dibs, ttl: str) -> None:
    code, error = seeded.refused("claim", "x", "--ttl", ttl)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "ttl_seconds")
    assert seeded.json("show", "x")["item"]["status"] == "ready"


@pytest.mark.parametrize("token", ["2", "999999999"])
def test_a_token_from_the_future_is_refused(seeded: Dibs, token: str) -> None:
    seeded.ok("claim", "x")
    code, error = seeded.refused("done", "x", "--token", token)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "token")
    assert seeded.json("show", "x")["item"]["status"] == "in_progress"


@pytest.mark.parametrize("token", ["-1", "0", str(2**70)])
def test_a_token_that_cannot_be_is_refused(seeded: Dibs, token: str) -> None:
    seeded.ok("claim", "x")
    assert seeded.refused("done", "x", "--token", token)[1]["field"] == "token"


@pytest.mark.parametrize("id", ["a/b", "x" * 300, "", "..", NOT_UTF8, "a\x1b[31mb"])
@pytest.mark.parametrize("command", ["show", "claim", "done", "log"])
def test_an_impossible_item_is_refused(shared: Dibs, command: str, id: str | bytes) -> None:
    code, error = shared.refused(command, id)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "item")
    assert "\x1b" not in shared(command, id).stderr


BAD_LINES = {
    "an unknown command": ("clam",),
    "half a command": ("session",),
    "an unknown option": ("list", "--colour"),
    "an option of another command": ("list", "--ttl", "5m"),
    "an option without its value": ("claim", "x", "--ttl"),
    "a switch with a value": ("list", "--json=yes"),
    "a missing word": ("claim",),
    "one word too many": ("claim", "x", "y"),
    "a missing reason": ("force-release", "x"),
    "a number that is none": ("done", "x", "--token", "one"),
    "a link without a target": ("done", "x", "--link", "pr"),
    "nothing to add": ("add",),
    "a title and a file": ("add", "t", "--file", "f"),
    "an unknown shell": ("completion", "tcsh"),
    "a holding that is none": ("heartbeat", "--holding", "x=y"),
    "a token for everything": ("heartbeat", "--token", "1"),
    "no age to prune by": ("prune", "--yes"),
    "no file to back up to": ("backup",),
    "no file to import": ("import",),
    "nowhere to copy to": ("copy", "."),
    "a rejection without a reason": ("reject", "x"),
    "no draft to submit": ("submit", "x"),
    "an unknown kind of event": ("events", "--kind", "nonsense"),
}


@pytest.mark.parametrize("words", BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_wrong_line_exits_2(shared: Dibs, words: tuple[str, ...]) -> None:
    done = shared(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dibs: ")


def test_a_typing_error_is_answered_with_what_was_meant(dibs: Dibs) -> None:
    assert "did you mean: dibs claim" in dibs("clam").stderr
    assert "did you mean --ttl" in dibs("claim", "x", "--tl", "5m").stderr


@pytest.mark.parametrize("cost", ["{", "1", '["a"]'])
def test_a_cost_that_is_no_object_is_refused(seeded: Dibs, cost: str) -> None:
    seeded.ok("claim", "x")
    assert seeded.refused("done", "x", "--cost", cost)[1]["field"] == "cost"
    assert seeded.json("show", "x")["item"]["status"] == "in_progress"


def test_an_edit_of_nothing_is_refused(seeded: Dibs) -> None:
    assert seeded.refused("edit", "x")[1]["code"] == "INVALID"


@pytest.mark.parametrize("limit", ["0", "-1", "100000000"])
@pytest.mark.parametrize("command", ["list", "events", "runs", "sessions", "sweep"])
def test_a_limit_out_of_bounds_is_refused(shared: Dibs, command: str, limit: str) -> None:
    assert shared.refused(command, "--limit", limit)[1]["field"] == "limit"
