"""Front matter: what is meant by it, what stays of it, and what is refused before it does harm."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs import check
from dibs.rules import items
from dibs.rules.decision import State
from dibs.store.vault.taskfile import front_matter, parsing, task_text
from dibs.store.vault.taskfile.task_text import Unreadable
from dibs.testing.sizes import times

#: More than reading any of these takes on a busy machine, and far less than what they are made for.
SECONDS_MAX = 2.0

HOSTILE = {
    "billion laughs": "a: &a [x, x]\n"
    + "".join(
        f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]\n" for one, two in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "an alias of itself": "a: &a [*a]",
    "an alias of a mapping": "a: &a {x: y}\nb: *a",
    "many aliases": "a: &a x\n" + "".join(f"b{n}: *a\n" for n in range(21)),
    "an alias of nothing": "a: *b",
    "deep lists": "a: " + "[" * 20_000,
    "deep mappings": "a: " + "{x: " * 10_000,
    "deep blocks": "a:\n" + "".join(" " * n + "x:\n" for n in range(1, 300)),
    "deep dashes": "a:\n  " + "- " * 20_000,
    "deep questions": "? " * 20_000,
    "a key twice": "title: a\ntitle: b",
    "a key twice, far apart": "title: a\ntags: [x]\n'title': b",
    "a key twice within": "x: {a: 1, a: 2}",
    "a key twice in JSON": 'payload: {"a": 1, "a": 2}',
    "a python object": "a: !!python/object/apply:os.system ['true']",
    "a python name": "a: !!python/name:os.system",
    "any tag": "a: !thing {}",
    "a binary": "a: !!binary aGVsbG8=",
    "a set": "a: !!set {x}",
    "a merge key": "a: &a x\n<<: *a",
    "a merge key within": "b: {<<: {c: d}}",
    "too much": "a: " + "x" * 70_000,
    "too many": "".join(f"k{n}: 1\n" for n in range(20_000)),
    "a list": "- a\n- b",
    "a word": "hello world",
    "a flow mapping": "{title: x}",
    "an indented mapping": "  title: x\n  b: [c]",
    "a mapping as key": "? {a: b}\n: c",
    "another document": "a: 'b'\n--- c",
    "the end of a document": "a: 'b'\n...\n",
    "a directive": "%YAML 1.1\n",
    "a tab": "a:\n\t- b",
    "an open quote": "title: 'never",
    "an open list": "tags: [a, b",
    "a list out of line": "tags:\n  - a\n - b",
    "a colon too many": "title: a: b",
    "an odd line end": "a: 'b\u2028c'",
    "a lone carriage return": "a: 'b'\rc: d",
    "a control character": "a: '\x01'",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_broken_or_hostile_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable):
        task_text.read(f"---\n{text}\n---\nbody", "x.md")
    assert time.process_time() - started < SECONDS_MAX


#: Texts of the size that a file may have, of whatever takes longest to look through.
LARGE = {
    "markers on one line": "<!-- dibs: runs -->" * 70_000,
    "marker lines": "<!-- dibs: runs -->\n" * 70_000,
    "headings of blocks": "<!-- dibs: runs -->\n" + "# Claimed Task: \n" * 80_000,
    "drafts that never end": "<!-- dibs: runs -->\n# Claimed Task: x\n" + "## Draft\n```\n## Draft\n````\n" * 40_000,
    "notes": "<!-- dibs: runs -->\n# Claimed Task: x\n\n**Claimed By**: a\n**Claimed At**: 2026-01-01\n**Session**: s\n"
    "**Token**: 1\n\n## Progress\n" + "- 2026-01-01T00:00:00.000Z: x\n" * 30_000,
    "front matter that never ends": "---\n" + "a: [\n" * 200_000,
    "many keys": "---\n" + "a: [\n" * 200_000 + "\n---\n",
    "many open brackets": "---\npayload: " + "[" * 900_000 + "\n---\n",
    "spaces": " " * 900_000 + "\n" * 90_000,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    try:
        task_text.read(text, "x.md")
    except Unreadable:
        pass
    assert time.process_time() - started < 5 * SECONDS_MAX


def test_a_huge_number_is_no_number() -> None:
    task = task_text.read("---\nretries: " + "9" * 60_000 + "\n---\n", "x.md")
    assert task.content["retries"] == 0
    assert [finding.partition(":")[0] for finding in task.findings] == ["retries"]


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("title: Fix it", "title", "Fix it"),
        ("title: 'it''s'", "title", "it's"),
        ("title: 2026", "title", "2026"),
        ("title: 1.50", "title", "1.50"),
        ("title: yes", "title", "yes"),
        ("title: >-\n  two\n  lines", "title", "two lines"),
        ("title: null", "title", "x"),
        ("priority: high", "priority", 8),
        ("priority: 7 # why", "priority", 7),
        ('priority: "9"', "priority", 9),
        ("labels: [a, 1, true]", "labels", ("a", "1", "true")),
        ("labels:\n  - a\n  - b # why", "labels", ("a", "b")),
        ("labels: a", "labels", ("a",)),
        ("depends_on: other", "depends_on", ("other",)),
        ("not_before: 2026-01-02", "not_before", 1767312000000),
        ("not_before: 2026-01-02T03:04:05.678Z", "not_before", 1767323045678),
        ("not_before: 2026-01-02 03:04", "not_before", 1767323040000),
        ("not_before: 1767323045678", "not_before", 1767323045678),
        ("needs_approval: yes", "needs_approval", True),
        ("needs_approval: true", "needs_approval", True),
        ("needs_approval: Off", "needs_approval", False),
        ("timeout_seconds: 60", "timeout_seconds", 60),
        ("payload:\n  a: 2026-01-01\n  b: [1, {c: null}]", "payload", {"a": "2026-01-01", "b": [1, {"c": None}]}),
        ("type: review", "action", "review"),
        ("phase: ~", "phase", None),
    ],
)
def test_a_field_is_read_as_it_was_meant(line: str, field: str, value: object) -> None:
    for text in (f"---\n{line}\n---\n", f"---\ntags:\n  - x\n{line}\nother: 'y'\n---\n"):
        for saved in (text, text.replace("\n", "\r\n")):
            task = task_text.read(saved, "x.md")
            assert task.content[field] == value
            assert task.findings == ()


@pytest.mark.parametrize(
    "line",
    [
        *("title: [x]", "title: ''", "priority: urgent", "labels: {a: b}", "labels: [[a]]", "depends_on: [a b]"),
        *("not_before: soon", "needs_approval: maybe", "timeout_seconds: 8h", "retries: -1", "retries: 1.5"),
        *("payload: [1]", "payload: {1: .nan", "project: a b", "id: a b", "dibs: no", "dibs: {}", "dibs:"),
        'dibs: {"token": 1, "created_by": "p", "created_at": 1, "approval": {}}',
        *('dibs: {"token": "1"}', 'dibs: {"token": 1, "created_by": "p", "created_at": 1, "claim": {}}'),
    ],
)
def test_what_is_written_wrongly_is_a_finding_and_not_taken(line: str) -> None:
    if line.endswith(".nan"):
        line += "}"
    task = task_text.read(f"---\n{line}\n---\n", "x.md")
    default = task_text.read("", "x.md")
    if "nan" not in line:
        assert [finding.partition(":")[0] for finding in task.findings] == [line.partition(":")[0]]
        assert (task.id, task.content, task.facts) == (default.id, default.content, None)


def test_foreign_keys_are_nobodys_business() -> None:
    text = "---\ntags: [a]\nstatus: open\ndate: 2026-01-01\naliases:\n  - x\n---\n# T\n"
    task = task_text.read(text, "x.md")
    assert task.findings == ()
    assert task.content == {**task_text.read("# T\n", "x.md").content}


def edited(text: str, **changes: object) -> str:
    task = task_text.read(text, "x.md")
    added = items.add(1, check.new_item({"id": task.id, **task.content}), actor="pat", token_floor=0)
    step = items.edit(2, State(item=added.item), check.edits(changes), actor="pat")
    assert step is not None
    return task_text.write(text, "x.md", step.item, None, [step], "Needs_Action")


FACTS = 'dibs: {"id": "x", "token": 0, "created_by": "pat", "created_at": 1}\n'


def test_an_edit_changes_the_lines_of_its_key_and_no_other() -> None:
    text = (
        "---\n# ours\ntags:  [a,   'b']   # theirs\npriority:   high  # since monday\n\nlabels:\n  - old\n  - older\n"
        "# about the date\ndate: 2026-01-01\n---\nbody\n"
    )
    assert edited(text, priority=3, labels=["new"]) == (
        "---\n# ours\ntags:  [a,   'b']   # theirs\npriority: 3  # since monday\n\nlabels: [\"new\"]\n"
        f"# about the date\ndate: 2026-01-01\n{FACTS}---\nbody\n"
    )


def test_a_comment_behind_signs_beyond_ascii_stays() -> None:
    assert edited("---\nproject: 'é😀' # ü\n---\n", project="p") == f"---\nproject: p # ü\n{FACTS}---\n"


def test_what_is_not_there_yet_stands_before_our_facts() -> None:
    text = f"---\ntags: [a]\n{FACTS}---\n"
    assert edited(text, phase="two") == f"---\ntags: [a]\nphase: two\n{FACTS}---\n"


def test_remarks_behind_an_entry_stay() -> None:
    text = f"---\nlabels: [a,\n  b]\n  # one\n\n# two\nphase: 'p'\n  # three\n{FACTS}---\n"
    made = f'---\nlabels: ["c"]\n  # one\n\n# two\nphase: q\n  # three\n{FACTS}---\n'
    assert edited(text, labels=["c"], phase="q") == made


def test_what_is_taken_back_is_gone() -> None:
    text = f"---\nphase: two\ntags: [a]\n{FACTS}---\n"
    assert edited(text, phase=None) == f"---\ntags: [a]\n{FACTS}---\n"


def test_facts_that_a_program_rewrote_are_read_and_written_as_ours() -> None:
    text = (
        "---\ntags:\n  - a\ndibs:\n  token: 4\n  attempts: 2\n  created_by: pat\n  created_at: 1\n  claim:\n"
        "    token: 4\n    session: s-1\n    agent: ann\n    claimed_at: 5\n    expires_at: 6\n    deadline_at: 7\n"
        "    ttl_seconds: 60\n"
        "other: 'x'\n---\nbody\n"
    )
    facts = task_text.read(text, "x.md").facts
    assert facts is not None
    assert facts.claim is not None
    assert (facts.token, facts.attempts, facts.claim.session, facts.claim.item) == (4, 2, "s-1", "x")
    assert edited(text, phase="two") == f"---\ntags:\n  - a\nphase: two\n{FACTS}other: 'x'\n---\nbody\n"


def test_a_large_payload_is_no_large_front_matter() -> None:
    text = '---\npayload: {"a": "' + "x" * 500_000 + '"}\ntags:\n  - a\n---\n'
    assert len(task_text.read(text, "x.md").content["payload"]["a"]) == 500_000


@pytest.mark.parametrize(
    "text", ["yes", "Off", "null", "True", "n", "12", "2026-01-01", "a: b", "a #b", "- a", "[a]", "é"]
)
def test_text_that_could_mean_something_else_is_quoted(text: str) -> None:
    assert front_matter.scalar(text) == f'"{text}"'
    assert front_matter.scalar(f"so {text[:0]}it is") == "so it is"


def test_windows_line_ends_stay() -> None:
    text = "---\r\npriority: 1\r\n---\r\n# T\r\n\r\nbody\r\n"
    made = edited(text, priority=2)
    assert made == text.replace("priority: 1", "priority: 2").replace("---\r\n#", FACTS[:-1] + "\r\n---\r\n#")


def test_rules_without_a_second_one_are_text() -> None:
    assert task_text.read("---\ntitle: x\n", "x.md").content["body"] == "---\ntitle: x\n"


def test_without_the_library_one_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(Exception, match="calldibs\\[vault\\]"):
        task_text.read("---\ntags: [a]\n---\n", "x.md")
    assert task_text.read("---\ntags: a\n---\n", "x.md").findings == ()
    assert "calldibs[vault]" in parsing.NEEDS_YAML


#: Values, and lines of lists, of which some mean one thing only and some do not.
VALUES = (
    *(
        "",
        "word",
        "two words",
        "12",
        "-3",
        "1.5",
        "1e3",
        "010",
        "0x1f",
        "1_000",
        "12:30",
        "yes",
        "true",
        "True",
        "null",
    ),
    *("2026-01-01", "2026-01-01 10:00", "a#b", "a #b", "a:b", "a: b", "a:", "[1, 2]", '["a"]', "{}", '{"a": 1}', "[a]"),
    *(
        '"q"',
        '"q" x',
        "'q'",
        "x'y",
        "~",
        "- a",
        "-",
        "*a",
        "&a b",
        "!t x",
        "|",
        ">",
        "@a",
        "%a",
        "é",
        "a, b",
        "a]",
        "?",
    ),
    *(
        '"a\\"',
        '"\\u00e9"',
        "...",
        "---x",
        "a\tb",
        "\ta",
        " a ",
        "#",
        "$x",
        "(x)",
        "1.",
        ".5",
        "+1",
        "-.inf",
        "<<",
        "=",
    ),
)
KEYS = (
    "a",
    "b_c",
    "d-e",
    "title",
    "labels",
    "payload",
    "dibs",
    "tags",
    "1",
    "null",
    "é",
    "a b",
    '"q"',
    "- a",
    " a",
    "<<",
)
front_lines = st.lists(
    st.builds(lambda key, value: f"{key}: {value}", st.sampled_from(KEYS), st.sampled_from(VALUES))
    | st.builds(lambda indent, value: f"{indent}- {value}", st.sampled_from(("", "  ", " ")), st.sampled_from(VALUES))
    | st.sampled_from(("tags:", "labels:", "", "# remark", "  # remark", "  more", "title:", "dibs:")),
    min_size=1,
    max_size=5,
)


@given(front_lines)
@settings(max_examples=times(500), deadline=None)
def test_what_is_read_without_yaml_is_what_yaml_reads(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    try:
        found, rest = front_matter.split(f"---\n{text}---\n")
    except Unreadable:
        return
    assert found is not None
    assert rest == ""
    assert found.render() == f"---\n{text}---\n"
    said = {chunk.key: chunk.value for chunk in found.chunks if chunk.key is not None}
    assert said == {entry.key: entry.value for entry in parsing.entries(text)}
