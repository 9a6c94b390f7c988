"""The state folder of an agent's session: small files that hooks, commands and the keeper share.

`${XDG_STATE_HOME:-~/.local/state}/dibs/agents/SESSION/`, readable by its user only. A shell reads it in a millisecond:

    session.json   what the session is: agent, client, folder, parent, owner process, host
    until          one line: the second until which nothing else needs to be looked up; the keeper moves it on
    active         exists from a prompt or a tool call to the end of the turn; without it claims are not renewed; its
                   time is that of the last hook
    lost-ITEM      a claim that was taken from the session, as JSON; exists until the agent or a person has answered
    answered       lines `ITEM TOKEN`: losses that were answered, and are not reported again
    asked          lines `ITEM TOKEN`: claims that the agent was asked about when it wanted to stop
    child-SESSION  a subagent's session, which has a folder of its own
    ended-SESSION  a subagent's session that the keeper has yet to end
    call-ID        what a call of a task tool is about, until it has run
    assigned       lines `ITEM TOKEN`: claims that were made for a teammate, which may take them over
    offered-SESSION  lines `ITEM TOKEN`: items that a teammate was offered
    poke           a hook waits for the keeper's next look
    begin          the keeper has yet to start the session on the board
    end            why the session is to end; the keeper ends it
    meta.json      what the client tells about itself, for the board
    view.json      what the keeper last saw, for boards that hooks do not open themselves
    keeper         locked by the keeper while it runs
    waker          locked by the process that waits to wake the agent
    woken          lines `ITEM TOKEN`: losses and offers for which the agent was woken

Each file is written as a whole under another name and renamed, so that no reader sees half of it and no lock is needed.
The folder is removed file by file, when its agent's process has ended.

`dibs/answers/SESSION` has the lines of `answered` that a command in a sandbox noted. A sandbox may let commands write
there, and not where the fence itself keeps its state.
"""

from __future__ import annotations

import os
import stat
import time
from errno import ENOTEMPTY

from dibs.config import agents_folder
from dibs.errors import StoreUnusable
from dibs.model import Owner
from dibs.system import owner as owners
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SESSION, UNTIL, ACTIVE, ANSWERED, ASKED, END = "session.json", "until", "active", "answered", "asked", "end"
META, VIEW, KEEPER, POKE, ASSIGNED, BEGIN = "meta.json", "view.json", "keeper", "poke", "assigned", "begin"
WAKER, WOKEN = "waker", "woken"
LOST, CHILD, ENDED, CALL, OFFERED = "lost-", "child-", "ended-", "call-", "offered-"
#: How long the state of a session is taken to be right after a look. A claim that expires earlier ends it earlier.
#: `dibs-hook.sh` has the same number.
FRESH_SECONDS = 90.0
#: The most that is read of a file.
BYTES_MAX = 1 << 20
#: A folder whose agent cannot be proved dead, or alive, is removed when it was not used for so long.
UNOWNED_SECONDS = 7 * 86400.0
#: How often a removal starts again, because the keeper or a hook wrote a file meanwhile.
REMOVALS_MAX = 10
#: How many folders one start of a session looks at.
FOLDERS_MAX = 1000
#: A pipe that somebody put in the place of a file must not block a hook, nor a link lead elsewhere.
_SAFELY = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Record(Value):
    """What a session is.

    `folder` is where it started: the agent may change its folder, and keeps its board. `owner` is the process that
    started or resumed it last; `earlier` are others in which it was opened before, and may still be open, latest first.
    `host` is the machine of these, `transcript` the file in which the client records the session. `outer` are the
    sessions that the agent's own environment names: those of agents inside which it runs.
    """

    session: str
    agent: str
    client: str
    folder: str
    parent: str | None = None
    owner: Owner | None = None
    host: str = ""
    transcript: str = ""
    outer: tuple[str, ...] = ()
    earlier: tuple[Owner, ...] = ()

    @property
    def owners(self) -> tuple[Owner, ...]:
        return () if self.owner is None else (self.owner, *self.earlier)


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
        self.answers = os.path.join(answers_folder(), session)

    # What the session is

    def exists(self) -> bool:
        return os.path.isdir(self.path)

    def make(self, record: Record) -> None:
        os.makedirs(agents_folder(), mode=0o700, exist_ok=True)
        if not is_private(agents_folder()):
            raise StoreUnusable(f"{agents_folder()} is another user's, or others may write it; move it away")
        is_new = not self.exists()
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        if not self.save(record):
            if is_new:
                self.remove()
            raise StoreUnusable(f"{self.path} cannot be written")

    def save(self, record: Record) -> bool:
        return self.write(SESSION, json_text.dumps(_plain(record)))

    def record(self) -> Record | None:
        """None if there is no such session, its file cannot be read, or others could have written it."""
        found = self.load(SESSION) if is_private(agents_folder()) else {}
        try:
            owner = found.pop("owner", None)
            outer = tuple(found.pop("outer", ()))
            earlier = tuple(map(Owner.of_known, found.pop("earlier", ())))
            known = {"owner": owner and Owner.of_known(owner), "outer": outer, "earlier": earlier}
            return Record.of_known({**found, **known})
        except (TypeError, AttributeError):
            return None

    def remove(self) -> None:
        """Remove the folder and the files that dibs put there; anything else keeps it."""
        _unlink(self.answers)
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
        return _read(os.path.join(self.path, name))

    def load(self, name: str) -> dict[str, Any]:
        try:
            found = json_text.loads(self.read(name) or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, text: str) -> bool:
        """Whether it was written. Best effort once the folder exists: it may just have been removed, or the disk be
        full."""
        from dibs.system import durable

        try:
            # Not synced: every hook would wait for the disk, and a power cut ends the session, too.
            durable.replace(os.path.join(self.path, name), text.encode(), is_synced=False)
        except OSError:
            return False
        return True

    def touch(self, name: str) -> None:
        """Make an empty file, or set the time of the one that is there to now."""
        try:
            os.utime(os.path.join(self.path, name), follow_symlinks=False)
        except OSError:
            self.write(name, "")

    def discard(self, name: str) -> None:
        _unlink(os.path.join(self.path, name))

    def age_seconds(self, name: str) -> float | None:
        """How long ago the file was written or touched; None if there is none."""
        return _age_seconds(os.path.join(self.path, name))

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
        """Nobody vouches for longer than a look lasts: with more time left, the clock was set back."""
        until = self.read(UNTIL).strip()
        return _is_number(until) and 0 < int(until) - time.time() <= FRESH_SECONDS

    # Losses

    def losses(self) -> list[Loss]:
        found = []
        for item in self.names(LOST):
            try:
                fields = self.load(LOST + item)
                found.append(Loss.of_known({**fields, "resources": tuple(fields.get("resources", ()))}))
            except TypeError:
                self.discard(LOST + item)  # damaged: what it said is unknown, and an unreadable state allows
        answers = self._answers() if found else set()
        self.answer(loss for loss in found if (loss.item, loss.token) in answers)
        return [loss for loss in found if (loss.item, loss.token) not in answers]

    def lose(self, loss: Loss) -> None:
        self.write(LOST + loss.item, json_text.dumps(_plain(loss)))

    def losses_of_parent(self) -> list[Loss]:
        """What the parent has lost, for which a subagent works, unless the subagent has answered it."""
        record = self.record()
        losses = State(record.parent).losses() if record is not None and record.parent else []
        answers = self._answers() if losses else set()
        return [loss for loss in losses if (loss.item, loss.token) not in answers]

    def lost_token(self, item: str) -> int | None:
        """The token of the claim that the session has lost, or its parent."""
        losses = (*self.losses(), *self.losses_of_parent())
        return next((loss.token for loss in losses if loss.item == item), None)

    def answer(self, losses: Iterable[Loss]) -> None:
        """The losses are known to the agent or to a person."""
        for loss in losses:
            self.note(ANSWERED, loss.item, loss.token)
            self.discard(LOST + loss.item)

    def answer_claim(self, item: str, token: int) -> None:
        """The end of this claim is known to the agent, also if no loss is noted yet."""
        if (item, token) in self._answers():
            return
        self.note(ANSWERED, item, token)
        if (item, token) not in self.noted(ANSWERED):
            _append(self.answers, item, token)  # a sandbox keeps the folder read-only; the next hook reads this

    def note(self, name: str, item: str, token: int) -> None:
        """Append a claim to a file of claims."""
        _append(os.path.join(self.path, name), item, token)

    def noted(self, name: str) -> set[tuple[str, int]]:
        return _claims(self.read(name))

    def _answers(self) -> set[tuple[str, int]]:
        return self.noted(ANSWERED) | _claims(_read(self.answers))


def answered(session: str, item: str, token: int | None = None) -> None:
    """A verb that names this item has answered the session, which therefore knows about its loss: of that token or an
    earlier one, or without a token of the claim that is known to be lost. What its parent lost is answered for the
    subagent alone: nobody has told the parent."""
    state = State(session)
    for loss in (*state.losses(), *state.losses_of_parent()):
        if loss.item == item and (token is None or loss.token <= token):
            state.answer_claim(item, loss.token)
    state.losses()  # discards what is answered now


def answers_folder() -> str:
    """Where commands in a sandbox note answers."""
    return os.path.join(os.path.dirname(agents_folder()), "answers")


def is_private(folder: str) -> bool:
    """Whether the folder is this user's, and nobody else may write it."""
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o022


def all_states() -> list[State]:
    try:
        return [State(name) for name in os.listdir(agents_folder())[:FOLDERS_MAX]]
    except OSError:
        return []


def remove_dead() -> None:
    """Remove the folders of sessions whose agents are dead, and whose keepers were killed with them."""
    if is_private(agents_folder()):
        for state in all_states():
            is_dead = _is_dead(state.record())
            if is_dead or (is_dead is None and (_age_seconds(state.path) or 0.0) > UNOWNED_SECONDS):
                state.remove()


def living(processes: Iterable[Owner]) -> tuple[Owner, ...]:
    """Those of the processes that are not known to be dead."""
    return tuple(one for one in processes if not owners.find_dead([("", one)]))


def host() -> str:
    """This machine. A home folder may be shared by several, whose boot ids say nothing about each other's agents."""
    return f"{os.uname().nodename} {_read('/etc/machine-id').strip()[:64]}"


def _is_dead(record: Record | None) -> bool | None:
    """Whether the agent's process is dead, or was started before this machine was. None if that cannot be told, as
    from another machine."""
    here = owners.namespace()
    if record is None or record.owner is None or here is None:
        return None
    if here == (record.owner.boot_id, record.owner.pid_namespace):
        return not living(record.owners)
    return True if record.host == host() and record.owner.boot_id != here[0] else None


def _age_seconds(path: str) -> float | None:
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return None


def _read(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return ""
    try:
        return os.read(file, BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(file)


def _append(path: str, item: str, token: int) -> None:
    """Append a line. A short one is written at once, so that writers do not mix."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _SAFELY, 0o600)
    except OSError:
        return
    try:
        os.write(file, f"{item} {token}\n".encode())
    except OSError:
        pass
    finally:
        os.close(file)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _claims(text: str) -> set[tuple[str, int]]:
    words = (line.split(" ") for line in text.splitlines())
    return {(pair[0], int(pair[1])) for pair in words if len(pair) == 2 and _is_number(pair[1])}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _plain(value: Value) -> dict[str, Any]:
    return {name: _plain_field(one) for name, one in value.as_dict().items()}


def _plain_field(field: object) -> object:
    if isinstance(field, tuple):
        return [_plain_field(one) for one in field]
    return field.as_dict() if isinstance(field, Value) else field
