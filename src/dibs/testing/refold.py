"""A second, independent reading of an item's history, for the invariant checker: what the events say, and what is odd.

Written from the design's words alone. It knows the kinds of events, not the code that makes them.
"""

from __future__ import annotations

from dibs.model import EDITABLE, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.model import Event

#: kind -> (the status it leads to, None: as it was; whether it ends a claim, None: if there is one)
KINDS: dict[str, tuple[str | None, bool | None]] = {
    "added": ("ready", False),
    "edited": (None, False),
    "claimed": ("in_progress", False),
    "progress": (None, False),
    "released": ("ready", True),
    "forgotten": ("ready", True),
    "force_released": ("ready", True),
    "expired": (None, True),
    "owner_died": (None, True),
    "done": ("done", True),
    "failed": ("failed", True),
    "cancelled": ("cancelled", None),
    "retried": ("ready", False),
}
STRIKES = ("expired", "owner_died")


class Story:
    """An item's history, told to the end: its fields, its runs as {token: (session, agent, start, end, outcome)}."""

    def __init__(self, item: str, events: Iterable[Event]) -> None:
        self.item = item
        self.oddities: list[str] = []
        self.fields: dict[str, Any] = {}
        self.runs: dict[int, dict[str, Any]] = {}
        self.open_token: int | None = None
        for number, event in enumerate(events, start=1):
            if event.number != number:
                self._odd(f"event {event.number} stands where {number} belongs")
            self._tell(event)

    def differences(self, row: Item) -> list[str]:
        """Where the item's row is not what its history says."""
        wrong = []
        for name in Item._fields:
            told, kept = self.fields.get(name), getattr(row, name)
            if told != kept:
                wrong.append(f"{self.item}: {name} is {kept!r}, its history says {told!r}")
        return wrong

    def _tell(self, event: Event) -> None:
        if event.kind not in KINDS:
            self._odd(f"event {event.number} is of an unknown kind {event.kind!r}")
            return
        if not event.actor:
            self._odd(f"event {event.number} ({event.kind}) names no actor")
        if (event.kind == "added") != (event.number == 1):
            self._odd(f"event {event.number} is {event.kind}")
        if event.kind == "added":
            self._begin(event)
        elif not self.fields:
            return
        elif event.kind == "claimed":
            self._claim(event)
        elif event.kind == "edited":
            self._edit(event)
        self._end_run(event)
        self._move(event)

    def _begin(self, event: Event) -> None:
        content = dict(event.data)
        content["labels"] = tuple(content.get("labels", ()))
        born = {"id": event.item, "created_by": event.actor, "created_at": event.at, "attempts": 0, "strikes": 0}
        self.fields = {**content, **born, "status": "ready", "token": event.token}

    def _claim(self, event: Event) -> None:
        if self.fields["status"] != "ready":
            self._odd(f"event {event.number} claims it while {self.fields['status']}")
        if event.token != self.fields["token"] + 1:
            self._odd(f"token {event.token} follows token {self.fields['token']}")
        if not event.session or not event.agent:
            self._odd(f"event {event.number} does not say who claimed")
        self.fields["attempts"] += 1
        self.fields["token"] = event.token
        self.open_token = event.token
        self.runs[event.token] = {
            "session": event.session,
            "agent": event.agent,
            "started_at": event.at,
            "ended_at": None,
            "outcome": None,
        }

    def _edit(self, event: Event) -> None:
        for name, value in event.data.items():
            if name not in EDITABLE:
                self._odd(f"event {event.number} edits {name}")
            self.fields[name] = tuple(value) if name == "labels" else value

    def _end_run(self, event: Event) -> None:
        ends = KINDS[event.kind][1]
        if ends is None:
            ends = self.open_token is not None
        if not ends:
            return
        run = self.runs.get(self.open_token or 0)
        if run is None:
            self._odd(f"event {event.number} ({event.kind}) ends a claim that nobody has")
            return
        if event.token != self.open_token:
            self._odd(f"event {event.number} ({event.kind}) has token {event.token}, the claim is {self.open_token}")
        if (event.session, event.agent) != (run["session"], run["agent"]):
            self._odd(f"event {event.number} ({event.kind}) does not name its holder {run['session']}")
        run.update(ended_at=event.at, outcome=event.kind)
        self.open_token = None

    def _move(self, event: Event) -> None:
        if event.kind in STRIKES:
            self.fields["strikes"] += 1
        if event.kind == "retried":
            self.fields["strikes"] = 0
        told = KINDS[event.kind][0]
        allowed = ("ready", "failed") if event.kind in STRIKES else (told or self.fields["status"],)
        if event.status not in allowed:
            self._odd(f"event {event.number} ({event.kind}) leads to {event.status}")
        if event.token != self.fields["token"]:
            self._odd(f"event {event.number} ({event.kind}) has token {event.token}, not {self.fields['token']}")
        self.fields.update(status=event.status, updated_at=event.at, revision=event.number)

    def _odd(self, what: str) -> None:
        self.oddities.append(f"{self.item}: {what}")
