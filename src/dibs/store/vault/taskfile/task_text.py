"""An item as a markdown file.

`read` never guesses: a wrong field is a finding and counts as absent, and a text that cannot be parsed is Unreadable.
`write` gives the text after some steps. It changes the lines about these steps and no other byte; what `write` wrote
into a new file, `read` returns exactly.
"""

from __future__ import annotations

from dibs import check, randomness
from dibs.errors import Invalid
from dibs.model import Claim, Item, NewItem, Note, Run
from dibs.rules.items import CONTENT
from dibs.store.vault.layout import SUFFIX
from dibs.store.vault.taskfile import facts, front_matter, run_annotations, run_blocks, run_writing
from dibs.store.vault.taskfile.document import Document, HumanPart, new_human, parse_human
from dibs.store.vault.taskfile.facts import Facts
from dibs.store.vault.taskfile.front_matter import FACTS, FrontMatter
from dibs.store.vault.taskfile.parsing import Unreadable
from dibs.store.vault.taskfile.run_annotations import Annotation
from dibs.store.vault.taskfile.run_blocks import HEADING, ForeignClaim, Review
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.rules.decision import Step
    from dibs.store.vault.taskfile.front_matter import Chunk

__all__ = ["Facts", "Review", "Task", "Unreadable", "id_of", "read", "write"]

#: The kinds of which `key: word` is a list of one word, and those of which `key: 2026` is text.
LISTS = ("Names", "ItemIds", "Resources")
TEXTS = ("ItemId", "Name", "NameOrEmpty", "Title", "Subject", "NoteText", "Text", "Instant")
YES_AND_NO = {"yes": True, "on": True, "no": False, "off": False}


class Task(Value):
    """A parsed file. `content` has every field of NewItem but the id; `has_id_line`: the front matter has the id, not
    only the file name; `notes` are by the token of their run; the runs are without their `annotations`; `foreign_claim`
    is another program's claim (`run_blocks.foreign_claim`)."""

    name: str
    id: str
    content: dict[str, Any]
    facts: Facts | None
    runs: tuple[Run, ...]
    findings: tuple[str, ...]
    notes: dict[int, tuple[Note, ...]] = {}
    reviews: tuple[Review, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    has_id_line: bool = False
    foreign_claim: ForeignClaim | None = None

    def sent_back(self, token: int) -> Review | None:
        """The last review of this run's draft, if it sent the draft back."""
        reviews = [review for review in self.reviews if review.token == token]
        return reviews[-1] if reviews and reviews[-1].kind == "sent_back" else None


def read(text: str, name: str, item: str | None = None) -> Task:
    """`item` is the item that the file is known to belong to, unless a line in it names another."""
    return _task(Document(text), name, item)


def write(
    text: str | None,
    name: str,
    item: Item,
    claim: Claim | None,
    steps: Sequence[Step],
    next_state: str,
    approval: dict[str, Any] | None = None,
    whole: bool = False,
    floor: int = 0,
) -> str:
    """The text of the file after `steps`, which led to `item`, `claim` and the folder `next_state`; without a text,
    that of a new file. With `whole`, every field is written. A `floor` stays in the file until the item has a token
    above it."""
    document = Document("" if text is None else text)
    if text is None:
        document.set_human(new_human(item.title, item.body).render())
    _write_content(document, name, item, _changed_fields(steps, new=whole or text is None))
    before = facts.floor(document.front.get(FACTS), item.id)
    payload = facts.payload(item, claim, approval, max(floor, before))
    document.front.set(FACTS, front_matter.json(payload), payload)
    if any(map(run_writing.concerns_run, steps)):
        document.runs = run_writing.write(document.runs, steps, next_state, document.human)
        if document.runs.strip():
            document.ensure_marker()
    if document.front.by_yaml:
        # A replaced value may have had an anchor that another one refers to.
        front_matter.split(document.front.render())
    return document.render()


def restore_draft(text: str, run: Run) -> str | None:
    """The text with this run's submitted draft; None if it shows that one already."""
    document = Document(text)
    if not _shows_another_draft(document, run):
        return None
    document.runs = run_writing.restore_draft(document.runs, run)
    document.ensure_marker()
    if _shows_another_draft(document, run):
        raise Unreadable(f"it does not show the draft of run {run.token}, and what it shows cannot be replaced")
    return document.render()


def annotate(text: str, run: Run, known: Sequence[Annotation], next_state: str) -> str:
    """The text with the known annotations of a run below its block."""
    document = Document(text)
    document.runs = run_writing.annotate(document.runs, run, known, next_state)
    document.ensure_marker()
    return document.render()


def loses_text(text: str, new: str) -> bool:
    """Whether a person's lines in `text` are missing in `new`."""
    return not _contains(Document(new).text_by_people(), Document(text).text_by_people())


def _shows_another_draft(document: Document, run: Run) -> bool:
    shown = (record.run for record in run_blocks.read(document.runs, run.item)[0])
    return run_blocks.shows_another_draft(shown, run)


def rebase(saved: str, current: str, was: str | None) -> str | None:
    """The text that a person saved after reading `was`, with the facts and runs that dibs has written since.

    None if a person's text would be lost. Without `was`, one text must contain all lines of the other.
    """
    theirs, ours = Document(saved), Document(current)
    base = None if was is None else Document(was)
    runs = _merge_runs(theirs.runs, ours.runs, None if base is None else base.runs)
    if runs is None:
        return None
    saved_text, current_text = theirs.text_by_people(), ours.text_by_people()
    if base is None and _contains(current_text, saved_text):
        return current
    if not (_contains(saved_text, current_text) if base is None else base.text_by_people() == current_text):
        return None
    facts = ours.front.get(FACTS)
    if facts is not None:
        theirs.front.set(FACTS, front_matter.json(facts.value), facts.value)
    elif theirs.front.get(FACTS) is not None:
        theirs.front.remove(FACTS)
    theirs.marker, theirs.runs = ours.marker or theirs.marker, runs
    return theirs.render()


def with_facts_of(other: str, text: str, *, claimed: bool) -> str:
    """The text with the facts of another text, with or without its claim."""
    document, facts = Document(text), Document(other).front.get(FACTS)
    if facts is None:
        return text
    payload = {key: value for key, value in facts.value.items() if claimed or key != "claim"}
    document.front.set(FACTS, front_matter.json(payload), payload)
    return document.render()


def _merge_runs(saved: str, current: str, was: str | None) -> str | None:
    """The text below the marker, to which dibs and others may have added; `was` may be incomplete, if it was read in
    the middle of a save."""
    if was is None:
        return current if _contains(_without_status(current), _without_status(saved)) else None
    if saved == was:
        return current
    if current.startswith(was):
        return saved + current[len(was) :]
    if saved.startswith(was):
        return current + saved[len(was) :]
    return None


def _without_status(runs: str) -> str:
    """The status line of a block changes when its run ends; all else is added."""
    return "".join(line for line in runs.splitlines(keepends=True) if not line.startswith("**Status**:"))


def _contains(text: str, other: str) -> bool:
    """Whether a text has all lines of another one, in their order."""
    lines = iter(text.splitlines())
    return all(line in lines for line in other.splitlines() if line.strip())


def id_of(name: str) -> str:
    """The id of an item by its file name: the stem, or an id made of it."""
    stem = _stem(name)
    try:
        return check.item_id(stem)
    except Invalid:
        from hashlib import sha256

        return randomness.id_from_title(stem, sha256(stem.encode(errors="surrogatepass")).hexdigest()[:6])


def _task(document: Document, name: str, known: str | None) -> Task:
    findings: list[str] = []
    content = {key: _value(document.front, key, findings) for key in CONTENT if key not in ("title", "body")}
    title = _value(document.front, "title", findings)
    human = parse_human(document.human, titled=title is not None)
    content["title"] = title or human.title or _stem_title(name)
    try:
        content["body"] = check.text(human.body, "body")
    except Invalid as error:
        raise Unreadable(str(error)) from error
    named = _value(document.front, "id", findings)
    item = named or known or id_of(name)
    records, reviews = run_blocks.read(document.runs, item)
    return Task(
        name=name,
        id=item,
        content={key: content[key] for key in CONTENT},
        facts=facts.read(document.front.get(FACTS), item, findings),
        runs=tuple(record.run for record in records),
        findings=tuple(findings),
        notes={record.run.token: record.notes for record in records if record.notes},
        reviews=reviews,
        annotations=_annotations(document),
        has_id_line=named is not None,
        foreign_claim=_foreign_claim(document),
    )


def _annotations(document: Document) -> tuple[Annotation, ...]:
    if run_annotations.LABEL not in document.runs:
        return ()
    return tuple(annotation for _, annotation in run_annotations.read(document.runs.split("\n")))


def _foreign_claim(document: Document) -> ForeignClaim | None:
    """A program that does not know the marker may have written above it."""
    text = document.runs
    if HEADING not in text:
        if HEADING not in document.human:
            return None
        text = document.human + document.marker + document.runs
    # The quick check: nearly always the last block is one that dibs wrote.
    is_own = "\n**Token**: " in text[text.rfind(HEADING) :]
    return None if is_own else run_blocks.foreign_claim(text.split("\n"))


def _value(front: FrontMatter, key: str, findings: list[str]) -> Any:
    """The value of a field in the front matter; its default if it is absent or wrong."""
    chunk = front.get(key)
    if chunk is None or chunk.value is None:
        return _default(front, key)
    kind = NewItem._kinds[key]
    given = _given(kind, chunk)
    try:
        if kind == "Instant" and isinstance(given, str):
            # Clones of a vault are in many zones, so a time without an offset can only mean UTC.
            given = times.parse_instant(given, key)
        return check.content(given, key)
    except Invalid as error:
        findings.append(f"{key}: {error}")
        return _default(front, key)


def _default(front: FrontMatter, key: str) -> Any:
    """The default action is the type."""
    return _value(front, "type", []) if key == "action" else NewItem.default_of(key)


def _given(kind: str, chunk: Chunk) -> Any:
    value = chunk.value
    if kind == "Instant" and isinstance(value, int):
        return value
    if kind in TEXTS and isinstance(value, bool | int | float):
        return chunk.text
    if kind in LISTS:
        values = value if isinstance(value, list) else [value]
        return [front_matter.json(one) if isinstance(one, bool | int | float) else one for one in values]
    if kind == "Flag" and isinstance(value, str):
        return YES_AND_NO.get(value.lower(), value)
    return value


def _changed_fields(steps: Sequence[Step], *, new: bool) -> set[str]:
    """The fields that these steps changed. A retry changes `not_before` without an edit."""
    if new or any(step.event.kind == "added" for step in steps):
        return {"id", *CONTENT}
    found = {key for step in steps if step.event.kind == "edited" for key in step.event.data if key in CONTENT}
    found -= {"needs_approval"}
    found |= {"not_before"} if any("not_before" in step.event.data for step in steps) else set()
    return found | {"action"} if "type" in found else found


def _write_content(document: Document, name: str, item: Item, changed: set[str]) -> None:
    """Write these fields where they differ from the item's. The id is always written."""
    if not changed.isdisjoint({"title", "body"}):
        _write_human(document, name, item, changed)
    for key in ("id", *CONTENT):
        if key not in {"id", *changed} or key in ("title", "body"):
            continue
        value, shown = getattr(item, key), _value(document.front, key, [])
        if value == shown or (key == "id" and shown is None and value == id_of(name)):
            continue
        if value is None or (key == "action" and value == item.type):
            document.front.remove(key)
        else:
            document.front.set(key, _as_text(key, value))


def _write_human(document: Document, name: str, item: Item, changed: set[str]) -> None:
    """Write title and body, each in its place. If they would not be read back as they are, the title goes to the front
    matter, and all of the part for people is the body."""
    in_front = _value(document.front, "title", [])
    human = parse_human(document.human, titled=in_front is not None)
    shown = in_front or human.title or _stem_title(name)
    title = item.title if "title" in changed else shown
    body = item.body if "body" in changed else human.body
    if shown != title:
        if human.title is not None:
            human = human.with_title(title)
        else:
            document.front.set("title", front_matter.scalar(title))
            in_front = title
    if human.body != body:
        human = human.with_body(body)
    again = parse_human(human.render(), titled=in_front is not None)
    if ((in_front or again.title or _stem_title(name)), again.body) != (title, body):
        document.front.set("title", front_matter.scalar(title))
        human = HumanPart(body=body)
    if human.render() != document.human:
        document.set_human(human.render())


def _as_text(key: str, value: Any) -> str:
    if NewItem._kinds[key] == "Instant":
        return times.iso(value)
    return front_matter.scalar(value) if isinstance(value, str) else front_matter.json(value)


def _stem(name: str) -> str:
    return name.removesuffix(SUFFIX)


def _stem_title(name: str) -> str:
    try:
        return check.title(_stem(name))
    except Invalid:
        return id_of(name)
