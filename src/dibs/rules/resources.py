"""What an item touches, and whether two items touch the same.

A resource is a key, such as `port:8080`, which overlaps only its equal, or a path, which covers what lies below it:
`src/api` and `src/api/login.py` overlap, `src/api` and `src/apis` do not. A wildcard is cut to its last whole literal
segment. A claim holds all resources of its item or is not given; the scope is the project.
"""

from __future__ import annotations

from dibs.errors import Invalid, ResourceBusy
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Item

#: The path that covers every path.
EVERYTHING = "."
WILDCARDS = "*?["


class Hold(Value):
    """A resource in use: by which item, under whose claim."""

    resource: str
    item: str
    session: str
    agent: str


def normal(given: str) -> str:
    """The one spelling of a resource; what leaves the project is refused."""
    if is_key(given):
        return given
    segments: list[str] = []
    for segment in given.split("/"):
        if any(sign in segment for sign in WILDCARDS):
            break
        if segment == "..":
            raise Invalid(f"the resource {given!r} leads out of the project", field="resources")
        if segment not in ("", "."):
            segments.append(segment)
    return "/".join(segments) or EVERYTHING


def is_key(resource: str) -> bool:
    return ":" in resource.split("/", 1)[0]


def overlap(one: str, other: str) -> bool:
    """Whether two resources, in their one spelling, touch."""
    if one == other:
        return True
    if is_key(one) or is_key(other):
        return False
    if EVERYTHING in (one, other):
        return True
    return one.startswith(other + "/") or other.startswith(one + "/")


def conflict(item: Item, holds: Iterable[Hold], session: str) -> Hold | None:
    """The hold of another session, for another item, that stands in the way of this one: of several, the first by item
    and resource, so that a read and a claim name the same."""
    in_the_way = (
        hold
        for hold in holds
        if hold.session != session
        and hold.item != item.id
        and any(overlap(hold.resource, resource) for resource in item.resources)
    )
    return min(in_the_way, key=lambda hold: (hold.item, hold.resource), default=None)


def busy(item: str, hold: Hold) -> ResourceBusy:
    return ResourceBusy(
        f"{item} touches {hold.resource}, which {hold.agent} (session {hold.session}) holds for {hold.item}",
        item=item,
        resource=hold.resource,
        held_for=hold.item,
        holder={"session": hold.session, "agent": hold.agent},
    )
