"""Delivers the events of a board to its webhooks, at least once and for each webhook in the order of the feed.

Any number of processes may run a deliverer on one board: a lease in the row of the webhook lets one of them send. A
deliverer that was stopped for longer than its lease may repeat a message, with the same id, and changes nothing else,
because the cursor moves only if it is where this deliverer left it. Each webhook has a thread of its own while there is
something to send, so a receiver that hangs delays no other.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from time import monotonic

from dibs import randomness
from dibs.errors import Invalid, ItemNotFound, StoreUnavailable
from dibs.model.webhooks import Attempt
from dibs.rules import webhooks as rules
from dibs.webhooks import addresses, messages, sending, signing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.board import Board
    from dibs.board.manage import ManageVerbs
    from dibs.model import Event, Item
    from dibs.model.webhooks import Taken, Webhook
    from dibs.store.contract import Watch
    from dibs.webhooks.addresses import Resolve
    from dibs.webhooks.sending import Outcome

    #: What is reported of each attempt.
    Report = Callable[[Webhook, Event, Outcome], None]

#: How long a deliverer may send without a word to the board: longer than an attempt, with its name resolution, takes.
LEASE_SECONDS = 60.0
RETRY_SECONDS = 2.0
RETRY_SECONDS_MAX = 600.0
#: How many webhooks are sent to at once, and how many messages and for how long, before others have their turn.
THREADS_MAX = 8
TURN_EVENTS = 100
TURN_SECONDS = 5.0
READ_EVENTS = 500
READ_BYTES = 1_000_000
#: Events that no message is sent for are passed over in memory. The cursor follows after so many, or after a while, so
#: that they can be pruned, and a restarted deliverer does not read them again.
PASSED_MAX = 1000
PASSED_SECONDS = 60.0
#: The shortest time between two looks at the webhooks, and the longest: without any webhook, and with some.
LOOK_SECONDS = 0.1
IDLE_SECONDS = 2.0
LOOK_SECONDS_MAX = 5.0
BUSY_SECONDS = 0.25
#: How long a stopped deliverer waits for its threads.
STOP_SECONDS = 1.0


class Line:
    """What this process knows of one webhook."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        #: The last event that was looked at.
        self.position = webhook.cursor
        self.not_before = self.served_at = 0.0
        #: When the cursor in the board was last moved.
        self.moved_at = monotonic()
        #: Until when this process has the lease, by its own clock, and what it was given with it.
        self.leased_until = 0.0
        self.taken: Taken | None = None
        self.thread: threading.Thread | None = None

    def update(self, webhook: Webhook) -> None:
        if webhook.retry_at != self.webhook.retry_at:
            self.not_before = 0.0  # a person, or another process, has changed when the next attempt is due
        self.webhook = webhook
        self.position = max(self.position, webhook.cursor)

    @property
    def is_busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class Deliverer:
    def __init__(self, board: Board, *, report: Report | None = None, resolve: Resolve = addresses.resolve) -> None:
        self._board, self._store = board, board.store
        self._report, self._resolve = report, resolve
        self._name = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._lines: dict[str, Line] = {}
        self._stopping = threading.Event()

    def run(self, watch: Watch) -> None:
        """Deliver until `stop`. The watch wakes it; what it misses is found within `LOOK_SECONDS_MAX`."""
        while not self._stopping.is_set():
            pause = self._look_safely()
            self._stopping.wait(LOOK_SECONDS if self._lines else IDLE_SECONDS)
            try:
                watch.wait(max(0.0, pause - LOOK_SECONDS))
            except StoreUnavailable:
                self._stopping.wait(LOOK_SECONDS)

    def run_once(self) -> bool:
        """Deliver what can be delivered now; whether nothing is left."""
        while True:
            before = {id: line.position for id, line in self._lines.items()}
            self._look(rules.WEBHOOKS_MAX)
            for line in self._lines.values():
                if line.thread is not None:
                    line.thread.join()
            if before == {id: line.position for id, line in self._lines.items()}:
                break
        for line in self._lines.values():
            if line.position > line.webhook.cursor:
                self._record_passed(line)
        return not any(line.not_before > monotonic() for line in self._lines.values())

    def stop(self) -> None:
        self._stopping.set()
        end = monotonic() + STOP_SECONDS
        for line in list(self._lines.values()):
            if line.thread is not None:
                line.thread.join(max(0.0, end - monotonic()))

    def _look_safely(self) -> float:
        try:
            return self._look(THREADS_MAX)
        except StoreUnavailable:
            return LOOK_SECONDS_MAX
        except Exception:
            # The thread of a server: a failure that nobody foresaw must not end all deliveries.
            logging.exception("looking at the webhooks failed; retrying")
            return LOOK_SECONDS_MAX

    def _look(self, threads_max: int) -> float:
        """Start a thread for each webhook that may have something to send; the seconds until the next look."""
        found = {webhook.id: webhook for webhook in self._store.webhooks() if webhook.disabled_at is None}
        for id in self._lines.keys() - found.keys():
            if not self._lines[id].is_busy:
                del self._lines[id]
        busy = sum(line.is_busy for line in self._lines.values())
        now, pause = monotonic(), LOOK_SECONDS_MAX
        # Those that were served longest ago first: there may be more webhooks than threads.
        for id, webhook in sorted(found.items(), key=lambda one: self._served_at(one[0])):
            line = self._lines.setdefault(id, Line(webhook))
            if line.is_busy:
                continue
            line.update(webhook)
            if line.not_before > now:
                pause = min(pause, line.not_before - now)
            elif busy < threads_max:
                busy += 1
                thread = threading.Thread(target=self._serve_safely, args=(line,), name="webhook", daemon=True)
                line.served_at = now
                thread.start()
                # Once it can be joined: `stop` may look at any time.
                line.thread = thread
        return min(pause, BUSY_SECONDS) if busy else pause

    def _served_at(self, id: str) -> float:
        line = self._lines.get(id)
        return 0.0 if line is None else line.served_at

    def _serve_safely(self, line: Line) -> None:
        try:
            self._serve(line)
        except StoreUnavailable:
            line.not_before = monotonic() + LOOK_SECONDS_MAX
        except Exception:
            # As in `_look_safely`, for one webhook. A closed store is no news while the process ends.
            if not self._stopping.is_set():
                logging.exception("delivering to the webhook %s failed; retrying", line.webhook.id)
            line.not_before = monotonic() + LOOK_SECONDS_MAX

    def _serve(self, line: Line) -> None:
        """Send what the webhook is about, for one turn. A lease that is left over is given up."""
        self._send_events(line)
        passed = line.position - line.webhook.cursor
        is_due = passed >= PASSED_MAX or (passed > 0 and monotonic() - line.moved_at >= PASSED_SECONDS)
        if is_due or line.taken is not None:
            self._record_passed(line)

    def _send_events(self, line: Line) -> None:
        """Send events until the feed ends, an attempt fails, or the turn is over; at least one, if there is one."""
        end, sent, more = monotonic() + TURN_SECONDS, 0, True
        while more and not self._stopping.is_set():
            events, more = self._read(line)
            wanted = [event for event in events if self._wants(line.webhook, event)]
            for event in wanted:
                is_over = sent and (sent >= TURN_EVENTS or monotonic() >= end)
                if is_over or self._stopping.is_set():
                    return
                if not self._deliver(line, event, keeps_lease=more or event is not wanted[-1]):
                    return
                sent += 1
            if events:
                line.position = events[-1].id
            more = more and monotonic() < end

    def _record_passed(self, line: Line) -> None:
        """Move the cursor of the board after the events that were passed over, and give up the lease."""
        if self._take(line) is not None:
            self._advance(line, cursor=line.position)

    def _read(self, line: Line) -> tuple[tuple[Event, ...], bool]:
        """The next events, and whether there may be more."""
        try:
            events = self._store.events(after=line.position, limit=READ_EVENTS, bytes_max=READ_BYTES)
        except Invalid as pruned:
            # Only if it was disabled, or added, while a prune was under way.
            line.position = max(line.position + 1, int(pruned.facts.get("event_floor", 0)))
            return (), True
        return events, events.more or len(events) == READ_EVENTS

    def _wants(self, webhook: Webhook, event: Event) -> bool:
        if rules.kind_of(webhook, event) is None:
            return False
        if not webhook.projects:
            return True
        item = find_item(self._board, event)
        return item is not None and item.project in webhook.projects

    def _deliver(self, line: Line, event: Event, *, keeps_lease: bool) -> bool:
        """Send one event and record what came of it; whether to go on with the next."""
        taken = self._take(line)
        if taken is None:
            return False
        if taken.webhook.cursor >= event.id:
            self._advance(line)  # another process has sent it meanwhile
            return False
        webhook = taken.webhook
        body = messages.body(webhook, rules.kind_of(webhook, event) or event.kind, event, find_item(self._board, event))
        headers = signing.headers(taken.secrets, messages.id_of(webhook, event), round(time.time()), body)
        outcome = sending.post(webhook.url, body, headers, allow_private=webhook.allow_private, resolve=self._resolve)
        if self._report is not None:
            self._report(webhook, event, outcome)
        is_sent = outcome.failure is None
        delay = 0.0 if is_sent else _delay_seconds(webhook)
        attempt = Attempt(event=event, failure=outcome.failure, delay_seconds=delay, gone=outcome.gone)
        keeps = LEASE_SECONDS if keeps_lease and is_sent else 0.0
        updated = self._advance(line, cursor=event.id - 1, attempt=attempt, seconds=keeps)
        if updated is None:
            return False
        if updated.cursor < event.id:
            line.not_before = monotonic() + delay
        return updated.cursor >= event.id and updated.disabled_at is None

    def _take(self, line: Line) -> Taken | None:
        """The webhook with its secrets, if this process may send now."""
        if line.taken is not None and line.leased_until - monotonic() > LEASE_SECONDS / 2:
            return line.taken
        begun = monotonic()
        taken = self._store.take_webhook(line.webhook.id, deliverer=self._name, seconds=LEASE_SECONDS)
        if taken is None or taken.wait_seconds:
            line.taken = None
            line.not_before = begun + (LOOK_SECONDS_MAX if taken is None else taken.wait_seconds)
            return None
        line.taken, line.leased_until = taken, begun + LEASE_SECONDS
        return taken

    def _advance(
        self, line: Line, *, cursor: int | None = None, attempt: Attempt | None = None, seconds: float = 0.0
    ) -> Webhook | None:
        """Record the progress; None if another process has the lease now. It then goes on where the other is."""
        assert line.taken is not None
        begun, after = monotonic(), line.taken.webhook.cursor
        updated = self._store.advance_webhook(
            line.webhook.id, deliverer=self._name, after=after, cursor=cursor, attempt=attempt, seconds=seconds
        )
        if updated is None:
            line.taken, line.position = None, 0
            return None
        is_rotated = updated.rotated_at != line.taken.webhook.rotated_at
        line.webhook, line.position, line.moved_at = updated, updated.cursor, monotonic()
        line.taken = line.taken.replace(webhook=updated) if seconds and not is_rotated else None
        line.leased_until = begun + seconds
        return updated


def find_item(board: ManageVerbs, event: Event) -> Item | None:
    """The item as it is now."""
    try:
        return board.get(event.item).item
    except ItemNotFound:
        return None


def _delay_seconds(webhook: Webhook) -> float:
    return randomness.backoff_seconds(webhook.attempts, base_seconds=RETRY_SECONDS, max_seconds=RETRY_SECONDS_MAX)
