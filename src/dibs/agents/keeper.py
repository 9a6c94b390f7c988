"""The keeper of an agent's session: a process that lives exactly as long as the agent's process.

While the agent works (`active`), it renews the claims of the session and of its subagents, and recovers expired ones
that nobody took. At every change of the board it looks, at most once a second, and notes in the state folder what was
taken from the session. When the agent's process ends, it ends the session on the board and removes the state folder.

Three threads: the first waits for the death of the agent and for changes of the state folder, the second for changes of
the board, and the third does the work, since a call to an unreachable board may block for long.
"""

from __future__ import annotations

import os
import select
import threading

from dibs import location
from dibs.agents import keeper_process, look, sessions, usage
from dibs.agents.access import is_local
from dibs.agents.state import (
    ACTIVE,
    BEGIN,
    CHILD,
    END,
    ENDED,
    FRESH_SECONDS,
    KEEPER,
    META,
    POKE,
    SESSION,
    VIEW,
    State,
    living,
)
from dibs.board import open_board
from dibs.errors import DibsError, SessionNotFound
from dibs.model import AGENT
from dibs.rules import claiming
from dibs.sdk.heartbeat import clock
from dibs.system import owner as owners
from dibs.system.inotify import ENTRIES, Inotify
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.state import Record
    from dibs.board import Board
    from dibs.model import Owner

#: Changes of the board lead to at most one look in this time; without any there is one in the longer time.
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 1.0, 5.0
#: Heartbeats of very short claims follow each other no faster than this.
PAUSE_SECONDS_MIN = 0.2
#: How long a watch of the board waits before it is asked again.
WATCH_SECONDS = 25.0
RETRY_SECONDS = 5.0
#: How often the agent's process is looked at where nothing reports its death.
POLL_SECONDS = 0.5
#: How long a dead agent's session may take to end on the board.
FAREWELL_SECONDS = 10.0
#: Other dead owners may fill a sweep.
SWEEPS_MAX = 100
#: A turn may be without hooks for so long, however short claims are.
QUIET_SECONDS_MIN = 60.0
#: The state is written again when it would change by this much.
STEP_SECONDS = 15.0
#: Changes of the state folder that the keeper acts on; it makes others itself.
NOTICED = (ACTIVE, BEGIN, END, SESSION, POKE, CHILD, ENDED)


def keep(session: str) -> None:
    """Be the keeper of a session, unless another process is."""
    state = State(session)
    record = state.record()
    lock = None if record is None or record.owner is None else keeper_process.take_lock(state)
    if record is None or lock is None:
        return
    os.ftruncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    os.chdir("/")
    SessionKeeper(state, record, lock).run()


class SessionKeeper:
    def __init__(self, state: State, record: Record, lock: int) -> None:
        self._state, self._record, self._lock = state, record, lock
        self._url = location.look(record.folder).url
        self._is_local = is_local(self._url)
        self._changed = threading.Event()
        self._is_over = False
        #: By session: what it held at the last look during a turn, when its next heartbeat is due, when its first claim
        #: expires, and until when its state was last vouched for.
        self._held: dict[str, frozenset[tuple[str, int]]] = {}
        self._next_beat: dict[str, float] = {}
        self._expiry: dict[str, float] = {}
        self._vouched: dict[str, float] = {}
        #: The projects of items that were claimed.
        self._projects: dict[str, str] = {}

    def run(self) -> None:
        for target in (self._work, self._watch_board):
            threading.Thread(target=target, daemon=True).start()
        agent = _Agent(self._record.owner)
        folder = _watch(self._state.path)
        while not self._is_over:
            is_dead = agent.wait(folder)
            if folder is not None and any(name.startswith(NOTICED) for _, _, name in folder.read()):
                self._changed.set()
            record = self._state.record()
            if record is None or not self._is_mine():
                return  # the session has ended
            if record.owner != self._record.owner:
                # Another process has resumed the session, or has given it back.
                self._record, agent = record, _Agent(record.owner)
            elif is_dead and (others := living(record.earlier)):
                sessions.give_back(self._state, record, others)
            elif is_dead:
                self._say_farewell()
                record = self._state.record()
                # Unless the session was resumed meanwhile.
                self._is_over = record is None or record.owner == self._record.owner
        sessions.remove(self._state)

    def _is_mine(self) -> bool:
        """Whether this process's lock is on the file in the folder: a session that was ended and resumed has another
        one."""
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(os.path.join(self._state.path, KEEPER)))
        except OSError:
            return False

    def _say_farewell(self) -> None:
        """The agent is dead. Its claims end as those of a dead owner, as this process can prove, or a server on this
        machine; a server elsewhere does not take a client's word for that, and lets the session end itself."""
        session, owner = self._state.session, self._record.owner
        assert owner is not None

        def end() -> None:
            try:
                board = self._connect()
                for _ in range(SWEEPS_MAX):
                    if not board.record_due().more:
                        break
                found = board.find_session(session)
                if found.ended_at is None and found.owner == owner:
                    board.end_session(session, reason="its agent's process ended")
                board.close()
            except DibsError:
                pass  # the next claim on this machine finds the owner dead, and elsewhere the claims expire

        last = threading.Thread(target=end, daemon=True)
        last.start()
        last.join(FAREWELL_SECONDS)

    # The board

    def _connect(self) -> Board:
        return open_board(location.Place(self._url, self._record.folder), lean=True, lenient=True)

    def _watch_board(self) -> None:
        while not self._is_over:
            try:
                board = self._connect()
                watch = board.watch()
                while not self._is_over:
                    if watch.wait(WATCH_SECONDS):
                        self._changed.set()
                        threading.Event().wait(LOOK_SECONDS_MIN)
            except Exception:  # whatever it is: a lost wake-up only delays a look
                threading.Event().wait(RETRY_SECONDS)

    def _work(self) -> None:
        board: Board | None = None
        while not self._is_over:
            pause = RETRY_SECONDS
            try:
                board = board or self._connect()
                pause = self._look(board)
            except Exception:  # whatever it is: without the keeper the session would lose every claim
                self._without_board(board)
                board = None
            self._changed.wait(pause)
            self._changed.clear()

    def _without_board(self, board: Board | None) -> None:
        """The board cannot be read. Where hooks read it themselves, the state grows stale, and they do; elsewhere they
        could not do more than the keeper, and are not to try."""
        if board is not None:
            board.close()
        if not self._is_local:
            for state in (self._state, *map(State, self._state.names(CHILD))):
                state.vouch(FRESH_SECONDS)

    def _look(self, board: Board) -> float:
        """One round; returns the seconds until the next one is due."""
        state = self._state
        for child in state.names(ENDED):
            sessions.finish(board, child, "the subagent stopped")
            state.discard(ENDED + child)
        if state.has(END):
            sessions.finish(board, state.session, state.read(END))
            self._is_over = True
            state.discard(END)  # wakes the first thread, which removes the folder before the process ends
            return 0.0
        pause = self._tend(board, state)
        for child in state.names(CHILD):
            pause = min(pause, self._tend(board, State(child)))
        state.discard(POKE)
        return max(PAUSE_SECONDS_MIN, pause)

    def _tend(self, board: Board, state: State) -> float:
        """Look after one session; returns the seconds until it needs that again."""
        session, is_active, now = state.session, self._is_active(board, state), clock()
        record = state.record()
        if record is None:
            return LOOK_SECONDS_MAX
        _begin(board, state, record)
        held = look.losses_and_held(board, state, recovers=is_active)
        if is_active:
            new = frozenset(held) - self._held.get(session, frozenset())
            self._held[session] = frozenset(held)
            if new or now >= self._next_beat.get(session, 0.0):
                seconds, left = look.beat(board, state, {**state.load(META), **usage.read(record)} or None)
                self._next_beat[session], self._expiry[session] = now + seconds, now + left
        self._vouch(state, min(FRESH_SECONDS, self._expiry.get(session, now) - now) if held else FRESH_SECONDS)
        if not self._is_local:
            self._show(board, state, record, held)
        next_beat = self._next_beat.get(session, 0.0) - clock()
        return min(LOOK_SECONDS_MAX, next_beat) if is_active else LOOK_SECONDS_MAX

    def _is_active(self, board: Board, state: State) -> bool:
        """Whether the session is in a turn. A turn that a person interrupts ends without an event, so one in which no
        hook has run for as long as a claim lasts is over. Hooks of subagents, which work in that turn, count."""
        if not state.has(ACTIVE):
            return False
        ages = (one.age_seconds(ACTIVE) for one in (state, *map(State, state.names(CHILD))))
        lasts = max(QUIET_SECONDS_MIN, claiming.ttl(AGENT, None, board.settings))
        if min((age for age in ages if age is not None), default=lasts) < lasts:
            return True
        state.discard(ACTIVE)
        return False

    def _vouch(self, state: State, seconds: float) -> None:
        until = clock() + max(0.0, seconds)
        last = self._vouched.get(state.session, 0.0)
        if until < last or until > last + STEP_SECONDS or not state.is_fresh():
            state.vouch(max(0.0, seconds))
            self._vouched[state.session] = until

    def _show(self, board: Board, state: State, record: Record, held: tuple[tuple[str, int], ...]) -> None:
        """What hooks look up themselves on a board in a file."""
        for run in look.latest_runs(board, state.session):
            if run.item not in self._projects:
                self._projects[run.item] = board.get(run.item).item.project
        reserved = look.reservations(board, state.session, record.parent)
        view = {
            "held": [list(claim) for claim in held],
            "projects": sorted(set(self._projects.values())),
            "reserved": [one.as_dict() for one in reserved],
        }
        state.write(VIEW, json_text.dumps(view))


def _begin(board: Board, state: State, record: Record) -> None:
    """Start the session on the board, if a hook could not."""
    if not state.has(BEGIN):
        return
    try:
        agent = sessions.begin(board, record, {"client": record.client, **state.load(META)})
    except SessionNotFound:
        return  # its parent has ended, and a command of the agent starts that again
    if state.record() == record:  # else a hook has changed it meanwhile, and the next look tells the board
        state.discard(BEGIN)
        if agent != record.agent:
            state.save(record.replace(agent=agent))


class _Agent:
    """The agent's process, whose end is waited for."""

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner
        try:
            self._descriptor = -1 if owner is None else os.pidfd_open(owner.pid)
        except (OSError, AttributeError):
            self._descriptor = -1

    def wait(self, folder: Inotify | None) -> bool:
        """Return when the process has ended (True), or when something else may have changed (False)."""
        if self._is_dead():
            return True
        poll = select.poll()
        seconds = POLL_SECONDS if self._descriptor < 0 or folder is None else LOOK_SECONDS_MAX
        for descriptor in (self._descriptor, -1 if folder is None else folder.descriptor or -1):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
        return self._is_dead()

    def _is_dead(self) -> bool:
        return self._owner is None or bool(owners.find_dead([("", self._owner)]))


def _watch(path: str) -> Inotify | None:
    try:
        inotify = Inotify()
        inotify.watch(path, ENTRIES)
    except OSError:
        return None
    return inotify
