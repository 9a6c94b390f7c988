"""The state folder of an agent's session: small files that hooks, commands and the keeper share.

`${XDG_STATE_HOME:-~/.local/state}/dibs/agents/SESSION/`, readable by its user only. A shell reads it in a millisecond:

    session.json   what the session is: agent, client, folder, parent, owner process
    until          one line: the second until which nothing else needs to be looked up; the keeper moves it on
    active         exists from a prompt or a tool call to the end of the turn; without it claims are not renewed
    lost-ITEM      a claim that was taken from the session, as JSON; exists until the agent or a person has answered
    answered       lines `ITEM TOKEN`: losses that were answered, and are not reported again
    asked          lines `ITEM TOKEN`: claims that the agent was asked about when it wanted to stop
    child-SESSION  a subagent's session, which has a folder of its own
    ended-SESSION  a subagent's session that the keeper has yet to end
    call-ID        what a call of a task tool is about, until it has run
    assigned       lines `ITEM TOKEN`: claims that were made for a teammate, which may take them over
    offered-SESSION  lines `ITEM TOKEN`: items that a teammate was offered
    end            why the session is to end; the keeper ends it
    meta.json      what the client tells about itself, for the board
    view.json      what the keeper last saw, for boards that hooks do not open themselves
    keeper         locked by the keeper while it runs

Each file is written as a whole under another name and renamed, so that no reader sees half of it and no lock is needed.
The folder is removed file by file, when its agent's process has ended.
"""

from __future__ import annotations

import os
import time
from errno import ENOTEMPTY

from dibs.config import agents_folder
from dibs.model import Owner
from dibs.system import owner as owners
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SESSION, UNTIL, ACTIVE, ANSWERED, ASKED, END = "session.json", "until", "active", "answered", "asked", "end"
META, VIEW, KEEPER = "meta.json", "view.json", "keeper"
LOST, CHILD, ENDED = "lost-", "child-", "ended-"
#: The most that is read of a file.
BYTES_MAX = 1 << 20
#: A folder without an owner process, whose death could be proved, is removed when it was not used for so long.
UNOWNED_SECONDS = 7 * 86400.0
#: How often a removal starts again, because the keeper or a hook wrote a file meanwhile.
REMOVALS_MAX = 10
#: How many folders one start of a session looks at.
FOLDERS_MAX = 1000


class Record(Value):
    """What a session is. `folder` is where it started: the agent may change its folder, and keeps its board."""

    session: str
    agent: str
    client: str
    folder: str
    parent: str | None = None
    owner: Owner | None = None


class Loss(Value):
    """A claim that was taken from the session: how, by whom, and when (milliseconds of the board's clock)."""

    item: str
    token: int
    how: str
    by: str
    since: int
    resources: tuple[str, ...] = ()


class State:
    """The folder of one session. The session id was checked: it can name a folder."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.path = os.path.join(agents_folder(), session)

    # What the session is

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self, record: Record) -> None:
        os.makedirs(agents_folder(), mode=0o700, exist_ok=True)
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        self.save(record)

    def save(self, record: Record) -> None:
        self.write(SESSION, json_text.dumps(_plain(record)))

    def record(self) -> Record | None:
        """None if there is no such session, or its file cannot be read."""
        found = self.load(SESSION)
        try:
            owner = found.pop("owner", None)
            return Record(owner=owner and Owner(**owner), **found)
        except TypeError:
            return None

    def remove(self) -> None:
        """Remove the folder and the files that dibs put there; anything else keeps it."""
        for _ in range(REMOVALS_MAX):
            try:
                for name in os.listdir(self.path):
                    self.discard(name)
                return os.rmdir(self.path)
            except OSError as error:
                if error.errno != ENOTEMPTY:
                    return None
        return None

    # Files

    def has(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.path, name))

    def read(self, name: str) -> str:
        """Empty if the file is missing or cannot be read."""
        try:
            with open(os.path.join(self.path, name), encoding="utf-8", errors="replace") as file:
                return file.read(BYTES_MAX)
        except OSError:
            return ""

    def load(self, name: str) -> dict[str, Any]:
        try:
            found = json_text.loads(self.read(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, text: str) -> None:
        """Best effort once the folder exists: it may just have been removed, or the disk be full."""
        half = os.path.join(self.path, f".{name[:100]}.{os.getpid()}")
        try:
            with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(text)
            os.replace(half, os.path.join(self.path, name))
        except OSError:
            pass

    def touch(self, name: str) -> None:
        if not self.has(name):
            self.write(name, "")

    def discard(self, name: str) -> None:
        try:
            os.unlink(os.path.join(self.path, name))
        except OSError:
            pass

    def names(self, prefix: str) -> list[str]:
        """The rest of the names of the files that begin so."""
        try:
            return sorted(name.removeprefix(prefix) for name in os.listdir(self.path) if name.startswith(prefix))
        except OSError:
            return []

    def tell(self, meta: dict[str, Any]) -> None:
        """Keep what the client tells about the session, for the next heartbeat."""
        known = self.load(META)
        if meta.items() - known.items():
            self.write(META, json_text.dumps(known | meta))

    # Until when the keeper vouches for the state

    def vouch(self, seconds: float) -> None:
        self.write(UNTIL, f"{int(time.time() + seconds)}\n")

    def is_fresh(self) -> bool:
        until = self.read(UNTIL).strip()
        return until.isdigit() and len(until) < 16 and int(until) > time.time()

    # Losses

    def losses(self) -> list[Loss]:
        found = []
        for item in self.names(LOST):
            try:
                fields = self.load(LOST + item)
                found.append(Loss(**{**fields, "resources": tuple(fields.get("resources", ()))}))
            except TypeError:
                self.discard(LOST + item)  # damaged: what it said is unknown, and an unreadable state allows
        return found

    def lose(self, loss: Loss) -> None:
        self.write(LOST + loss.item, json_text.dumps(_plain(loss)))

    def lost_token(self, item: str) -> int | None:
        """The token of the claim that the session has lost, or its parent, for which a subagent works."""
        record = self.record()
        default = State(record.parent).lost_token(item) if record is not None and record.parent else None
        return next((loss.token for loss in self.losses() if loss.item == item), default)

    def answer(self, losses: Iterable[Loss]) -> None:
        """The losses are known to the agent or to a person."""
        for loss in losses:
            self.note(ANSWERED, loss.item, loss.token)
            self.discard(LOST + loss.item)

    def note(self, name: str, item: str, token: int) -> None:
        """Append a claim to a file of claims. A short line is written at once, so that writers do not mix."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            file = os.open(os.path.join(self.path, name), flags, 0o600)
        except OSError:
            return
        try:
            os.write(file, f"{item} {token}\n".encode())
        except OSError:
            pass
        finally:
            os.close(file)

    def noted(self, name: str) -> set[tuple[str, int]]:
        words = (line.split(" ") for line in self.read(name).splitlines())
        return {(pair[0], int(pair[1])) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def answered(session: str, item: str) -> None:
    """A verb that names this item has answered the session: it knows about its loss. So does its parent, for which a
    subagent works."""
    state = State(session)
    record = state.record()
    for one in (state, *(State(name) for name in (record and record.parent,) if name)):
        one.answer(loss for loss in one.losses() if loss.item == item)


def remove_dead() -> None:
    """Remove the folders of sessions whose agents are dead, and whose keepers were killed with them."""
    try:
        names = os.listdir(agents_folder())[:FOLDERS_MAX]
    except OSError:
        return
    for name in names:
        state = State(name)
        record = state.record()
        if record is None or record.owner is None:
            if _age_seconds(state.path) > UNOWNED_SECONDS:
                state.remove()
        elif owners.find_dead([(name, record.owner)]) or not _is_this_boot(record.owner):
            state.remove()


def _is_this_boot(owner: Owner) -> bool:
    here = owners.namespace()
    return here is None or here[0] == owner.boot_id


def _age_seconds(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _plain(value: Value) -> dict[str, Any]:
    fields = value.as_dict()
    return {name: one.as_dict() if isinstance(one, Value) else one for name, one in fields.items()}
