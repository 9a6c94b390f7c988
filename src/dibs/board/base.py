"""What the verbs of a board share: checked parameters, requests, recovery of claims, and sweeping."""

from __future__ import annotations

from dibs import check, config
from dibs.errors import ClaimExpired
from dibs.model import Request
from dibs.rules.claiming import recoverable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    from dibs.board.session_room import SessionRoom
    from dibs.config import Settings
    from dibs.model import Sweep
    from dibs.store.contract import Store, Watch

    T = TypeVar("T")

#: How often a waiting client looks for dead owners: nothing reports a death.
OWNER_LOOK_SECONDS = 5.0
#: Parameters about the caller.
NOT_IN_FINGERPRINT = frozenset({"session", "agent", "actor", "relabel"})


class BoardBase:
    """`actor` is recorded as the actor of verbs without a session, such as `add`."""

    def __init__(
        self,
        store: Store,
        settings: Settings = config.DEFAULTS,
        *,
        actor: str | None = None,
        watch: Callable[[str | None], Watch] | None = None,
    ) -> None:
        """`watch` replaces the store's watches, for a process whose many clients share one."""
        self.store = store
        self.settings = settings
        self._named_actor = None if actor is None else check.name(actor, "actor")
        self._shared_watch = watch
        self._room: SessionRoom | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()

    @property
    def actor(self) -> str:
        """Without a name, the user of this process: looked up only for a verb that records it."""
        if self._named_actor is None:
            self._named_actor = config.user_name()
        return self._named_actor

    @actor.setter
    def actor(self, name: str) -> None:
        self._named_actor = name

    def watch(self, *, sweeps: bool = False) -> Watch:
        """A watch of all changes. With `sweeps`, overdue steps are recorded while the caller waits, if it may write;
        behind a server, the server does that."""
        watch = self._watch(None)
        if not sweeps or self.store.waits:
            return watch
        from dibs.sdk.sweeper import Sweeper, SweepingWatch

        return SweepingWatch(watch, Sweeper(self.store, self.record_due, self.reap_dead_owners))

    def _watch(self, session: str | None) -> Watch:
        return self.store.watch(session=session) if self._shared_watch is None else self._shared_watch(session)

    # Calling the store

    def _actor(self, given: str | None) -> str:
        return self.actor if given is None else check.name(given, "actor")

    def _call(self, verb: Callable[..., T], *item: str, request_id: str | None = None, **parameters: Any) -> T:
        """Check the parameters and call the store."""
        return verb(*map(check.item, item), **self._checked(verb, item, request_id, parameters))

    def _call_as_holder(
        self,
        verb: Callable[..., T],
        item: str,
        *,
        session: str,
        recover: bool = False,
        request_id: str | None = None,
        **parameters: Any,
    ) -> T:
        """Call a fenced verb; with `recover`, claim the item again if the claim expired and no session took it over."""
        item, parameters["session"] = check.item(item), check.session_id(session)
        recover = check.flag(recover, "recover")
        checked = self._checked(verb, (item,), request_id, parameters)
        try:
            return verb(item, **checked)
        except ClaimExpired as error:
            if not (recover and recoverable(error)):
                raise
            lost = error.facts["token"]
        checked["token"] = self.store.recover(item, session=session, token=lost).claim.token
        return verb(item, **checked)

    def _checked(
        self, verb: Callable[..., Any], item: tuple[str, ...], request_id: str | None, parameters: dict[str, Any]
    ) -> dict[str, Any]:
        if "actor" in parameters:
            parameters["actor"] = self._actor(parameters["actor"])
        checked = {name: check.parameter(value, name) for name, value in parameters.items()}
        if request_id is not None:
            by = checked.get("session") or checked["actor"]
            content = {name: value for name, value in checked.items() if name not in NOT_IN_FINGERPRINT}
            checked["request"] = request(request_id, by, verb.__name__, *item, **content)
        return checked

    # Sweeping

    def record_due(self, limit: int | None = None) -> Sweep:
        """Record what is overdue, and end the claims of owners that this process can prove dead."""
        return self.store.sweep(limit=limit or self.settings.sweep_batch)

    def sweep(self, *, limit: int | None = None) -> Sweep:
        """`record_due`, and end sessions that hold nothing and have been silent for a day."""
        swept = self.record_due(limit if limit is None else check.limit(limit))
        self.store.end_silent(limit=limit or self.settings.sweep_batch)  # after lapsed claims were recorded
        return swept

    def reap_dead_owners(self) -> bool:
        """End the claims of owners that this process can prove dead; return whether there were any."""
        return self.store.reap_dead_owners()


def request(request_id: str, actor: str, verb: str, /, *item: str, **parameters: Any) -> Request:
    """The request, with a fingerprint of the verb and of the parameters that were given, by name: the order in which
    this version passes them is not part of it, nor what it passes for those that an older version does not have."""
    import hashlib
    import json

    given = {name: value for name, value in parameters.items() if not _is_left_out(value)}
    text = json.dumps([verb, item, given], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Request(actor=actor, id=check.name(request_id, "request_id"), fingerprint=fingerprint)


def _is_left_out(value: object) -> bool:
    return value is None or value is False or value in ((), {}, [])
