"""Whatever is written into a file comes back, and whatever people wrote there stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dibs import check
from dibs.config import DEFAULTS
from dibs.errors import DibsError
from dibs.model import Claim, Item, NewItem, Note, Run, Session
from dibs.rules import claiming, ending, fencing, items, reviewing
from dibs.rules.decision import State, Step
from dibs.store.vault.layout import FOLDERS
from dibs.store.vault.taskfile import run_writing, task_text
from dibs.store.vault.taskfile.run_blocks import MARKER
from dibs.testing.sizes import times

#: Pieces of which texts are made that look like ours, or end lines in every way.
PIECES = (
    *("---", "\n", "\r\n", "\r", "\n\n", " ", "  ", "\t", "\x85", "\u2028", "\ufeff", "é", "😀", "a", "word", "0"),
    *("# ", "# Title", "## Progress", "## Draft", "## Completion", "# Claimed Task: x", "```", "````", "~~~", "`"),
    *(MARKER, f"\n{MARKER}\n", f"\n{MARKER}", f"{MARKER}\r\n", "\n---\n", "\n# Claimed Task: x\n", "\n```\n"),
    *("**Token**: 9", "- 2026-01-01T00:00:00.000Z: x", "\n  <!-- meta: {} -->", '"', "'", "\\", ": ", " #", "null"),
    *("title: x\n", "dibs: {}\n", "- a\n", "<!-- Agent adds progress notes here -->", "<!-- meta: {} -->"),
)
chars = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.lists(st.sampled_from(PIECES) | st.text(chars, max_size=5), max_size=8).map("".join)
lines = texts.map(lambda text: text.replace("\n", " ").replace("\r", " ").strip() or "t")
#: A heading's worth of text that a check lets through as a title.
titles = lines.map(lambda text: text[: check.TITLE_LENGTH_MAX].strip() or "t").map(check.title)
words = st.sampled_from(
    ("a", "b-1", "null", "true", "yes", "12", "1e3", "2026-01-01", "a:b", "x#y", "0x1f", "a/b", "no")
)
ids = words.filter(lambda word: not set(word) & set(":#/"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, plain, max_size=3)
resources = texts.filter(lambda text: text.strip() != "" and text.strip().isprintable())
contents = st.fixed_dictionaries(
    {"title": titles},
    optional={
        "body": texts,
        "project": words,
        "type": words,
        "action": words | st.just(""),
        "phase": st.none() | words,
        "payload": objects,
        "labels": st.lists(words, max_size=3),
        "priority": st.integers(-1_000_000, 1_000_000),
        "depends_on": st.lists(ids, max_size=3),
        "resources": st.lists(resources, max_size=3),
        "not_before": st.none() | st.integers(0, 10**14),
        "timeout_seconds": st.floats(1, 1e6) | st.integers(1, 1_000_000),
        "retries": st.integers(0, 1000),
        "needs_approval": st.booleans(),
    },
)
names = st.sampled_from(("x.md", "A b.md", "é.md", "null.md", "2026.md", " .md", "-.md", "x" * 200 + ".md"))

ANN = Session(id="s-ann", agent="ann")
BOB = Session(id="host/2:b", agent="bob")


def new_item(content: dict[str, Any], item: str = "x") -> NewItem:
    return check.new_item({"id": item, **content})


def content_of(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in items.CONTENT}


@given(contents, ids, names)
@example({"title": "t", "body": MARKER}, "x", "x.md")
@example({"title": "t", "body": "\r"}, "x", "x.md")
@settings(max_examples=times(120), deadline=None)
def test_any_item_comes_back_from_its_file(content: dict[str, Any], item: str, name: str) -> None:
    step = items.add(1_000_000, new_item(content, item), actor="pat é\n", token_floor=3)
    text = task_text.write(None, name, step.item, None, [step], FOLDERS[step.item.status])
    task = task_text.read(text, name)
    assert task.findings == ()
    assert (task.id, task.content) == (item, content_of(step.item))
    assert task.facts is not None
    assert (task.facts.token, task.facts.created_by, task.facts.created_at) == (3, "pat é\n", 1_000_000)
    assert task_text.write(text, name, step.item, None, [], "") == text
    assert task_text.write(text, name, step.item, None, [step], "") == text


@given(contents, contents, names)
@settings(max_examples=times(120), deadline=None)
def test_any_edit_comes_back_from_its_file(before: dict[str, Any], after: dict[str, Any], name: str) -> None:
    step = items.add(1_000_000, new_item(before), actor="pat", token_floor=0)
    text = task_text.write(None, name, step.item, None, [step], "Needs_Action")
    changes = {field: getattr(new_item(after), field) for field in after if field != "needs_approval"}
    edit = items.edit(2_000_000, State(item=step.item), changes, actor="pat")
    if edit is None:
        return
    text = task_text.write(text, name, edit.item, None, [edit], "Needs_Action")
    assert task_text.read(text, name).content == content_of(edit.item)


#: Front matter as people write it, in which nothing is ours; each line with what it is to be followed by.
foreign = st.sampled_from(
    (
        *(
            "tags: [a, b]",
            "tags:\n  - a\n  - b",
            "tags:\n- a # why\n- b",
            "status: open",
            "# remark",
            "date: 2026-01-01",
        ),
        *(
            "aliases: ['x: y', \"z\"]",
            "text: |\n  # no remark\n\n  more",
            "text: >-\n  a\n  b\n",
            "odd key: 1",
            "'q': x",
        ),
        *(
            "nested:\n  dibs: {a: 1}\n  title: no",
            "when: 10:30",
            "x: &a word\ny: *a",
            "empty:",
            "",
            "é: ü # ö",
            "k: 'a\n\n  b'",
        ),
    )
)


def foreign_keys(chosen: list[str]) -> list[str]:
    """Each key once: twice would be refused."""
    seen: dict[str, str] = {}
    for one in chosen:
        seen.setdefault(one.partition(":")[0], one)
    return list(seen.values())


fronts = st.lists(foreign, max_size=4).map(foreign_keys)


@given(fronts, texts, st.booleans(), contents, st.booleans())
@settings(max_examples=times(120), deadline=None)
def test_what_people_wrote_stays_through_a_life(
    front: list[str], human: str, with_front: bool, content: dict[str, Any], windows: bool
) -> None:
    end = "\r\n" if windows else "\n"
    head = end.join(["---", *"\n".join(front).split("\n"), "---", ""]).replace(f"{end}{end}---", f"{end}---")
    if not with_front:
        head, human, front = "", human.lstrip("-\ufeff"), []
    if MARKER in human:
        # Below a marker is the place of runs, which begin before the empty lines there.
        human = human.rstrip("\r\n")
    text = head + human
    task = task_text.read(text, "x.md")
    step = items.add(1_000_000, check.new_item({"id": task.id, **task.content}), actor="pat", token_floor=0)
    state = State(item=step.item.replace(status="ready"))
    text = task_text.write(text, "x.md", step.item, None, [step], "Needs_Action")
    assert text.endswith(human)
    for happens in (grant, note, finish):
        step = happens(state)
        state = step.after(state)
        text = task_text.write(text, "x.md", step.item, step.claim, [step], "Done")
        again = task_text.read(text, "x.md")
        assert again.content == task.content
        assert again.runs == (state.run,)
        assert human in text
        assert all(line in text.replace("\r\n", "\n") for line in front)
    changes = {field: getattr(new_item(content), field) for field in content if field != "needs_approval"}
    edit = items.edit(5_000_000, state.replace(claim=None), changes, actor="pat")
    if edit is None:
        return
    text = task_text.write(text, "x.md", edit.item, None, [edit], "Done")
    assert task_text.read(text, "x.md").content == content_of(edit.item)
    assert task_text.read(text, "x.md").runs == (state.run,)
    if not edit.event.data.keys() & {"title", "body"}:
        assert human in text
    assert all(line in text.replace("\r\n", "\n") for line in front)


def grant(state: State) -> Step:
    return claiming.grant(2_000_000, state, ANN, 60)


def note(state: State) -> Step:
    return fencing.progress(3_000_000, state, held(state), note="on it", meta={})


def finish(state: State) -> Step:
    return ending.done(4_000_000, state, held(state), note="so", links={}, cost={})


def held(state: State) -> Claim:
    assert state.claim is not None
    return state.claim


#: What can happen to an item that somebody may hold, with texts of every kind.
Happening = Callable[[int, State], Step]


def by_holder(rule: Callable[..., Step], **asked: Any) -> Happening:
    return lambda now, state: rule(now, state, held(state), **asked)


happenings: st.SearchStrategy[Happening] = st.one_of(
    st.sampled_from((ANN, BOB)).map(lambda who: lambda now, state: claiming.grant(now, state, who, 60.5)),
    st.builds(lambda note, meta: by_holder(fencing.progress, note=note, meta=meta), texts, st.just({}) | objects),
    st.builds(lambda note, meta: by_holder(fencing.progress, note=note, meta=meta), texts, st.just({}) | objects),
    st.builds(
        lambda reason, park: by_holder(ending.release, reason=reason, park=park), st.none() | texts, st.booleans()
    ),
    st.builds(lambda note, some: by_holder(ending.done, note=note, links=some, cost={}), st.none() | texts, objects),
    st.builds(
        lambda text, some: by_holder(ending.fail, reason=text, links={}, cost=some, settings=DEFAULTS, uniform=0.5),
        st.none() | texts,
        objects,
    ),
    st.builds(
        lambda draft, note, some: by_holder(ending.submit, draft=draft, note=note, links=some, cost=some),
        texts,
        st.none() | texts,
        objects,
    ),
    texts.map(lambda reason: by_holder(ending.reject, reason=reason)),
    st.just(lambda now, state: ending.expire(now, state, DEFAULTS)),
    st.just(by_holder(ending.forget)),
    texts.map(lambda why: lambda now, state: ending.force_release(now, state, actor="pat", reason=why, token=None)),
    texts.map(
        lambda said: (
            lambda now, state: reviewing.approve(now, state, state.run, actor="pat", comment=said or None, done=False)
        )
    ),
    texts.map(lambda said: lambda now, state: reviewing.send_back(now, state, actor="pat", comment=said)),
    st.just(lambda now, state: items.retry(now, state, actor="pat", reason=None)),
    st.just(lambda now, state: items.unpark(now, state, actor="pat", reason=None)),
)
#: What a person does to the text: a line at the end, or one between human part and runs.
meddlings = st.sampled_from((None, "behind", "before"))


def written(text: str, name: str, state: State, steps: list[Step]) -> str:
    """As it is written, and as it would be if all blocks were read for that."""
    told = (text, name, state.item, state.claim, steps, FOLDERS[state.item.status])
    made = task_text.write(*told)
    with patch.object(run_writing, "_start", lambda tail, steps: 0):
        assert made == task_text.write(*told)
    return made


@given(st.lists(st.tuples(happenings, meddlings, st.booleans()), max_size=12), st.integers(0, 3), texts)
@settings(max_examples=times(120), deadline=None)
def test_every_history_of_runs_is_read_back(
    told: list[tuple[Happening, str | None, bool]], retries: int, body: str
) -> None:
    now, name = 1_000_000, "x.md"
    first = items.add(now, NewItem(id="x", title="t", body=body, retries=retries), actor="pat", token_floor=0)
    state, text = State(item=first.item), task_text.write(None, name, first.item, None, [first], "Needs_Action")
    runs: dict[int, Run] = {}
    notes: dict[int, tuple[Note, ...]] = {}
    waiting: list[Step] = []
    words: list[str] = []
    for number, (happens, meddling, later) in enumerate(told):
        # What nobody holds is taken first, if it can be: most of what can happen happens to what is held.
        for one in (lambda now, state: claiming.grant(now, state, BOB, 60), happens):
            now += 1000
            try:
                step = one(now, state)
            except (DibsError, AssertionError):
                continue
            state = step.after(state)
            waiting.append(step)
            if step.run is not None:
                runs[step.run.token] = step.run
            if step.event.kind == "progress":
                line = Note(at=now, note=step.event.data["note"], meta=step.event.data["meta"])
                notes[step.item.token] = (*notes.get(step.item.token, ()), line)
        if later:
            continue
        text = written(text, name, state, waiting)
        waiting = []
        if meddling == "behind":
            words.append(f"somebody said {number}")
            text += f"\n{words[-1]}\n"
        elif meddling == "before" and not body:
            words.append(f"somebody added {number}")
            text = text.replace("# t\n", f"# t\n{words[-1]}\n", 1)
    text = written(text, name, state, waiting)
    task = task_text.read(text, name)
    assert task.runs == tuple(runs.values())
    assert task.notes == notes
    assert task.facts is not None
    assert task.facts.claim == (
        None if state.claim is None else state.claim.replace(renewed_at=state.claim.claimed_at, heartbeat_count=0)
    )
    assert (task.facts.token, task.facts.attempts) == (state.item.token, state.item.attempts)
    assert all(word in text for word in words)
    assert task.findings == ()


@given(texts)
@settings(max_examples=times(120), deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    for given_text in (text, f"---\n{text}\n---\n", f"{MARKER}\n# Claimed Task: x\n{text}"):
        try:
            task = task_text.read(given_text, "x.md")
        except task_text.Unreadable:
            continue
        step = items.add(1, check.new_item({"id": task.id, **task.content}), actor="p", token_floor=0)
        assert (
            task_text.read(task_text.write(given_text, "x.md", step.item, None, [step], ""), "x.md").content
            == task.content
        )
