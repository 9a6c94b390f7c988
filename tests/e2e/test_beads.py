"""Issues of beads: imported, worked on, and exported again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from dibs import board
from dibs.cli.tasks import batches
from dibs.maintenance import beads_file
from tests.e2e.conftest import Dibs

Issue = dict[str, Any]
WORDS = (
    "login",
    "search",
    "billing",
    "export",
    "cache",
    "retry",
    "schema",
    "worker",
    "queue",
    "façade",
    "日本語",
    "🚀 launch",
)


def dated(number: int) -> str:
    return f"2026-01-{1 + number % 27:02}T09:{number % 60:02}:48.942352085Z"


def edge(of: str, on: str, kind: str) -> Issue:
    return {"issue_id": of, "depends_on_id": on, "type": kind, "created_at": dated(3), "created_by": "ann"}


def issues_of_a_repository(count: int, seed: int) -> list[Issue]:
    """Issues as a busy public repository has them: epics with children, chains, relations, comments, closed ones."""
    chance = random.Random(seed)
    made: list[Issue] = []
    for number in range(count):
        id = f"shop-{number:x}" if number % 7 else f"shop-{number:x}.1"
        issue: Issue = {
            "_type": "issue",
            "id": id,
            "title": f"{chance.choice(WORDS)}: {chance.choice(WORDS)} {number}",
            "status": "open",
            "priority": chance.randrange(5),
            "issue_type": chance.choice(("bug", "feature", "task", "chore", "epic" if number % 9 == 0 else "task")),
            "created_at": dated(number),
            "created_by": "ann",
            "updated_at": dated(number + 1),
        }
        some = {
            "description": f"What happens: {number}\n\n## Design\n\nnot a section",
            "design": "One table.\nNo more.",
            "acceptance_criteria": "- [ ] it works",
            "notes": "seen on Tuesday",
            "labels": chance.sample(["web", "db", "area:ui", "with blank", "perf"], 2),
            "assignee": "bea",
            "estimated_minutes": 30,
            "external_ref": f"gh-{number}",
            "comments": [{"id": number, "issue_id": id, "author": "bea", "text": "me too", "created_at": dated(4)}],
            "metadata": {"files": ["a.py"]},
            "due_at": dated(9),
        }
        issue |= {name: value for name, value in some.items() if chance.random() < 0.4}
        earlier = chance.sample(made, min(len(made), chance.randrange(3)))
        kinds = ("blocks", "related", "parent-child", "discovered-from", "waits-for")
        if edges := [edge(id, one["id"], chance.choice(kinds)) for one in earlier]:
            issue["dependencies"] = edges
        if number % 5 == 0:
            issue |= {"status": "closed", "closed_at": dated(8), "close_reason": "Completed"}
        elif number % 11 == 0:
            issue["status"] = "in_progress"
        elif number % 13 == 0:
            issue["status"] = "deferred"
        elif number % 17 == 0:
            issue |= {"status": "deferred", "defer_until": "2031-01-01T00:00:00Z"}
        made.append(issue)
    made[3].setdefault("dependencies", []).append(edge(made[3]["id"], "other-1", "blocks"))
    return made


def write(path: Path, issues: list[Issue]) -> Path:
    path.write_text("".join(json.dumps(issue) + "\n" for issue in issues), encoding="utf-8")
    return path


def by_id(path: Path) -> dict[str, Issue]:
    return {issue["id"]: issue for issue in map(json.loads, path.read_text().splitlines())}


@pytest.fixture
def file(dibs: Dibs) -> Path:
    return write(dibs.folder / "issues.jsonl", issues_of_a_repository(500, seed=1))


def test_five_hundred_issues_there_and_back_are_as_they_were(dibs: Dibs, file: Path) -> None:
    told = dibs.json("import", "--from", "beads", "issues.jsonl")
    given = by_id(file)
    assert len(told["added"]) == 500
    assert len(told["done"]) == sum(issue["status"] == "closed" for issue in given.values())
    dibs.ok("export", "--to", "beads", "back.jsonl")
    back = by_id(dibs.folder / "back.jsonl")
    assert back.keys() == given.keys()
    for id, issue in given.items():
        assert back[id] == issue, id
    again = dibs.json("import", "--from", "beads", "back.jsonl")
    assert (again["added"], len(again["existed"])) == ([], 500)


def test_an_issue_becomes_an_item_that_is_claimed_as_there(dibs: Dibs) -> None:
    issues: list[Issue] = [
        {"id": "b-1", "title": "First", "status": "open", "priority": 0, "issue_type": "bug", "labels": ["web"]},
        {"id": "b-2", "title": "Second", "priority": 2, "dependencies": [edge("b-2", "b-1", "blocks")], "design": "D"},
        {"id": "b-3", "title": "Whole", "priority": 1, "issue_type": "epic"},
        {"id": "b-4", "title": "Child", "priority": 4, "dependencies": [edge("b-4", "b-3", "parent-child")]},
        {"id": "b-5", "title": "Over", "status": "closed", "priority": 2, "closed_at": dated(1)},
        {"id": "b-6", "title": "Later", "status": "deferred", "priority": 2},
        {"id": "b-7", "title": "Pattern", "priority": 2, "is_template": True},
        {"id": "b-8", "title": "Gone", "status": "tombstone", "priority": 2},
        {"_type": "memory", "id": "m", "title": "remember"},
    ]
    write(dibs.folder / "in.jsonl", issues)
    tried = dibs.json("import", "--from", "beads", "in.jsonl", "--dry-run")
    assert (len(tried["added"]), dibs.json("list")["items"]) == (6, [])
    told = dibs.json("import", "--from", "beads", "in.jsonl")
    assert told["skipped"] == {"deleted": 1, "line of type memory": 1, "template": 1}
    assert told["kept"] == {"dependencies of type parent-child": 1}
    items = {item["id"]: item for item in dibs.json("list", "--all")["items"]}
    statuses = {id: item["status"] for id, item in items.items()}
    assert statuses == {
        **{"b-1": "ready", "b-2": "blocked", "b-3": "parked"},
        **{"b-4": "ready", "b-5": "done", "b-6": "parked"},
    }
    assert [items[id]["priority"] for id in ("b-1", "b-2", "b-3", "b-4")] == [10, 5, 8, 0]
    assert (items["b-1"]["type"], items["b-1"]["labels"], items["b-2"]["body"]) == (
        *("bug", ["web"]),
        "\n\n## Design\n\nD",
    )
    assert dibs.json("next", "--session", "s")["claims"][0]["item"]["id"] == "b-1"


def test_what_was_done_here_is_in_the_export(dibs: Dibs) -> None:
    issues: list[Issue] = [
        {"id": "b-1", "title": "First", "status": "in_progress", "priority": 3, "updated_at": dated(1)},
        {"id": "b-2", "title": "Second", "status": "open", "priority": 2, "notes": "N", "updated_at": dated(1)},
        {"id": "b-3", "title": "Third", "status": "open", "priority": 2, "updated_at": dated(1)},
    ]
    write(dibs.folder / "in.jsonl", issues)
    dibs.ok("import", "--from", "beads", "in.jsonl")
    dibs.ok("claim", "b-1", "--session", "s", "--agent", "coder")
    dibs.ok("edit", "b-2", "--body", "other words", "--needs", "b-3", "--priority", "critical")
    dibs.ok("add", "Here only", "--id", "here-1", "--label", "web")
    dibs.ok("claim", "b-3", "--session", "s", "--agent", "coder")
    dibs.ok("done", "b-3", "--session", "s")
    dibs.ok("export", "--to", "beads", "out.jsonl")
    out = by_id(dibs.folder / "out.jsonl")
    assert (out["b-1"]["status"], out["b-1"]["assignee"]) == ("in_progress", "coder")
    assert (out["b-2"]["description"], out["b-2"]["priority"], "notes" in out["b-2"]) == ("other words", 0, False)
    assert [(one["depends_on_id"], one["type"]) for one in out["b-2"]["dependencies"]] == [("b-3", "blocks")]
    assert out["b-3"]["status"] == "closed"
    assert out["b-3"]["closed_at"] == out["b-3"]["updated_at"] != dated(1)
    assert (out["here-1"]["status"], out["here-1"]["labels"], out["here-1"]["priority"]) == ("open", ["web"], 2)


def test_an_import_that_was_interrupted_is_completed_by_the_next(dibs: Dibs) -> None:
    issues: list[Issue] = [
        {"id": "b-1", "title": "Over", "status": "closed", "priority": 2, "closed_at": dated(1)},
        {"id": "b-2", "title": "Whole", "priority": 2, "issue_type": "epic"},
    ]
    write(dibs.folder / "in.jsonl", issues)
    # As the board is after the items were added, before either was ended or parked.
    with board.connect(folder=str(dibs.folder)) as opened:
        opened.add_many(beads_file.read((dibs.folder / "in.jsonl").read_bytes().splitlines(), frozenset()).items)
    dibs.ok("sweep")
    assert dibs("next", "--session", "s").returncode == 3
    said = dibs.ok("import", "--from", "beads", "in.jsonl", "--dry-run")
    told = dibs.json("import", "--from", "beads", "in.jsonl")
    assert (told["completed"], told["done"], told["parked"]) == (["b-1", "b-2"], ["b-1"], ["b-2"])
    assert said.splitlines() == ["would add 0 items, 1 done, 1 parked", "  2 items of an import that was interrupted"]
    items = dibs.json("list", "--all")["items"]
    assert sorted((item["status"], item["not_before"]) for item in items) == [("done", None), ("parked", None)]


def test_what_was_closed_in_the_file_since_is_named(dibs: Dibs) -> None:
    issues: list[Issue] = [{"id": f"b-{number}", "title": "x"} for number in range(12)]
    for status in ("open", "closed"):
        write(dibs.folder / "in.jsonl", [issue | {"status": status} for issue in issues])
        said = dibs.ok("import", "--from", "beads", "in.jsonl")
    assert "  12 items existed already, unchanged\n  closed in the file, but not here: b-0, b-1, " in said
    assert "    and 2 more; --json has all of them" in said
    assert len(dibs.json("import", "--from", "beads", "in.jsonl")["closed_in_file"]) == 12
    assert {item["status"] for item in dibs.json("list", "--all")["items"]} == {"ready"}


def test_what_cannot_be_ready_is_parked(dibs: Dibs) -> None:
    many = [f"n-{number}" for number in range(70)]
    issues: list[Issue] = [
        {"id": "by-hand", "title": "T", "status": "blocked", "priority": 2},
        {"id": "by-null", "title": "T", "priority": 2, "dependencies": [{"depends_on_id": "n-0", "type": None}]},
        {"id": "by-many", "title": "T", "priority": 2, "dependencies": [edge("by-many", id, "blocks") for id in many]},
        {"id": "far", "title": "T", "priority": 2, "defer_until": "9999-12-31T00:00:00Z"},
        *({"id": id, "title": "T", "status": "closed", "closed_at": dated(1)} for id in many[6:]),
        *({"id": id, "title": "T", "issue_type": "epic"} for id in many[:6]),
    ]
    write(dibs.folder / "in.jsonl", issues)
    told = dibs.json("import", "--from", "beads", "in.jsonl")
    assert told["kept"] == {"dependencies beyond 64": 1, "status blocked": 1}
    statuses = {item["id"]: item["status"] for item in dibs.json("list", "--all")["items"]}
    assert [statuses[id] for id in ("by-hand", "by-null", "by-many", "far")] == [
        "parked",
        "blocked",
        "parked",
        "parked",
    ]
    assert dibs("next", "--session", "s").returncode == 3


def test_what_was_edited_here_is_exported_and_nothing_is_invented(dibs: Dibs) -> None:
    deferred = {"id": "b-1", "title": "T", "issue_type": "bug", "labels": ["with blank"], "priority": 2}
    deferred |= {"status": "deferred", "defer_until": "2031-01-01T00:00:00Z"}
    untouched = {"id": "b-2", "title": "T", "priority": 2, "status": "closed"}
    write(dibs.folder / "in.jsonl", [deferred, untouched])
    dibs.ok("import", "--from", "beads", "in.jsonl")
    dibs.ok("edit", "b-1", "--type", "docs", "--label", "new", "--not-before", "2032-01-01T00:00:00Z")
    dibs.ok("export", "--to", "beads", "out.jsonl")
    out = by_id(dibs.folder / "out.jsonl")
    assert (out["b-1"]["issue_type"], out["b-1"]["labels"]) == ("docs", ["new"])
    assert out["b-1"]["defer_until"] == "2032-01-01T00:00:00.000Z"
    assert out["b-2"] == untouched


def test_an_issue_with_empty_fields_is_not_updated_by_an_export(dibs: Dibs) -> None:
    empty: Issue = {"labels": [], "dependencies": [], "description": "", "notes": None, "assignee": ""}
    issues: list[Issue] = [
        {"id": "a", "title": "x", "priority": 1, "updated_at": dated(1), **empty},
        {"id": "b", "title": "x", "updated_at": dated(2)},
        {"id": "c", "title": "x", "priority": None, "updated_at": dated(3)},
    ]
    write(dibs.folder / "in.jsonl", issues)
    dibs.ok("import", "--from", "beads", "in.jsonl")
    dibs.ok("export", "--to", "beads", "back.jsonl")
    back = by_id(dibs.folder / "back.jsonl")
    assert {id: (one["updated_at"], one["priority"]) for id, one in back.items()} == {
        "a": (dated(1), 1),
        "b": (dated(2), 2),
        "c": (dated(3), 2),
    }


def test_a_payload_that_no_import_wrote_spoils_no_export(dibs: Dibs) -> None:
    for number, kept in enumerate([{"dependencies": "zz"}, {"_type": "config"}, {"status": 5, "labels": 7}, 3]):
        payload = json.dumps({"beads": kept, "beads_import": {}})
        dibs.ok("add", "T", "--id", f"x-{number}", "--payload", payload)
    dibs.ok("export", "--to", "beads", "out.jsonl")
    out = by_id(dibs.folder / "out.jsonl")
    assert {issue["status"] for issue in out.values()} == {"open"}
    assert not any("_type" in issue for issue in out.values())


def test_a_long_reason_and_a_large_file_are_imported(dibs: Dibs) -> None:
    closed = {"id": "b-1", "title": "T", "status": "closed", "priority": 2, "close_reason": "x" * 70_000}
    large = [{"id": f"l-{n}", "title": "T", "priority": 2, "comments": ["c" * 900_000]} for n in range(6)]
    write(dibs.folder / "in.jsonl", [closed, *large])
    assert len(dibs.json("import", "--from", "beads", "in.jsonl")["added"]) == 7
    assert (
        len(batches(list(beads_file.read((dibs.folder / "in.jsonl").read_bytes().splitlines(), frozenset()).items)))
        == 2
    )


def test_a_cycle_is_refused_by_a_dry_run_too(dibs: Dibs) -> None:
    issues: list[Issue] = [{"id": "good", "title": "x"}]
    issues += [{"id": f"c{n}", "title": "x", "dependencies": [edge("", f"c{(n + 1) % 9}", "blocks")]} for n in range(9)]
    write(dibs.folder / "in.jsonl", issues)
    for options in (["--dry-run"], []):
        code, refusal = dibs.refused("import", "--from", "beads", "in.jsonl", *options)
        assert (code, refusal["line"]) == (1, 2)
        assert "line 2: c0 depends on itself, through " in refusal["message"]
        assert " and 3 more; nothing was added" in refusal["message"]
    assert dibs.json("list")["items"] == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("no json", "line 2: this is not JSON"),
        ('{"id": 3, "title": "x"}', "line 2: an issue of beads has a text as its id"),
        ('{"id": "a b", "title": "x", "priority": 1}', "line 2: id"),
        ('{"id": "b", "title": "x", "priority": 7}', "line 2: priority 7 is not one of 0 (highest) to 4"),
        ('{"id": "b", "title": "x", "dependencies": [3]}', "line 2: dependencies must be"),
        ('{"id": "b", "title": "x", "defer_until": "soon"}', "line 2: "),
        ('{"id": "b", "title": "x", "priority": true}', "line 2: priority True is not one of"),
        ('{"id": "b", "title": "x", "labels": "abc"}', "line 2: labels must be a list of texts"),
        ('{"id": "b", "title": "x", "description": 5}', "line 2: description must be a text"),
        ('{"id": "b", "title": "x", "issue_type": []}', "line 2: issue_type must be a text"),
        ('{"id": "b", "title": "x", "status": "closed", "close_reason": {}}', "line 2: close_reason must be a text"),
        ('{"id": "good", "title": "x", "priority": 1}', "line 2: good is on line 1 already"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_added(dibs: Dibs, line: str, complaint: str) -> None:
    (dibs.folder / "in.jsonl").write_text('{"id": "good", "title": "x", "priority": 2}\n' + line + "\n")
    code, refusal = dibs.refused("import", "--from", "beads", "in.jsonl")
    assert code == 1
    assert complaint in refusal["message"]
    assert "nothing was added" in refusal["message"]
    assert dibs.json("list")["items"] == []
