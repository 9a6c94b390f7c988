"""A second, independent reading of an item's history, for the invariant checker: what the events say, and what is odd.

Written from the design's words alone. It knows the kinds of events, not the code that makes them.
"""

from __future__ import annotations

from dibs.model import EDITABLE, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from dibs.model import Event

RESTING = frozenset({"pending_approval", "blocked", "scheduled", "ready"})
ENDED = frozenset({"done", "failed", "rejected", "cancelled"})
HELD = frozenset({"in_progress"})
READY = frozenset({"ready"})
REST = "to where it rests"
SAME = "as it was"
ANYWHERE = "to where its file lies"

#: kind -> (the statuses it can befall, where it leads)
KINDS: dict[str, tuple[frozenset[str], str]] = {
    "added": (frozenset(), REST),
    "edited": (RESTING | HELD | ENDED | {"parked"}, SAME),
    "claimable": (READY, SAME),
    "offered": (READY, SAME),
    "offer_lapsed": (READY, SAME),
    "unblocked": (frozenset({"blocked"}), REST),
    "blocked": (READY | {"scheduled"}, "blocked"),
    "due": (frozenset({"scheduled"}), REST),
    "claimed": (READY | {"parked"}, "in_progress"),
    "progress": (HELD, SAME),
    "released": (HELD, REST),
    "forgotten": (HELD, REST),
    "handed": (HELD, "ready"),
    "force_released": (HELD, REST),
    "expired": (HELD, REST),
    "owner_died": (HELD, REST),
    "done": (HELD, "done"),
    "failed": (HELD, REST),
    "submitted": (HELD, "pending_approval"),
    "rejected": (HELD | {"pending_approval"}, "rejected"),
    "approved": (frozenset({"pending_approval"}), REST),
    "sent_back": (frozenset({"pending_approval"}), REST),
    "parked": (RESTING, "parked"),
    "unparked": (frozenset({"parked"}), REST),
    "retried": (frozenset({"failed"}), REST),
    "reopened": (frozenset({"done", "cancelled", "rejected"}), REST),
    "cancelled": (RESTING | HELD | {"parked"}, "cancelled"),
    "restored": (RESTING | HELD | {"parked", "failed"}, SAME),
    "found": (RESTING | ENDED | {"parked"}, ANYWHERE),
    "annotated": (RESTING | HELD | ENDED | {"parked"}, SAME),
}
#: Kinds that let go of an item: one whose subject is over is cancelled by them.
LETTING_GO = ("released", "forgotten", "expired", "owner_died", "force_released", "failed", "restored")
#: Statuses that some kinds may lead to beside the above.
ELSE = {
    "released": "parked",
    "expired": "failed",
    "owner_died": "failed",
    "failed": "failed",
    "approved": "done",
}
STRIKES = ("expired", "owner_died")
#: What leaves a claim as it is; every other kind ends one, if there is one.
KEEPS_CLAIM = ("added", "edited", "claimed", "progress", "annotated")
#: An approval is about these: editing one of them asks for it again.
APPROVED_OF = ("title", "body", "payload", "type", "action", "resources")


class Story:
    """An item's history, told to the end: its fields, its runs by token, and all that is odd about it."""

    def __init__(self, item: str, events: Iterable[Event]) -> None:
        self.item = item
        self.oddities: list[str] = []
        self.fields: dict[str, Any] = {}
        self.runs: dict[int, dict[str, Any]] = {}
        self.open_token: int | None = None
        self._to_be_said_since: int | None = None
        self._handed_to: str | None = None
        for number, event in enumerate(events, start=1):
            if event.number != number:
                self._odd(f"event {event.number} stands where {number} belongs")
            self._tell(event)
        if self._handed_to is not None:
            self._odd(f"it was handed to {self._handed_to}, which does not hold it")
        if self._to_be_said_since is not None:
            self._odd("it became ready, and nobody was told that it can be claimed")

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
        elif self.fields["status"] not in KINDS[event.kind][0]:
            self._odd(f"event {event.number} is {event.kind} while {self.fields['status']}")
        self._hear_of_freedom(event)
        if event.kind == "claimed":
            self._claim(event)
        elif event.kind == "edited":
            self._edit(event)
        elif event.kind == "annotated":
            self._annotate(event)
        self._end_run(event)
        self._count(event)
        self._approval(event)
        self._move(event)

    def _begin(self, event: Event) -> None:
        content = {name: tuple(value) if isinstance(value, list) else value for name, value in event.data.items()}
        born = {"id": event.item, "created_by": event.actor, "created_at": event.at}
        zero = {"attempts": 0, "strikes": 0, "failures": 0, "approved": False, "offered_to": None}
        nothing = {"offer_expires_at": None, "status": None, "token": event.token}
        self.fields = {**content, **born, **zero, **nothing}

    def _hear_of_freedom(self, event: Event) -> None:
        """Right after an item became free, and at the same instant, it is offered to somebody or claimable by all."""
        since, self._to_be_said_since = self._to_be_said_since, None
        tells = event.kind in ("claimable", "offered")
        handed, self._handed_to = self._handed_to, event.data.get("to") if event.kind == "handed" else None
        if handed is not None and (event.kind, event.session) != ("claimed", handed):
            self._odd(f"event {event.number} ({event.kind}) stands where {handed} claims what it was handed")
        if since is not None and not (tells and event.at == since):
            self._odd(f"event {event.number} ({event.kind}) stands where it is told who can claim it")
        if event.kind == "claimable" and since is None and self.fields["offered_to"] is None:
            self._odd(f"event {event.number} says again that it can be claimed")
        before, offered = self.fields["status"], self.fields["offered_to"]
        if event.status == "ready" and not tells and event.kind != "handed":
            gone = event.kind == "offer_lapsed" or (event.kind == "restored" and offered is not None)
            if before != "ready" or gone:
                self._to_be_said_since = event.at

    def _claim(self, event: Event) -> None:
        if event.token != self.fields["token"] + 1:
            self._odd(f"token {event.token} follows token {self.fields['token']}")
        if not event.session or not event.agent:
            self._odd(f"event {event.number} does not say who claimed")
        if self.fields["offered_to"] not in (None, event.session):
            self._odd(f"event {event.number} gives {event.session} what is kept for {self.fields['offered_to']}")
        self.fields["attempts"] += 1
        self.fields["token"] = event.token
        self.open_token = event.token
        self.runs[event.token] = {
            "session": event.session,
            "agent": event.agent,
            "started_at": event.at,
            "ended_at": None,
            "outcome": None,
            **{name: {} for name in ("links", "cost", "checks")},
        }

    def _edit(self, event: Event) -> None:
        withdrawn = self.fields["approved"] and any(self._asks_again(name, event.data) for name in APPROVED_OF)
        for name, value in event.data.items():
            if name in ("needs_approval", "approved") and withdrawn:
                continue
            if name in ("offered_to", "offer_expires_at") and value is None and event.status != "ready":
                continue
            if name not in EDITABLE:
                self._odd(f"event {event.number} edits {name}")
            self.fields[name] = tuple(value) if isinstance(value, list) else value
        if withdrawn:
            self.fields.update(needs_approval=True, approved=False)

    def _asks_again(self, name: str, data: Mapping[str, Any]) -> bool:
        """Nobody approved of what the payload says about the subject elsewhere."""
        if name != "payload" or name not in data:
            return name in data
        before, after = ({**payload, "external": None} for payload in (self.fields[name], data[name]))
        return before != after

    def _annotate(self, event: Event) -> None:
        """What was learned of a run; of one that this history does not reach, no more is known."""
        run = self.runs.get(event.data["run"])
        if run is None:
            self._odd(f"event {event.number} annotates run {event.data['run']}, which never began")
            return
        if run.get("outcome", "unknown") is None and event.actor != run["agent"]:
            self._odd(f"event {event.number} annotates run {event.data['run']}, which has not ended")
        if run and (event.session, event.agent) != (run["session"], run["agent"]):
            self._odd(f"event {event.number} does not name the holder of run {event.data['run']}")
        for name in ("links", "checks", "cost"):
            if name in run:
                run[name] = {**run[name], **event.data.get(name, {})}

    def _end_run(self, event: Event) -> None:
        if self.open_token is None or event.kind in KEEPS_CLAIM:
            return
        run = self.runs[self.open_token]
        if event.token != self.open_token and event.kind != "restored":
            self._odd(f"event {event.number} ({event.kind}) has token {event.token}, the claim is {self.open_token}")
        if (event.session, event.agent) != (run["session"], run["agent"]):
            self._odd(f"event {event.number} ({event.kind}) does not name its holder {run['session']}")
        told = {name: event.data.get(name) for name in ("reason", "draft")}
        more = {name: {**run[name], **event.data.get(name, {})} for name in ("links", "cost", "checks")}
        run.update(ended_at=event.at, outcome=event.kind, **told, **more)
        self.open_token = None

    def _count(self, event: Event) -> None:
        if event.kind == "found":
            told = ("attempts", "strikes", "failures", "needs_approval", "approved")
            self.fields.update({name: event.data[name] for name in told if name in event.data})
            # Given by a clone alone, and its hub gave them to another.
            void_from = event.data.get("void_from", self.fields["token"] + 1)
            self.runs = {token: run for token, run in self.runs.items() if token < void_from}
            # It was claimed where this history does not reach; of those runs it says no more.
            self.runs.update({token: {} for token in event.data.get("runs", ()) if token not in self.runs})
        self.fields["strikes"] += event.kind in STRIKES
        self.fields["failures"] += event.kind == "failed"
        if event.kind == "retried":
            self.fields.update(strikes=0, failures=0, not_before=None)
        if event.kind == "reopened":
            self.fields.update(strikes=0, failures=0)
        if event.kind == "failed" and not self._is_over(event):
            self.fields["not_before"] = event.data.get("not_before")
            if not self.fields["not_before"] or self.fields["not_before"] < event.at:
                self._odd(f"event {event.number} is to be tried again at {self.fields['not_before']}")

    def _approval(self, event: Event) -> None:
        if event.kind == "submitted":
            # A result, which has no text of its own, leaves the approval of the work.
            self.fields.update(needs_approval=True, approved=self.fields["approved"] and "draft" not in event.data)
        elif event.kind in ("approved", "sent_back"):
            self.fields.update(needs_approval=False, approved=event.kind == "approved" or self.fields["approved"])
        elif event.kind == "reopened" and self.fields["approved"] and "approved" in event.data:
            # A move of its file keeps the approval that the file shows.
            self.fields.update(needs_approval=not self.fields["review"], approved=False)

    def _move(self, event: Event) -> None:
        if event.status not in self._leads_to(event):
            self._odd(f"event {event.number} ({event.kind}) leads to {event.status}")
        if event.kind in ("restored", "found", "reopened"):
            void_from = event.data.get("void_from")
            least = self.fields["token"] + (event.kind == "restored") if void_from is None else void_from - 1
            if event.token < least:
                self._odd(f"event {event.number} takes the token from {self.fields['token']} to {event.token}")
            self.fields["token"] = event.token
        elif event.token != self.fields["token"]:
            self._odd(f"event {event.number} ({event.kind}) has token {event.token}, not {self.fields['token']}")
        self.fields.update(status=event.status, updated_at=event.at, revision=event.number)
        if event.kind == "offered":
            if not event.session or not event.data.get("offer_expires_at", 0) > event.at:
                self._odd(f"event {event.number} does not say to whom it is offered, or until when")
            self.fields.update(offered_to=event.session, offer_expires_at=event.data.get("offer_expires_at"))
        elif event.status != "ready" or event.kind in ("claimable", "offer_lapsed", "restored"):
            self.fields.update(offered_to=None, offer_expires_at=None)

    def _leads_to(self, event: Event) -> frozenset[str] | set[str]:
        before, told = self.fields["status"], KINDS[event.kind][1]
        if before in HELD and event.kind in LETTING_GO and self._is_subject_over():
            return {"cancelled"} | ({"failed"} if ELSE.get(event.kind) == "failed" else set())
        if told == ANYWHERE:
            return self._rests(event) if event.status in RESTING else ENDED | {"parked"}
        if event.kind == "edited" and before in RESTING:
            return self._rests(event)
        if event.kind == "restored" and before in HELD:
            return self._rests(event)
        if event.kind == "failed":
            return {"failed"} if self._is_over(event) else self._rests(event)
        also = {ELSE[event.kind]} if event.kind in ELSE else set()
        return also | (self._rests(event) if told == REST else {before if told == SAME else told})

    def _is_over(self, failed: Event) -> bool:
        """Whether it is not tried again."""
        return "final" in failed.data or bool(self.fields["failures"] > self.fields["retries"])

    def _is_subject_over(self) -> bool:
        external = self.fields["payload"].get("external")
        return isinstance(external, dict) and isinstance(external.get("over"), str) and external["over"] != ""

    def _rests(self, event: Event) -> set[str]:
        """Where it may stay, as far as it can be said without a look at what it depends on."""
        if self.fields["needs_approval"]:
            return {"pending_approval"}
        due = self.fields["not_before"] is None or self.fields["not_before"] <= event.at
        return {"ready" if due else "scheduled"} | ({"blocked"} if self.fields["depends_on"] else set())

    def _odd(self, what: str) -> None:
        self.oddities.append(f"{self.item}: {what}")
