"""What a server knows of its store: whether it answers, and whether it accepts writes.

A thread asks the store again and again, and verbs report refusals. So `/readyz` and `/metrics` answer at once when the
store hangs, and verbs are refused with the store's own words once it is known to be gone. Each change of the state is
one line in the log, with its reason.
"""

from __future__ import annotations

import logging
import threading
import time

from dibs.errors import DibsError, StoreUnavailable
from dibs.store.contract import FULL, GONE, READ_ONLY
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store

ANSWERS = "answers"
#: A store that answers, but not to everybody: it is busy, or its connections are all in use.
BUSY = "busy"
#: How often the store is asked, and how often while it is not well.
PROBE_SECONDS, RETRY_SECONDS = 2.0, 0.5
#: A probe that has been under way for so long counts as not answered.
SLOW_SECONDS = 0.7
#: And one for so long means that the store is gone: verbs are refused from then on.
HANGS_SECONDS = 5.0
#: When it is tried to write after the last write that was refused for want of space.
TRY_WRITE_SECONDS = 30.0
#: When a client that was refused at once may try again.
RETRY_AFTER_SECONDS = 1.0
#: What the log says of each state.
SAYS = {
    ANSWERS: "the store answers again and accepts writes",
    BUSY: "the store does not answer: {}",
    GONE: "the store is gone: {}",
    FULL: "the store is full: {}",
    READ_ONLY: "the store is read-only: {}",
}


class Known(Value):
    """A state, the store's own words for it, and since when, of this process's monotonic clock."""

    state: str
    reason: str
    since: float


class StoreState:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._known = Known(state=ANSWERS, reason="", since=time.monotonic())
        #: When the probe began that is under way.
        self._began: float | None = None
        #: The refusal of a verb that says that writes are not accepted, until a write is.
        self._refused: DibsError | None = None
        self._refused_at = 0.0
        self._stopping = False

    def start(self) -> None:
        threading.Thread(target=self._probe, name="probe", daemon=True).start()
        threading.Thread(target=self._look_for_hanging, name="probe-watch", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    @property
    def known(self) -> Known:
        return self._known

    @property
    def answers(self) -> bool:
        """Whether reads are answered now."""
        return self._known.state not in (GONE, BUSY) and self._seconds_of_probe() < SLOW_SECONDS

    @property
    def accepts_writes(self) -> bool:
        return self._known.state == ANSWERS and self._seconds_of_probe() < SLOW_SECONDS

    def require_there(self) -> None:
        """Refuse a verb at once, and in the store's words, while the store is known to be gone."""
        known = self._known
        if known.state == GONE:
            raise StoreUnavailable(known.reason, retry_after_seconds=RETRY_AFTER_SECONDS)

    def require_ready(self) -> None:
        known, seconds = self._known, self._seconds_of_probe()
        if known.state != ANSWERS:
            raise StoreUnavailable(known.reason, retry_after_seconds=RETRY_AFTER_SECONDS)
        if seconds >= SLOW_SECONDS:
            text = f"the store has not answered for {seconds:.1f} s"
            raise StoreUnavailable(text, retry_after_seconds=RETRY_AFTER_SECONDS)

    def note(self, refusal: DibsError) -> None:
        """What a verb was refused with. May be called in any thread."""
        if refusal.facts.get("problem") in (FULL, READ_ONLY):
            with self._changed:
                self._refused, self._refused_at = refusal, time.monotonic()
                if self._known.state == ANSWERS:
                    self._become(refusal.facts["problem"], refusal.message)
                    self._changed.notify_all()

    def _seconds_of_probe(self) -> float:
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _become(self, state: str, reason: str) -> None:
        before = self._known
        if state == before.state:
            self._known = before.replace(reason=reason)
            return
        self._known = Known(state=state, reason=reason, since=time.monotonic())
        text = SAYS[state].format(reason)
        if state == ANSWERS:
            text += f", after {self._known.since - before.since:.1f} s"
        logging.warning("%s", " ".join(text.split()), extra={"facts": {"store": state}})

    def _probe(self) -> None:
        while not self._stopping:
            self._began = time.monotonic()
            try:
                self._store.ping()
                found = self._write_again()
            except DibsError as refusal:
                found = refusal
            except Exception as error:
                logging.exception("asking the store failed")
                found = StoreUnavailable(f"asking the store failed: {error}")
            with self._changed:
                self._began = None
                if found is None:
                    self._become(ANSWERS, "")
                else:
                    self._become(found.facts.get("problem", BUSY), found.message)
                well = self._known.state == ANSWERS
                self._changed.wait_for(lambda: self._stopping, PROBE_SECONDS if well else RETRY_SECONDS)

    def _write_again(self) -> DibsError | None:
        """The refusal of writes, if there was one and a write is not accepted again."""
        if self._refused is None:
            return None
        # A small write may be accepted by a disk that is full for others; a store that is read-only refuses all.
        seconds = TRY_WRITE_SECONDS if self._refused.facts["problem"] == FULL else 0
        if time.monotonic() - self._refused_at >= seconds:
            self._refused_at = time.monotonic()
            self._store.try_write()
            self._refused = None
        return self._refused

    def _look_for_hanging(self) -> None:
        """A probe that hangs cannot tell so itself."""
        while not self._stopping:
            with self._changed:
                seconds = self._seconds_of_probe()
                if seconds >= HANGS_SECONDS and self._known.state != GONE:
                    self._become(GONE, f"it has not answered for {HANGS_SECONDS:g} s")
                self._changed.wait_for(lambda: self._stopping, RETRY_SECONDS)
