"""The verbs that SQLite and PostgreSQL share, as a table: each is a function of a transaction in a module of its topic.

The method `park` of a store runs `park(t, ...)` of `item_verbs` in one transaction. That function has the parameters of
the contract, which tests/unit/test_verbs.py compares. A module is imported when the first of its verbs is called, so
that a claim does not pay for the others.
"""

from __future__ import annotations

import sys

from dibs.errors import DibsError
from dibs.model import Added, Edited, Ended, Grant, Item, Key, SessionEnd, SoftClaim, Waiting
from dibs.rules.claiming import is_caused_by_a_claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.store.contract import Page
    from dibs.value import Value

    F = TypeVar("F", bound=Callable[..., Any])

_HERE = "dibs.store.sql."
#: Higher than the id of any event.
EVERY_EVENT = 2**63 - 1
#: How many batches of dead owners' claims one verb ends before it gives up.
REAPS_MAX = 10


_functions: dict[tuple[str, str], Callable[..., Any]] = {}


def function_of(module: str, name: str) -> Callable[..., Any]:
    found = _functions.get((module, name))
    if found is None:
        __import__(module)
        found = _functions[module, name] = getattr(sys.modules[module], name)
    return found


def write_verb(module: str, name: str, kind: type[Value] | None = None) -> Any:
    """A verb that writes. With `kind`, it takes a `request`, under which its answer (values of `kind`) is kept."""

    def method(store: Any, *given: Any, request: Any = None, **asked: Any) -> Any:
        work = function_of(module, name)
        return store.write(lambda t: work(t, *given, **asked), request, kind)

    return _named(method, name, module)


def past_dead_owners(verb: F, is_held_up: Callable[[Any], bool] = lambda answer: answer == ()) -> F:
    """The verb of a store, called again after the claims of dead owners were ended, if a claim may be the reason of its
    refusal or its answer `is_held_up`.

    Owners are examined only then, and outside of the transaction: with many of them that takes milliseconds, in which
    no other could write.
    """

    def method(store: Any, *given: Any, **asked: Any) -> Any:
        for _ in range(REAPS_MAX):
            try:
                answer = verb(store, *given, **asked)
            except DibsError as refusal:
                if not (is_caused_by_a_claim(refusal) and store.reap_dead_owners()):
                    raise
            else:
                if not (is_held_up(answer) and store.reap_dead_owners()):
                    return answer
        return verb(store, *given, **asked)

    method.__name__, method.__dict__ = verb.__name__, {**vars(verb), "__wrapped__": verb}
    return method  # type: ignore[return-value]


def _write(module: str, name: str, kind: type[Value] | None = None) -> Any:
    return write_verb(_HERE + module, name, kind)


def _read(module: str, name: str) -> Any:
    def method(store: Any, *given: Any, **asked: Any) -> Any:
        work = function_of(_HERE + module, name)
        return store.read(lambda t: work(t, *given, **asked))

    return _named(method, name, _HERE + module)


def _named(method: Any, name: str, module: str) -> Any:
    # The name of a builtin (`list`, `next`) has an underscore as a function.
    method.__name__, method.function = name.rstrip("_"), (module, name)
    return method


class SqlVerbs:
    add = _write("item_verbs", "add", Added)
    edit = past_dead_owners(_write("item_verbs", "edit", Edited))
    cancel = _write("item_verbs", "cancel", Item)
    retry = past_dead_owners(_write("item_verbs", "retry", Item))
    reopen = past_dead_owners(_write("item_verbs", "reopen", Item))
    park = past_dead_owners(_write("item_verbs", "park", Item))
    unpark = _write("item_verbs", "unpark", Item)
    approve = _write("item_verbs", "approve", Item)
    send_back = _write("item_verbs", "send_back", Item)
    reject = _write("item_verbs", "reject", Item)
    annotate = past_dead_owners(_write("item_verbs", "annotate", Ended))
    force_release = _write("item_verbs", "force_release", Ended)

    claim_subject = past_dead_owners(_write("claim_verbs", "claim_subject", Grant))
    hand = past_dead_owners(_write("claim_verbs", "hand", Grant))

    set_agent = _write("session_verbs", "set_agent")
    start_session = _write("session_verbs", "start_session")
    take_up = _write("session_verbs", "take_up")
    end_session = _write("session_verbs", "end_session", SessionEnd)
    find_session = _read("session_verbs", "find_session")
    sessions_of_key = _read("session_verbs", "sessions_of_key")
    put_key = _write("session_verbs", "put_key")
    find_key = _read("session_verbs", "find_key")
    keys = _read("session_verbs", "keys")
    revoke_key = _write("session_verbs", "revoke_key", Key)
    rotate_key = _write("session_verbs", "rotate_key")
    renew_key = _write("session_verbs", "renew_key")
    note_key_use = _write("session_verbs", "note_key_use")

    add_webhook = _write("webhooks", "add_webhook")
    webhooks = _read("webhooks", "webhooks")
    change_webhook = _write("webhooks", "change_webhook")
    remove_webhook = _write("webhooks", "remove_webhook")
    dead_letters = _read("webhooks", "dead_letters")
    drop_dead_letter = _write("webhooks", "drop_dead_letter")
    take_webhook = _write("webhooks", "take_webhook")
    advance_webhook = _write("webhooks", "advance_webhook")

    wait = past_dead_owners(_write("ticket_verbs", "wait"), is_held_up=lambda waiting: waiting.claim is not None)
    leave = _write("ticket_verbs", "leave", Waiting)
    soft_claim = _write("ticket_verbs", "soft_claim")
    soft_release = _write("ticket_verbs", "soft_release", SoftClaim)

    get = _read("views", "get")
    list = _read("views", "list_")
    ids = _read("views", "ids")
    preview = _read("preview", "preview")
    runs = _read("views", "runs")
    sessions = _read("views", "sessions")
    catch_up = _write("figures", "catch_up")
    who = _read("views", "who")
    ticket = _read("views", "ticket")
    why = _read("views", "why")
    agents = _read("views", "agents")
    activity = _read("views", "activity")
    due_seconds = _read("views", "due_seconds")
    stats = _read("stats", "stats")
    page = _read("paging", "page")
    window = _read("timeline", "window")
    series = _read("timeline", "series")
    pulse = _read("stats", "pulse")
    note_backup = _write("archive", "note_backup")
    try_write = _write("archive", "try_write")

    def feed_end(self) -> int:
        """The id up to which the feed is complete: no event with a lower id can still be committed. Read before the
        snapshot is taken."""
        return EVERY_EVENT

    def events(self, *, item: str | None = None, **asked: Any) -> Page[Any]:
        events = function_of(_HERE + "views", "events")
        until = self.feed_end() if item is None else EVERY_EVENT
        store: Any = self
        found: Page[Any] = store.read(lambda t: events(t, until, item=item, **asked))
        return found

    def bulk(self, verb: str, *, filter: Any = None, request: Any = None, **asked: Any) -> Any:
        from dibs.model.dashboard import Bulk
        from dibs.store.sql import bulk

        store: Any = self
        if verb in bulk.PREVENTED_BY_CLAIMS:
            store.reap_dead_owners()
        matches = None if filter is None else store.read(lambda t: bulk.find(t, filter, asked["expect"]))
        return store.write(lambda t: bulk.bulk(t, verb, matches=matches, **asked), request, Bulk)

    def reap_dead_owners(self) -> bool:
        store: Any = self
        dead = store.read(lambda t: t.dead_owners())
        return bool(dead) and bool(store.write(lambda t: t.reap(dead)))

    def end_silent(self, *, limit: int) -> tuple[str, ...]:
        """The sessions are searched among all live ones, so that is a read: it delays no writer."""
        find = function_of(_HERE + "session_verbs", "silent_sessions")
        end = function_of(_HERE + "session_verbs", "end_silent")
        store: Any = self
        found = store.read(lambda t: find(t, limit))
        ended: tuple[str, ...] = store.write(lambda t: end(t, found)) if found else ()
        return ended

    def view(self) -> Any:
        return self._at_the_end_of_the_feed("view")

    def vitals(self) -> Any:
        return self._at_the_end_of_the_feed("vitals")

    def _at_the_end_of_the_feed(self, name: str) -> Any:
        look, until, store = function_of(_HERE + "overview", name), self.feed_end(), self
        return store.read(lambda t: look(t, until))  # type: ignore[attr-defined]
