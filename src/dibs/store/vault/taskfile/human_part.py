"""What people write and read: a heading, and the text below it.

Reading and writing are exact: the text below a heading begins after one empty line, if there is one, and everything
from there on is the body, whatever it looks like.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid
from dibs.value import Value

HEADING = "# "


class Human(Value):
    """A human part taken apart: what comes before its heading, the line of the heading, an empty line, the body.

    Without a heading, all of it is body and `title` is None.
    """

    before: str = ""
    heading: str = ""
    gap: str = ""
    body: str
    title: str | None = None

    def render(self) -> str:
        return self.before + self.heading + self.gap + self.body


def take_apart(text: str, *, titled: bool) -> Human:
    """The human part by its heading; with `titled`, its title stands elsewhere, and a heading is part of the body."""
    before = text[: len(text) - len(text.lstrip())]
    start = before.rfind("\n") + 1
    end = text.find("\n", start) + 1 or len(text)
    title = None if titled or not text.startswith(HEADING, start) else _valid(text[start + len(HEADING) : end])
    if title is None:
        return Human(body=text)
    rest = text[end:]
    gap = next((line_end for line_end in ("\n", "\r\n") if rest.startswith(line_end)), "")
    return Human(before=text[:start], heading=text[start:end], gap=gap, body=rest[len(gap) :], title=title)


def with_title(human: Human, title: str) -> Human:
    """The same with another heading; only for what has one."""
    line_end = human.heading[len(human.heading.rstrip("\r\n")) :]
    return human.replace(heading=HEADING + title + line_end, title=title)


def with_body(human: Human, body: str) -> Human:
    if human.title is None or not body:
        return human.replace(body=body)
    heading = human.heading if human.heading.endswith("\n") else human.heading + "\n"
    return human.replace(heading=heading, gap=human.gap or "\n", body=body)


def made(title: str, body: str) -> Human:
    """A human part as dibs writes it."""
    return with_body(Human(before="\n", heading=f"{HEADING}{title}\n", body="", title=title), body)


def _valid(title: str) -> str | None:
    try:
        return check.title(title)
    except Invalid:
        return None
