"""Which item a file is of: the one that it names, or was known as, or has been all along under another name.

A person names a file anew or duplicates it, and its text goes along, with what dibs wrote there. One that an item lost
from its place is that item's wherever it turns up. A second one is another item, whatever it says of claims and tokens.
"""

from __future__ import annotations

from dibs import check
from dibs.store.vault import layout
from dibs.store.vault.file_index import UNSEEN
from dibs.store.vault.taskfile import task_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.store.vault.disk import Stamp
    from dibs.store.vault.file_index import Entry
    from dibs.store.vault.taskfile.task_text import Task


def found_again(seen: Mapping[str, Stamp], known: Mapping[str, Entry]) -> dict[str, str]:
    """The items of which the very file, untouched, is gone from its place and found at another: by that path."""
    lost = {
        entry.stamp.text: entry.item
        for entry in known.values()
        if entry.item is not None and entry.path not in seen and entry.stamp != UNSEEN
    }
    if not lost:
        return {}
    found = ((path, lost.get(stamp.text)) for path, stamp in seen.items() if path not in known)
    return {path: item for path, item in found if item is not None}


def said_by_dibs(task: Task) -> str | None:
    """The item that this file was when dibs last wrote it, if it is another one by its name."""
    if task.facts is None or task.says_id or task.facts.id == task.id:
        return None
    return task.facts.id


def is_told_by_its_name_only(task: Task) -> bool:
    return task.facts is None and not task.says_id


def as_item(task: Task, item: str) -> Task:
    """The same file, of another item than its name says."""
    facts = task.facts
    if facts is not None and facts.claim is not None:
        facts = facts.replace(claim=facts.claim.replace(item=item))
    return task.replace(id=item, facts=facts, runs=tuple(run.replace(item=item) for run in task.runs))


def as_copy(task: Task, item: str) -> Task:
    """A duplicate: the text is its own, what befell the other one is not. The tokens that it shows are spent."""
    facts = task.facts
    if facts is not None:
        nothing = {"attempts": 0, "strikes": 0, "failures": 0, "needs_approval": False, "approved": False}
        facts = facts.replace(id=item, approval=None, claim=None, **nothing)
    return task.replace(id=item, facts=facts, runs=())


def own_id(name: str, *, is_free: bool) -> str:
    """An id for a file that cannot have the one it asks for: that of its name, or one made of it."""
    return task_text.id_of(name) if is_free else check.made_id(name.removesuffix(layout.SUFFIX))


def tells_its_item(task: Task) -> bool:
    """Whether whoever reads this file anew, without an index, finds the same item."""
    return task.says_id or task_text.id_of(task.name) == task.id


def name_of(path: str) -> str:
    return layout.split(path)[2]
