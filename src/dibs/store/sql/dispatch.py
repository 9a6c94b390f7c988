"""The verbs that SQLite and PostgreSQL share, as a table: each is a function of a transaction in a module of its topic.

The method `park` of a store runs `park(t, ...)` of `item_verbs` in one transaction. That function has the parameters of
the contract, which tests/unit/test_verbs.py compares. A module is imported when the first of its verbs is called, so
that a claim does not pay for the others.
"""

from __future__ import annotations

import sys

from dibs.model import Added, Edited, Ended, Grant, Item, Key, SessionEnd, SoftClaim, Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.store.contract import Page
    from dibs.value import Value

_HERE = "dibs.store.sql."
#: Higher than the id of any event.
EVERY_EVENT = 2**63 - 1


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


def _write(module: str, name: str, kind: type[Value] | None = None) -> Any:
    return write_verb(_HERE + module, name, kind)


def _read(module: str, name: str) -> Any:
    def method(store: Any, *given: Any, **asked: Any) -> Any:
        work = function_of(_HERE + module, name)
        return store.read(lambda t: work(t, *given, **asked))

    return _named(method, name, _HERE + module)


def _view(module: str, name: str) -> Any:
    """A verb that reads items as a claim at this instant would find them: see `projection`."""

    def method(store: Any, *given: Any, **asked: Any) -> Any:
        work = function_of(_HERE + module, name)
        return store.read(lambda t: work(t, store.find_dead, *given, **asked))

    return _named(method, name, _HERE + module)


def _named(method: Any, name: str, module: str) -> Any:
    # The name of a builtin (`list`, `next`) has an underscore as a function.
    method.__name__, method.function = name.rstrip("_"), (module, name)
    return method


class SqlVerbs:
    add = _write("item_verbs", "add", Added)
    edit = _write("item_verbs", "edit", Edited)
    cancel = _write("item_verbs", "cancel", Item)
    retry = _write("item_verbs", "retry", Item)
    reopen = _write("item_verbs", "reopen", Item)
    park = _write("item_verbs", "park", Item)
    unpark = _write("item_verbs", "unpark", Item)
    approve = _write("item_verbs", "approve", Item)
    send_back = _write("item_verbs", "send_back", Item)
    reject = _write("item_verbs", "reject", Item)
    annotate = _write("item_verbs", "annotate", Ended)
    force_release = _write("item_verbs", "force_release", Ended)

    claim_subject = _write("claim_verbs", "claim_subject", Grant)
    hand = _write("claim_verbs", "hand", Grant)

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

    wait = _write("ticket_verbs", "wait")
    leave = _write("ticket_verbs", "leave", Waiting)
    soft_claim = _write("ticket_verbs", "soft_claim")
    soft_release = _write("ticket_verbs", "soft_release", SoftClaim)

    get = _view("views", "get")
    list = _view("views", "list_")
    ids = _read("views", "ids")
    preview = _view("preview", "preview")
    runs = _view("views", "runs")
    sessions = _view("views", "sessions")
    catch_up = _write("figures", "catch_up")
    who = _view("views", "who")
    ticket = _view("views", "ticket")
    why = _view("views", "why")
    agents = _read("views", "agents")
    activity = _read("views", "activity")
    owners = _read("views", "owners")
    due_seconds = _read("views", "due_seconds")
    stats = _view("stats", "stats")
    page = _view("paging", "page")
    window = _view("timeline", "window")
    series = _read("timeline", "series")
    pulse = _view("stats", "pulse")
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

        work, find = function_of(_HERE + "bulk", "bulk"), function_of(_HERE + "bulk", "find")
        store: Any = self
        matches = None if filter is None else store.read(lambda t: find(t, filter, asked["expect"]))
        return store.write(lambda t: work(t, verb, matches=matches, **asked), request, Bulk)

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
        return store.read(lambda t: look(t, store.find_dead, until))  # type: ignore[attr-defined]
