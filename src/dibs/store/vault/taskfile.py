"""An item as a markdown file: front matter, the human part, and below a marker the blocks of its runs.

`read` takes a text apart and never guesses: what a person wrote wrongly is a finding and counts as not written, and
what cannot be understood is Unreadable. `write` gives the text with what has happened since. It changes the lines that
tell of it and leaves every other byte alone; a file that dibs began comes back from `read` exactly as it was told.
"""

from __future__ import annotations

from dibs import check, when
from dibs.errors import Invalid
from dibs.model import Claim, Item, NewItem, Note, Run
from dibs.rules.items import CONTENT
from dibs.store.vault import facts, frontmatter, humanpart, runblocks, runwriting
from dibs.store.vault.facts import Facts
from dibs.store.vault.folders import SUFFIX
from dibs.store.vault.frontmatter import FACTS, FrontMatter
from dibs.store.vault.runblocks import HEADING, MARKER, Annotation, ForeignClaim, Word
from dibs.store.vault.yamltext import Unreadable
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.rules.decision import Step
    from dibs.store.vault.frontmatter import Chunk

__all__ = ["Facts", "Task", "Unreadable", "Word", "id_of", "read", "write"]

#: A sign that some editors put before everything else.
BYTE_ORDER_MARK = "\ufeff"
LISTS = ("labels", "depends_on", "resources")
TEXTS = ("id", "title", "project", "type", "action", "phase", "not_before")
YES_AND_NO = {"yes": True, "on": True, "no": False, "off": False}
DEFAULTS = {name: NewItem._defaults[name] for name in CONTENT if name != "title"}


class Task(Value):
    """What a file says. `content` has every field of NewItem but its id; `says_id`: that is said by a line, not by the
    file's name; `notes` are those of each run, by its token; `words` are what people said to drafts;
    `annotations` are what was learned of runs that have ended;
    `foreign_claim` is one that another program tells of (`runblocks.foreign_claim`)."""

    name: str
    id: str
    content: dict[str, Any]
    facts: Facts | None
    runs: tuple[Run, ...]
    findings: tuple[str, ...]
    notes: dict[int, tuple[Note, ...]] = {}
    words: tuple[Word, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    says_id: bool = False
    foreign_claim: ForeignClaim | None = None

    def sent_back(self, token: int) -> Word | None:
        """What was last said to the draft of this run, if that was to send it back."""
        said = [word for word in self.words if word.token == token]
        return said[-1] if said and said[-1].kind == "sent_back" else None


def read(text: str, name: str, item: str | None = None) -> Task:
    """`item` is whose file it is known to be, if it does not say so by a line."""
    return _task(_Parts(text), name, item)


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
    """The text of the file after `steps`, which made `item` and `claim` of what it said and led to the folder
    `next_state`; without a text, that of a new file. `whole`: every field is to say what the item says.
    A `floor` is told from then on, until the item has been given a token above it."""
    parts = _Parts("" if text is None else text)
    if text is None:
        parts.rewrite(humanpart.made(item.title, item.body).render())
    _write_content(parts, name, item, _touched(steps, new=whole or text is None))
    before = facts.read(parts.front.get(FACTS), item.id, [])
    told = facts.told(item, claim, approval, max(floor, 0 if before is None else before.floor))
    parts.front.set(FACTS, frontmatter.json(told), told)
    if any(map(runwriting.tells, steps)):
        parts.tail = runwriting.write(parts.tail, steps, next_state, parts.human)
        if parts.tail.strip():
            parts.need_marker()
    if parts.front.by_yaml:
        # An anchor may have stood in what was replaced.
        frontmatter.split(parts.front.render())
    return parts.render()


def redrafted(text: str, run: Run) -> str | None:
    """The text with the draft that counts, which is this run's; None if it shows that one."""
    parts = _Parts(text)
    if not _shows_another_draft(parts, run):
        return None
    parts.tail = runwriting.redraft(parts.tail, run)
    parts.need_marker()
    if _shows_another_draft(parts, run):
        raise Unreadable(f"it does not show the draft of run {run.token}, and what it shows cannot be replaced")
    return parts.render()


def annotated(text: str, run: Run, known: Sequence[Annotation], next_state: str) -> str:
    """The text with what was learned of a run, below its block."""
    parts = _Parts(text)
    parts.tail = runwriting.annotate(parts.tail, run, known, next_state)
    parts.need_marker()
    return parts.render()


def drops_words(text: str, new: str) -> bool:
    """Whether somebody wrote something in the one text that is not in the other."""
    return not _holds(_Parts(new).by_people(), _Parts(text).by_people())


def _shows_another_draft(parts: _Parts, run: Run) -> bool:
    shown = (record.run for record in runblocks.read(parts.tail, run.item)[0])
    return runblocks.shows_another_draft(shown, run)


def rebased(saved: str, current: str, was: str | None) -> str | None:
    """What a person saved who had read `was`, with what dibs has written since: its facts, and the blocks of runs.

    None if somebody's words would be lost by that. Without `was`, the one text has to hold all the lines of the other.
    """
    theirs, ours = _Parts(saved), _Parts(current)
    base = None if was is None else _Parts(was)
    tail = _tail(theirs.tail, ours.tail, None if base is None else base.tail)
    if tail is None:
        return None
    if base is None and _holds(ours.by_people(), theirs.by_people()):
        return current
    if not (_holds(theirs.by_people(), ours.by_people()) if base is None else base.by_people() == ours.by_people()):
        return None
    facts = ours.front.get(FACTS)
    if facts is not None:
        theirs.front.set(FACTS, frontmatter.json(facts.value), facts.value)
    elif theirs.front.get(FACTS) is not None:
        theirs.front.remove(FACTS)
    theirs.marker, theirs.tail = ours.marker or theirs.marker, tail
    return theirs.render()


def with_facts_of(other: str, text: str, *, claimed: bool) -> str:
    """The text with the facts that another one tells; with its claim, or without."""
    parts, facts = _Parts(text), _Parts(other).front.get(FACTS)
    if facts is None:
        return text
    told = {key: value for key, value in facts.value.items() if claimed or key != "claim"}
    parts.front.set(FACTS, frontmatter.json(told), told)
    return parts.render()


def _tail(saved: str, current: str, was: str | None) -> str | None:
    """What stands below the marker: dibs may have added to it, and so may others; `was` may be half of it, if it was
    read in the middle of a save."""
    if was is None:
        return current if _holds(_without_status(current), _without_status(saved)) else None
    if saved == was:
        return current
    if current.startswith(was):
        return saved + current[len(was) :]
    if saved.startswith(was):
        return current + saved[len(was) :]
    return None


def _without_status(tail: str) -> str:
    """A block as it was when its run began and as it is in the end differ by this line, and by what follows."""
    return "".join(line for line in tail.splitlines(keepends=True) if not line.startswith("**Status**:"))


def _holds(text: str, other: str) -> bool:
    """Does the one text have all the lines of the other, in their order?"""
    lines = iter(text.splitlines())
    return all(line in lines for line in other.splitlines() if line.strip())


def id_of(name: str) -> str:
    """The id of a file by its name: its stem, or what comes close to it and is still no other's."""
    stem = _stem(name)
    try:
        return check.item_id(stem)
    except Invalid:
        from hashlib import sha256

        return check.made_id(stem, sha256(stem.encode(errors="surrogatepass")).hexdigest()[:6])


class _Parts:
    """A text in its parts, which put together again are the text."""

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise Unreadable("the text has a NUL character")
        self.prefix = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        text = text[len(self.prefix) :]
        front, rest = frontmatter.split(text)
        line_end = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
        self.front = front or frontmatter.empty(line_end)
        self.human, self.marker, self.tail = _at_marker(rest)

    def need_marker(self) -> None:
        """Have the marker there, on a line of its own."""
        if not self.marker:
            self.marker = f"\n{MARKER}\n"
        if not self.marker.endswith("\n"):
            self.marker += "\n"

    def rewrite(self, human: str) -> None:
        """Another human part. What looks like our marker in it must not be the last one."""
        self.human = human
        if self.marker.startswith(MARKER):
            self.marker = "\n" + self.marker
        if runblocks.has_marker(human):
            self.need_marker()

    def by_people(self) -> str:
        """All but what dibs writes by itself."""
        return "".join(chunk.lines for chunk in self.front.chunks if chunk.key != FACTS) + self.human

    def render(self) -> str:
        front, rest = self.front.render(), self.human + self.marker + self.tail
        gap = "" if not front or front.endswith("\n") or not rest else "\n"
        return self.prefix + front + gap + rest


def _at_marker(text: str) -> tuple[str, str, str]:
    """What stands before the last marker, the marker with the line end before it, and what stands behind it."""
    end = len(text)
    while (start := text.rfind(MARKER, 0, end)) >= 0:
        end = start
        if start and text[start - 1] != "\n":
            continue
        stop = text.find("\n", start) + 1 or len(text)
        if runblocks.is_marker(text[start:stop]):
            windows = text.endswith("\r\n", start, stop) and text.endswith("\r\n", 0, start)
            begin = max(0, start - (2 if windows else 1))
            return text[:begin], text[begin:stop], text[stop:]
    return text, "", ""


def _task(parts: _Parts, name: str, known: str | None) -> Task:
    findings: list[str] = []
    content = {key: _value(parts.front, key, findings) for key in CONTENT if key not in ("title", "body")}
    title = _value(parts.front, "title", findings)
    human = humanpart.take_apart(parts.human, titled=title is not None)
    content["title"] = title or human.title or _stem_title(name)
    try:
        content["body"] = check.text(human.body, "body")
    except Invalid as error:
        raise Unreadable(str(error)) from error
    said = _value(parts.front, "id", findings)
    item = said or known or id_of(name)
    records, words = runblocks.read(parts.tail, item)
    return Task(
        name=name,
        id=item,
        content={key: content[key] for key in CONTENT},
        facts=facts.read(parts.front.get(FACTS), item, findings),
        runs=tuple(record.run for record in records),
        findings=tuple(findings),
        notes={record.run.token: record.notes for record in records if record.notes},
        words=words,
        annotations=_annotations(parts.tail),
        says_id=said is not None,
        foreign_claim=_foreign_claim(parts),
    )


def _annotations(tail: str) -> tuple[Annotation, ...]:
    if runblocks.ANNOTATED not in tail:
        return ()
    return tuple(one for _, one in runblocks.annotation_lines(tail.split("\n")))


def _foreign_claim(parts: _Parts) -> ForeignClaim | None:
    """A program that knows nothing of the marker may have written before there was one."""
    text = parts.tail
    if HEADING not in text:
        if HEADING not in parts.human:
            return None
        text = parts.human + parts.marker + parts.tail
    # A file is read at every claim, and nearly always the last block is one of ours.
    is_ours = "\n**Token**: " in text[text.rfind(HEADING) :]
    return None if is_ours else runblocks.foreign_claim(text.split("\n"))


def _value(front: FrontMatter, key: str, findings: list[str]) -> Any:
    """What the front matter says of one field: its default where nothing is said, or nothing that is right."""
    chunk = front.get(key)
    if chunk is None or chunk.value is None:
        return _default(front, key)
    given = _given(key, chunk)
    try:
        if key == "id":
            return check.item_id(given)
        if key == "needs_approval":
            return check.flag(given, key)
        return check.edits({key: given})[key]
    except Invalid as error:
        findings.append(f"{key}: {error}")
        return _default(front, key)


def _default(front: FrontMatter, key: str) -> Any:
    """An action that nobody names is the type."""
    return _value(front, "type", []) if key == "action" else DEFAULTS.get(key)


def _given(key: str, chunk: Chunk) -> Any:
    """The value as it was meant: `title: 2026` is text where text belongs, one word a list where a list belongs."""
    value = chunk.value
    if key == "not_before" and isinstance(value, int):
        return value
    if key in TEXTS and isinstance(value, bool | int | float):
        return chunk.text
    if key in LISTS:
        values = value if isinstance(value, list) else [value]
        return [frontmatter.json(one) if isinstance(one, bool | int | float) else one for one in values]
    if key == "needs_approval" and isinstance(value, str):
        return YES_AND_NO.get(value.lower(), value)
    return value


def _touched(steps: Sequence[Step], *, new: bool) -> set[str]:
    """The fields that these steps have changed. A retry moves `not_before` without being an edit."""
    if new or any(step.event.kind == "added" for step in steps):
        return {"id", *CONTENT}
    found = {key for step in steps if step.event.kind == "edited" for key in step.event.data if key in CONTENT}
    found -= {"needs_approval"}
    found |= {"not_before"} if any("not_before" in step.event.data for step in steps) else set()
    return found | {"action"} if "type" in found else found


def _write_content(parts: _Parts, name: str, item: Item, touched: set[str]) -> None:
    """Bring what the file says of these fields to what the item says, where that differs. Its id it always says."""
    if not touched.isdisjoint({"title", "body"}):
        _write_human(parts, name, item, touched)
    for key in ("id", *CONTENT):
        if key not in {"id", *touched} or key in ("title", "body"):
            continue
        value, said = getattr(item, key), _value(parts.front, key, [])
        if value == said or (key == "id" and said is None and value == id_of(name)):
            continue
        if value is None or (key == "action" and value == item.type):
            parts.front.remove(key)
        else:
            parts.front.set(key, _written(key, value))


def _write_human(parts: _Parts, name: str, item: Item, touched: set[str]) -> None:
    """Title and body, each where it stands. Where that would not be read as it was meant, the title goes to the front
    matter, and then all of the human part is the body."""
    said = _value(parts.front, "title", [])
    human = humanpart.take_apart(parts.human, titled=said is not None)
    title = item.title if "title" in touched else said or human.title or _stem_title(name)
    body = item.body if "body" in touched else human.body
    if (said or human.title or _stem_title(name)) != title:
        if human.title is not None:
            human = humanpart.with_title(human, title)
        else:
            parts.front.set("title", frontmatter.scalar(title))
            said = title
    if human.body != body:
        human = humanpart.with_body(human, body)
    again = humanpart.take_apart(human.render(), titled=said is not None)
    if ((said or again.title or _stem_title(name)), again.body) != (title, body):
        parts.front.set("title", frontmatter.scalar(title))
        human = humanpart.Human(body=body)
    if human.render() != parts.human:
        parts.rewrite(human.render())


def _written(key: str, value: Any) -> str:
    if key == "not_before":
        return when.iso(value)
    return frontmatter.scalar(value) if isinstance(value, str) else frontmatter.json(value)


def _stem(name: str) -> str:
    return name.removesuffix(SUFFIX)


def _stem_title(name: str) -> str:
    try:
        return check.title(_stem(name))
    except Invalid:
        return id_of(name)
