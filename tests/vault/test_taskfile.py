"""A file as people see it: its exact words, what is read from hand-made ones, and what a person may do to it."""

from __future__ import annotations

from typing import Any

import pytest

from dibs import check
from dibs.config import DEFAULTS
from dibs.model import Claim, Note, Run, Session
from dibs.rules import claiming, ending, fencing, items, reviewing
from dibs.rules.decision import State, Step
from dibs.store.vault.layout import FOLDERS
from dibs.store.vault.taskfile import task_text
from dibs.store.vault.taskfile.run_blocks import MARKER, Review
from dibs.store.vault.taskfile.task_text import Unreadable

ANN = Session(id="s-ann", agent="ann")
NOON = 1_767_268_800_000


class Life:
    """An item and its file, step by step."""

    def __init__(self, text: str | None = None, name: str = "x.md", **content: Any) -> None:
        if text is not None:
            task = task_text.read(text, name)
            content = {"id": task.id, **task.content}
        new = check.new_item({"id": "x", "title": "Answer the mail", **content})
        first = items.add(NOON, new, actor="pat", token_floor=6)
        self.name = name
        self.now = NOON
        self.state = State(item=first.item)
        self.text = task_text.write(text, name, first.item, None, [first], FOLDERS[first.item.status])

    def write(self, *steps: Step, next_state: str | None = None, approval: dict[str, Any] | None = None) -> None:
        for step in steps:
            self.state = step.after(self.state)
        item = self.state.item
        where = next_state or FOLDERS[item.status]
        self.text = task_text.write(self.text, self.name, item, self.state.claim, steps, where, approval)

    def later(self) -> int:
        self.now += 1500
        return self.now

    @property
    def claim(self) -> Claim:
        assert self.state.claim is not None
        return self.state.claim

    def claimed(self) -> Life:
        self.write(claiming.grant(self.later(), self.state, ANN, 60), next_state="In_Progress/ann")
        return self

    def noted(self, note: str, meta: dict[str, Any] | None = None) -> Life:
        self.write(fencing.progress(self.later(), self.state, self.claim, note=note, meta=meta or {}))
        return self

    def submitted(self, draft: str) -> Life:
        self.write(ending.submit(self.later(), self.state, self.claim, draft=draft, note=None, links={}, cost={}))
        return self

    def done(self, **told: Any) -> Life:
        given: dict[str, Any] = {"note": None, "links": {}, "cost": {}, **told}
        self.write(ending.done(self.later(), self.state, self.claim, **given))
        return self

    def read(self) -> task_text.Task:
        return task_text.read(self.text, self.name)

    def run(self) -> Run:
        (run,) = self.read().runs
        return run


def test_a_file_in_full_word_for_word() -> None:
    life = Life(priority=8, labels=["mail"], body="Politely.\n").claimed().noted("read it").noted("two\nlines")
    life.submitted("Dear all,\n```\ncode\n```\n")
    life.write(reviewing.send_back(life.later(), life.state, actor="pat", comment="shorter"))
    assert (
        life.text
        == """\
---
labels: ["mail"]
priority: 8
dibs: {"id": "x", "token": 7, "attempts": 1, "created_by": "pat", "created_at": 1767268800000}
---

# Answer the mail

Politely.

<!-- dibs: runs -->

# Claimed Task: x

**Claimed By**: ann
**Claimed At**: 2026-01-01T12:00:01.500Z
**Status**: submitted
**Session**: s-ann
**Token**: 7

## Progress

<!-- Agent adds progress notes here -->
- 2026-01-01T12:00:03.000Z: read it
- 2026-01-01T12:00:04.500Z: two
  lines

## Draft

````
Dear all,
```
code
```

````

## Completion

**Completed At**: 2026-01-01T12:00:06.000Z
**Duration**: 4.5
**Result**: success
**Next State**: Pending_Approval
**Outcome**: submitted

**Sent Back By**: pat 2026-01-01T12:00:07.500Z: shorter
"""
    )
    task = life.read()
    assert task.notes == {7: (Note(at=NOON + 3000, note="read it"), Note(at=NOON + 4500, note="two\nlines"))}
    assert task.reviews == (Review(kind="sent_back", token=7, actor="pat", at=NOON + 7500, comment="shorter"),)


def test_a_claim_stands_in_the_facts_while_it_is_held() -> None:
    life = Life().claimed()
    facts = life.read().facts
    assert facts is not None
    assert facts.claim == life.claim
    assert "**Status**: processing\n" in life.text
    life.done()
    facts = life.read().facts
    assert facts is not None
    assert facts.claim is None


def test_an_approval_stands_in_the_facts() -> None:
    life = Life(needs_approval=True)
    facts = life.read().facts
    assert facts is not None
    assert facts.needs_approval
    approval = {"actor": "pat", "at": NOON + 1500, "comment": "go\non", "token": None, "draft": None}
    step = reviewing.approve(life.later(), life.state, None, actor="pat", comment="go\non", done=False)
    life.write(step, approval=approval)
    task = life.read()
    assert task.facts is not None
    assert (task.facts.approved, task.facts.needs_approval, task.facts.approval) == (True, False, approval)
    assert task.content["needs_approval"] is True
    assert '**Approved By**: pat 2026-01-01T12:00:01.500Z: "go\\non"\n' in life.text
    assert task.reviews == (Review(kind="approved", token=None, actor="pat", at=NOON + 1500, comment="go\non"),)


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("fix-login.md", "fix-login"),
        ("v1.2_b.md", "v1.2_b"),
        ("Fix the login.md", "fix-the-login-3757e1"),
        ("fix the login.md", "fix-the-login-23204a"),
        ("Ä.md", "item-2fe5ca"),
        (".hidden.md", "hidden-169241"),
        ("x" * 129 + ".md", "x" * 40 + "-0ec9eb"),
    ],
)
def test_an_id_is_made_from_any_name(name: str, item: str) -> None:
    assert task_text.id_of(name) == check.item_id(item)


def test_names_that_differ_have_ids_that_differ() -> None:
    names = ["Fix it.md", "fix it.md", "fix-it.md", "fix  it.md", "Fix_it!.md", "Fix it .md"]
    assert len({task_text.id_of(name) for name in names}) == len(names)


def test_an_id_in_the_front_matter_counts_more_than_the_name() -> None:
    assert task_text.read("---\nid: y\n---\n", "x.md").id == "y"
    assert task_text.read("---\nid: 'a b'\n---\n", "x.md").id == "x"


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("", "x", ""),
        ("just text\n", "x", "just text\n"),
        ("# Heading\n\ntext\n", "Heading", "text\n"),
        ("# Heading\ntext\n", "Heading", "text\n"),
        ("\n\n#   Heading  \r\n\r\ntext", "Heading", "text"),
        ("# Heading", "Heading", ""),
        ("text\n# Heading\n", "x", "text\n# Heading\n"),
        ("## Heading\n", "x", "## Heading\n"),
        ("#Heading\n", "x", "#Heading\n"),
        ("# \n", "x", "# \n"),
        ("# " + "long" * 200, "x", "# " + "long" * 200),
        ("---\ntitle: T\n---\n# Heading\n", "T", "# Heading\n"),
        ("---\n---\n# Heading\n", "Heading", ""),
        ("\ufeff# Heading\n", "Heading", ""),
        ("\ufeff---\ntitle: T\n---\nb", "T", "b"),
        (f"a\n{MARKER}\n\nb", "x", "a"),
        (f"a\n\n{MARKER}\nb", "x", "a\n"),
        (f"{MARKER}", "x", ""),
        (f"a {MARKER}\n", "x", f"a {MARKER}\n"),
        (f"a\n{MARKER}\nb\n{MARKER}\n", "x", f"a\n{MARKER}\nb"),
        (f"a\r\n\r\n{MARKER}\r\nb", "x", "a\r\n"),
    ],
)
def test_title_and_body_of_texts_that_people_wrote(text: str, title: str, body: str) -> None:
    content = task_text.read(text, "x.md").content
    assert (content["title"], content["body"]) == (title, body)


@pytest.mark.parametrize("text", ["a\0b", "x" * (check.TEXT_BYTES_MAX + 1)])
def test_what_no_board_can_keep_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        task_text.read(text, "x.md")


def edited(text: str, **changes: Any) -> str:
    life = Life(text)
    step = items.edit(life.later(), life.state, changes, actor="pat")
    assert step is not None
    life.write(step)
    content = life.read().content
    assert {name: content[name] for name in changes} == changes
    return life.text[life.text.index("\n---\n") + 5 :]


def test_an_edit_of_title_or_body_leaves_the_other_alone() -> None:
    assert edited("\n#  Old \r\ntext\r\n", title="New") == "\n# New\r\ntext\r\n"
    assert edited("\n#  Old \r\ntext\r\n", body="more") == "\n#  Old \r\n\nmore"
    assert edited("# Old", body="more") == "# Old\n\nmore"
    assert edited("# Old\n\ntext\n", body="") == "# Old\n\n"


def test_a_title_goes_to_the_front_matter_where_there_is_no_heading() -> None:
    life = Life("text\n")
    step = items.edit(life.later(), life.state, {"title": "New: one"}, actor="pat")
    assert step is not None
    life.write(step)
    assert life.text.startswith('---\ntitle: "New: one"\ndibs: ')
    assert life.text.endswith("---\ntext\n")


def test_a_body_that_begins_like_a_heading_is_no_title() -> None:
    life = Life("text\n")
    step = items.edit(life.later(), life.state, {"body": "# Not a title\n"}, actor="pat")
    assert step is not None
    life.write(step)
    content = life.read().content
    assert (content["title"], content["body"]) == ("x", "# Not a title\n")


def test_a_retry_tells_when_in_the_file() -> None:
    life = Life(retries=1).claimed()
    told: dict[str, Any] = {"reason": "r", "links": {}, "cost": {}, "settings": DEFAULTS, "uniform": 1.0}
    life.write(ending.fail(life.later(), life.state, life.claim, **told))
    assert life.state.item.not_before is not None
    assert life.read().content["not_before"] == life.state.item.not_before
    assert "**Result**: failure\n**Next State**: Scheduled\n" in life.text


def test_a_plain_agents_block_is_left_alone() -> None:
    plain = (
        f"text\n\n{MARKER}\n\n# Claimed Task: x\n\n**Claimed By**: cloud\n**Claimed At**: now\n"
        "**Status**: processing\n\n## Progress\n\nworking\n\n## Completion\n\n**Result**: success\n"
    )
    life = Life(plain).claimed().noted("n").done(note="so")
    assert plain in life.text
    assert life.run().token == 7


def test_a_completion_in_the_sources_words_ends_a_run() -> None:
    life = Life().claimed()
    life.text += (
        "\n## Completion\n\n**Completed At**: 2026-01-01T12:00:09Z\n**Duration**: 8\n**Result**: success\n"
        "**Next State**: Done\n"
    )
    assert (life.run().outcome, life.run().ended_at) == ("done", NOON + 9000)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("**Token**: 7", "**Token**: seven"),
        ("**Token**: 7", "**Token**: -7"),
        ("**Token**: 7\n", ""),
        ("**Claimed By**: ann", "**Claimed By**: ../ann"),
        ("**Claimed At**: 2026", "**Claimed At**: when 2026"),
        ("**Session**: s-ann", "**Session**: two words"),
    ],
)
def test_a_block_that_cannot_be_read_is_no_error(line: str, other: str) -> None:
    life = Life().claimed()
    assert line in life.text
    life.text = life.text.replace(line, other)
    assert life.read().runs == ()
    life.done(note="so")
    assert life.run() == life.state.run


def test_a_block_that_was_taken_out_is_begun_again() -> None:
    life = Life().claimed().noted("one")
    life.text = life.text[: life.text.index("# Claimed Task")]
    life.noted("two").done()
    assert life.run() == life.state.run
    assert [note.note for note in life.read().notes[7]] == ["two"]


def test_a_person_may_change_the_draft() -> None:
    life = Life().claimed().submitted("Dear all")
    life.text = life.text.replace("Dear all", "Dear friends,\n\nbye\n")
    assert life.run().draft == "Dear friends,\n\nbye\n"


@pytest.mark.parametrize(
    "draft",
    ["", "\n", "a\r\n", "```", "`````\n````", MARKER, f"a\n{MARKER}\n```\n", "## Completion\n", "# Claimed Task: x"],
)
def test_any_draft_comes_back(draft: str) -> None:
    life = Life().claimed().submitted(draft)
    assert life.run() == life.state.run
    life.write(reviewing.send_back(life.later(), life.state, actor="pat", comment="again"))
    life.claimed().noted("n").submitted(draft)
    assert [run.draft for run in life.read().runs] == [draft, draft]


def test_what_people_write_between_and_behind_runs_stays_where_it_is() -> None:
    life = Life().claimed().noted("one")
    life.text += "\nWhat about Monday?\n"
    life.noted("two")
    assert "one\n" in life.text
    assert life.text.index("two\n") < life.text.index("What about Monday?")
    life.write(ending.release(life.later(), life.state, life.claim, reason="tired"))
    assert life.text.index("What about Monday?") < life.text.index("## Completion")
    life.text += "\n# My heading\n\n- my list\n"
    life.claimed().noted("three")
    assert life.text.index("- my list\n") < life.text.index("**Token**: 8")
    assert [len(notes) for notes in life.read().notes.values()] == [2, 1]


def test_a_file_that_came_back_with_windows_line_ends_goes_on() -> None:
    life = Life(body="text\n").claimed().noted("one\ntwo")
    life.text = life.text.replace("\n", "\r\n")
    assert life.read().notes == {7: (Note(at=NOON + 3000, note="one\ntwo"),)}
    assert life.read().content["body"] == "text\r\n"
    life.noted("three\r\nfour\r").submitted("a\r\nb\n").write(
        reviewing.send_back(life.later(), life.state, actor="pat", comment="no")
    )
    task = life.read()
    assert task.runs == (life.state.run,)
    assert [note.note for note in task.notes[7]] == ["one\ntwo", "three\r\nfour\r"]
    assert [review.comment for review in task.reviews] == ["no"]


def test_a_run_that_ended_and_one_that_began_are_written_at_once() -> None:
    life = Life().claimed()
    life.now += 100_000
    ended = ending.expire(life.now, life.state, DEFAULTS)
    again = claiming.grant(life.now, ended.after(life.state), ANN, 60)
    life.write(ended, again, next_state="In_Progress/ann")
    assert "**Result**: failure\n**Next State**: Needs_Action\n" in life.text
    assert [run.outcome for run in life.read().runs] == ["expired", None]


def test_an_anchor_that_would_be_lost_is_not_touched() -> None:
    life = Life("---\nproject: &p one\nother: *p\n---\n")
    step = items.edit(life.later(), life.state, {"project": "two"}, actor="pat")
    assert step is not None
    with pytest.raises(Unreadable):
        life.write(step)


def test_nothing_new_changes_nothing() -> None:
    life = Life(body="b").claimed().noted("n").submitted("d")
    before = life.text
    life.write()
    assert life.text == before


def test_a_new_file_of_an_old_item_tells_what_it_is() -> None:
    life = Life(body="b").claimed()
    text = task_text.write(None, "x.md", life.state.item, life.state.claim, [], "In_Progress/ann")
    task = task_text.read(text, "x.md")
    assert task.facts is not None
    assert (task.facts.claim, task.content) == (life.claim, life.read().content)


def test_front_matter_at_the_very_end_gets_its_line_end() -> None:
    life = Life("---\npriority: 1\n---").claimed()
    assert life.read().content["priority"] == 1
    assert life.run() == life.state.run
    assert edited("---\npriority: 1\n---", body="more") == "more"


@pytest.mark.parametrize(
    "note", ["", "\n", "a\n<!-- meta: {} -->", 'a\n<!-- meta: {"b": 1} -->', "a\n  b\n", "- x\n# y"]
)
@pytest.mark.parametrize("meta", [{}, {"arrow": "-->"}])
def test_any_note_comes_back(note: str, meta: dict[str, Any]) -> None:
    life = Life().claimed().noted(note, meta).noted("next")
    assert [(one.note, one.meta) for one in life.read().notes[7]] == [(note, meta), ("next", {})]


def test_what_goes_with_a_note_is_a_comment_that_ends_once() -> None:
    life = Life().claimed().noted("n", {"arrow": "-->"})
    assert life.text[life.text.index("<!-- meta") :].count("-->") == 1


@pytest.mark.parametrize("reason", ["", " ", " a", "a ", '"', '"a"', "a\nb", "a\r", "null", "{}", "é\u2028b"])
def test_any_reason_and_comment_comes_back(reason: str) -> None:
    life = Life().claimed()
    life.write(ending.release(life.later(), life.state, life.claim, reason=reason))
    assert life.run().reason == reason
    life = Life().claimed().submitted("d")
    life.write(reviewing.send_back(life.later(), life.state, actor="pat", comment=reason))
    assert [review.comment for review in life.read().reviews] == [reason]


def test_of_two_blocks_with_one_token_the_first_counts() -> None:
    life = Life().claimed().done(note="first")
    block = life.text[life.text.index("# Claimed Task") :]
    life.text += "\n" + block.replace("first", "second")
    assert life.run().reason == "first"
