"""Filling and tending the board: add, add --file, list, show, edit, cancel, retry."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Dibs


def lines(*items: object) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def test_add_keeps_everything_it_was_told(dibs: Dibs) -> None:
    words = ("--type", "bug", "--action", "edit", "--phase", "2", "--project", "web", "--priority", "high")
    more = ("--label", "ui", "--label", "auth", "--payload", '{"a": [1, "é"]}', "--timeout", "2h", "--body", "Why?")
    item = dibs.json("add", "Fix login", "--id", "fix-login", *words, *more)["item"]
    told = ("id", "title", "type", "action", "phase", "project", "priority", "labels", "payload", "timeout_seconds")
    assert {name: item[name] for name in told} == {
        "id": "fix-login",
        "title": "Fix login",
        "type": "bug",
        "action": "edit",
        "phase": "2",
        "project": "web",
        "priority": 8,
        "labels": ["ui", "auth"],
        "payload": {"a": [1, "é"]},
        "timeout_seconds": 7200,
    }
    assert (item["body"], item["status"], item["created_by"]) == ("Why?", "ready", "coder")
    assert dibs.json("show", "fix-login")["item"] == item


def test_the_body_comes_from_stdin(dibs: Dibs) -> None:
    body = "# Why\n\nBecause — it ünder-performs.\n"
    assert dibs.json("add", "t", "--body", "-", input=body)["item"]["body"] == body


def test_a_title_may_start_with_a_dash(dibs: Dibs) -> None:
    assert "write -- before text" in dibs("add", "-5 degrees").stderr
    assert dibs.ok("add", "--id", "cold", "--", "-5 degrees").startswith("added cold")


def test_an_item_without_an_id_gets_one_from_its_title(dibs: Dibs) -> None:
    ids = [dibs.json("add", "Fix the Login!")["item"]["id"] for _ in range(2)]
    assert ids == ["fix-the-login", "fix-the-login-2"]


def test_adding_the_same_again_changes_nothing_and_other_content_is_refused(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    assert dibs.ok("add", "t", "--id", "x") == "x exists already, unchanged  now in_progress\n"
    code, error = dibs.refused("add", "u", "--id", "x")
    assert (code, error["field"]) == (1, "id")


def test_the_one_who_adds_is_the_agent_or_the_user(dibs: Dibs, bare: Dibs) -> None:
    assert dibs.json("add", "t")["item"]["created_by"] == "coder"
    assert dibs.json("add", "t", "--agent", "planner")["item"]["created_by"] == "planner"
    assert bare.json("add", "t")["item"]["created_by"] == "alice"


def test_a_file_is_added_in_order(dibs: Dibs) -> None:
    given = [{"id": f"i{n}", "title": f"Item {n}", "priority": "low" if n % 2 else 9} for n in range(5)]
    (dibs.folder / "items.jsonl").write_text(lines(*given) + "\n  \n")
    assert dibs.json("add", "--file", "items.jsonl") == {
        "added": 5,
        "ids": ["i0", "i1", "i2", "i3", "i4"],
        "existed": [],
        "will_not_move": [],
    }
    assert [item["id"] for item in dibs.json("list")["items"]] == ["i0", "i2", "i4", "i1", "i3"]


def test_a_long_file_goes_in_in_batches(dibs: Dibs) -> None:
    text = lines(*({"id": f"i{n}", "title": "t"} for n in range(2500)))
    assert dibs.ok("add", "--file", "-", input=text) == "added 2500 items\n"
    assert len(dibs.json("list", "--limit", "3000")["items"]) == 2500


BAD_LINES = {
    "no JSON": (b"{nope", "not valid JSON"),
    "no object": (b'["title"]', "JSON object"),
    "no title": (b'{"id": "a"}', "title"),
    "an unknown field": (b'{"title": "t", "tilte": "u"}', "tilte"),
    "a taken id": (b'{"title": "other", "id": "i0"}', "i0 exists already and differs in title"),
    "no UTF-8": (b'{"title": "caf\xe9"}', "not valid JSON"),
}


@pytest.mark.parametrize(("bad", "about"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_with_what_was_added_before(dibs: Dibs, bad: bytes, about: str) -> None:
    before = lines(*({"id": f"i{n}", "title": "t"} for n in range(1000))).encode()
    done = dibs("add", "--file", "-", "--json", input=before + bad + b"\n")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["line"], error["added"]) == (1, 1001, 1000)
    assert error["message"].startswith("line 1001: ")
    assert about in error["message"]
    assert error["message"].endswith("; added before that line: 1000 items")
    assert len(dibs.json("list", "--limit", "5000")["items"]) == 1000


def test_a_file_that_is_not_there_is_refused(dibs: Dibs) -> None:
    assert dibs.refused("add", "--file", "nowhere.jsonl")[1]["field"] == "file"


def test_a_long_file_shows_its_progress_on_a_terminal(dibs: Dibs) -> None:
    (dibs.folder / "items.jsonl").write_text(lines(*({"title": "t"} for _ in range(1500))))
    said = dibs.terminal("dibs add --file items.jsonl")
    assert "\radded 1000 items" in said
    assert said.rstrip().endswith("1500 items")


def test_list_answers_with_items_in_the_order_of_next(dibs: Dibs) -> None:
    for id, priority in (("low", "low"), ("first", "high"), ("second", "high")):
        dibs.ok("add", "t", "--id", id, "--priority", priority)
    answer = dibs.json("list")
    assert set(answer) == {"items"}
    assert [item["id"] for item in answer["items"]] == ["first", "second", "low"]


def test_list_hides_what_has_ended_unless_asked(dibs: Dibs) -> None:
    for id in ("open", "over", "failed"):
        dibs.ok("add", "t", "--id", id)
    dibs.ok("cancel", "over")
    dibs.ok("claim", "failed")
    dibs.ok("fail", "failed")
    ids = {
        words: {item["id"] for item in dibs.json("list", *words)["items"]}
        for words in ((), ("--all",), ("--status", "cancelled", "--status", "failed"))
    }
    assert list(ids.values()) == [{"open"}, {"open", "over", "failed"}, {"over", "failed"}]


def test_list_keeps_to_its_filters(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "a", "--project", "web", "--label", "ui", "--label", "x")
    dibs.ok("add", "t", "--id", "b", "--type", "bug", "--label", "ui")
    for words, expected in (
        (("--project", "web"), ["a"]),
        (("--type", "bug"), ["b"]),
        (("--label", "ui"), ["a", "b"]),
        (("--label", "ui", "--label", "x"), ["a"]),
    ):
        assert [item["id"] for item in dibs.json("list", *words)["items"]] == expected


def test_list_says_when_there_is_more(dibs: Dibs) -> None:
    dibs.ok("add", "--file", "-", input=lines({"title": "a"}, {"title": "b"}))
    done = dibs("list", "--limit", "1", "--json")
    assert len(json.loads(done.stdout)["items"]) == 1
    assert "--limit" in done.stderr
    assert dibs("list", "--limit", "2").stderr == ""


def test_show_answers_with_item_claim_and_runs(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    answer = dibs.json("show", "x")
    assert answer["claim"] is None
    assert answer["runs"] == []
    dibs.ok("claim", "x")
    dibs.ok("release", "x")
    dibs.ok("claim", "x")
    answer = dibs.json("show", "x")
    assert {"item", "claim", "runs"} <= set(answer)
    assert (answer["claim"]["token"], [run["token"] for run in answer["runs"]]) == (2, [2, 1])


def test_edit_changes_what_was_named_and_nothing_else(dibs: Dibs) -> None:
    before = dibs.json("add", "t", "--id", "x", "--label", "a", "--phase", "1", "--body", "b")["item"]
    dibs.ok("claim", "x")
    edit = ("--title", "u", "--priority", "critical", "--label", "", "--phase", "", "--payload", '{"k": 1}')
    after = dibs.json("edit", "x", *edit)["item"]
    changed = {name for name in before if before[name] != after[name]}
    content = {"title", "priority", "labels", "phase", "payload"}
    assert changed == content | {"status", "updated_at", "attempts", "token", "revision"}
    assert (after["labels"], after["phase"], after["title"]) == ([], None, "u")


def test_the_holder_adds_resources_and_another_holder_is_refused_them(dibs: Dibs, other: Dibs) -> None:
    for id in ("x", "y"):
        dibs.ok("add", id, "--id", id, "--resource", f"docs/{id}")
    dibs.ok("claim", "x")
    other.ok("claim", "y")
    added = dibs.json("edit", "x", "--add-resource", "src/api")
    assert (added["item"]["resources"], added["before"]["resources"]) == (["docs/x", "src/api"], ["docs/x"])
    code, error = other.refused("edit", "y", "--add-resource", "src")
    assert (code, error["code"], error["held_for"]) == (75, "RESOURCE_BUSY", "x")
    assert dibs.refused("edit", "y", "--add-resource", "lib")[1]["code"] == "INVALID"
    assert dibs.refused("edit", "x", "--add-resource", "lib", "--token", "7")[1]["field"] == "token"
    assert dibs.refused("edit", "x", "--add-resource", "lib", "--resource", "src")[0] == 2
    dibs.ok("release", "x")
    assert other.json("edit", "x", "--add-resource", "lib")["item"]["resources"] == ["docs/x", "src/api", "lib"]


def test_a_failed_item_is_tried_again(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    dibs.ok("fail", "x", "--reason", "no network")
    assert dibs.refused("claim", "x")[0] == 4
    assert dibs.json("retry", "x", "--reason", "it is back")["item"]["status"] == "ready"
    dibs.ok("claim", "x")


def test_cancelling_takes_an_item_from_its_holder(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    assert other.json("cancel", "x", "--reason", "duplicate")["item"]["status"] == "cancelled"
    code, error = dibs.refused("done", "x")
    assert (code, error["how"]) == (4, "cancelled")
