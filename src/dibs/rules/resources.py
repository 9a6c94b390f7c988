"""Resources of items, and whether two items conflict.

A resource is a key such as `port:8080`, which overlaps only an equal key, or a path, which covers everything below it:
`src/api` and `src/api/login.py` overlap, `src/api` and `src/apis` do not. A wildcard is cut after its last whole
literal segment. A claim holds all resources of its item; their scope is the project.
"""

from __future__ import annotations

from dibs.errors import Invalid, ResourceBusy
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Item

#: The path of the whole project.
EVERYTHING = "."
WILDCARDS = "*?["
#: The most characters of a resource that a message quotes.
QUOTED_MAX = 60


class Hold(Value):
    """A resource that the claim of an item holds."""

    resource: str
    item: str
    session: str
    agent: str


def normalize(given: str) -> str:
    """The canonical spelling of a resource; a path out of the project is refused."""
    if is_key(given):
        return given
    segments: list[str] = []
    for segment in given.split("/"):
        if any(wildcard in segment for wildcard in WILDCARDS):
            break
        if segment == "..":
            raise Invalid(f"the resource {given!r} leads out of the project", field="resources")
        if segment not in ("", "."):
            segments.append(segment)
    return "/".join(segments) or EVERYTHING


def is_key(resource: str) -> bool:
    return ":" in resource.split("/", 1)[0]


def overlap(one: str, other: str) -> bool:
    """Whether two normalized resources overlap."""
    if one == other:
        return True
    if is_key(one) or is_key(other):
        return False
    if EVERYTHING in (one, other):
        return True
    return one.startswith(other + "/") or other.startswith(one + "/")


def with_more(resources: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """The resources, and those of `more` that they do not cover."""
    return (*resources, *(one for one in more if not any(_covers(have, one) for have in resources)))


def _covers(one: str, other: str) -> bool:
    return overlap(one, other) and (one == EVERYTHING or other == one or other.startswith(one + "/"))


def covering(path: str, resources: Iterable[str]) -> str | None:
    """The resource that covers the path: the file itself, a folder above it, or everything. The path is not a pattern:
    a file may be called `[id].tsx`."""
    return next((one for one in resources if one in (path, EVERYTHING) or path.startswith(one + "/")), None)


def conflict(item: Item, holds: Iterable[Hold], session: str) -> Hold | None:
    """The hold of another session that conflicts with this item; the first by item and resource, so that reads and
    claims name the same one."""
    if not item.resources:
        return None
    conflicting = (
        hold
        for hold in holds
        if hold.session != session
        and hold.item != item.id
        and any(overlap(hold.resource, resource) for resource in item.resources)
    )
    return min(conflicting, key=lambda hold: (hold.item, hold.resource), default=None)


def busy(item: str, hold: Hold) -> ResourceBusy:
    return ResourceBusy(
        f"{item} touches {_quoted(hold.resource)}, which {hold.agent} (session {hold.session}) holds for {hold.item}",
        item=item,
        resource=hold.resource,
        held_for=hold.item,
        holder={"session": hold.session, "agent": hold.agent},
    )


def _quoted(resource: str) -> str:
    """A resource inside of a message: it is the text of others."""
    return repr(resource if len(resource) <= QUOTED_MAX else resource[: QUOTED_MAX - 3] + "...")
