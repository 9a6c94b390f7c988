"""The claim path: claim, next, recover, heartbeat, and the ends of a run."""

from __future__ import annotations

import math

from tests.kit.reference.moving import Moving, No

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_TTL_SECONDS = 1800.0
STALE_SECONDS = 300.0
BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 30, 3600
LAPSED = ("expired", "owner_died")
#: How the run of a reviewed item ends when it is done.
RESULT = {"outcome": "submitted", "is_result": True}
#: verb of the holder -> (outcome of the run, status; None: where it rests)
ENDS: dict[str, tuple[str, str | None]] = {
    "release": ("released", None),
    "park": ("released", "parked"),
    "reject": ("rejected", "rejected"),
}


class Holding(Moving):
    def claim(self, item: str, session: str, ttl_seconds: float | None = None) -> int:
        self.session(session)
        claim = self.live(item)
        if claim is not None and claim["session"] == session:
            self._renew(item, ttl_seconds or DEFAULT_TTL_SECONDS, counted=False)
            return int(claim["token"])
        undo = self.undo(item)
        self.freshen(item)
        try:
            self._may_claim(item, session)
        except No:
            if self.items[item]["offered_to"] == session:
                # Who cannot accept an offer loses it to the next.
                self.drop_ticket(item, session)
                self.offer(item)
            else:
                undo()
            raise
        return self._give(item, session, ttl_seconds)

    def claim_subject(self, subject: str, session: str, ttl_seconds: float | None, new: str) -> tuple[str, int]:
        """The item of the subject, or `new`, which is there only if it is claimed."""
        self.session(session)
        item = self.of_subject(subject)
        if item is not None:
            return item, self.claim(item, session, ttl_seconds)
        try:
            self._room(session)
        except No as no:
            raise No(no.code, **no.facts, item=None, added=False) from no
        self.add(new, subject=subject)
        return new, self._give(new, session, ttl_seconds)

    def hand(self, item: str, to: str, session: str, token: int | None, ttl_seconds: float | None) -> int:
        """The claim ends and the other one claims, and nobody sees the item free in between."""
        self._fence(item, session, token)
        self.session(to)
        if to == session:
            raise No("INVALID", field="to")
        if self.rest(item) != "ready":
            raise No("TASK_NOT_CLAIMABLE", item=item)
        undo = self.undo(item)
        self.runs[item, self.claims.pop(item)["token"]]["outcome"] = "handed"
        self.items[item]["status"] = "ready"
        self.items[item]["revision"] += 1
        try:
            self._may_claim(item, to)
        except No:
            undo()
            raise
        return self._give(item, to, ttl_seconds)

    def recover(self, item: str, session: str, token: int | None) -> int:
        self.session(session)
        try:
            self._fence(item, session, token)
        except No as no:
            if no.code != "CLAIM_EXPIRED" or no.facts["taken_over_by"] is not None:
                raise
        return self.claim(item, session)

    def next(self, session: str, n: int, done: Mapping[str, int] | None = None) -> list[str]:
        self.session(session)
        self._end_all(session, done or {})
        room = self._room(session)
        for item in self.items:
            self.freshen(item)
        eligible = [
            item
            for item, row in self.items.items()
            if row["status"] == "ready" and row["offered_to"] is None and self._may_take(item, session)
        ]
        eligible.sort(key=lambda item: (-self.items[item]["priority"], self.items[item]["age"]))
        given = eligible[: n if room is None else min(n, room)]
        for item in given:
            self._give(item, session, None)
        return given

    def heartbeat(
        self,
        session: str,
        holding: Mapping[str, int | None] | None,
        known: float = math.inf,
        every_seconds: float | None = None,
    ) -> dict[str, Any]:
        """`known`: how many claims had been given when the caller listed what it holds."""
        self.session(session)
        held = self.held(session)
        missing = set() if holding is None else held - set(holding)
        forgotten = {item for item in missing if self.claims[item]["number"] <= known}
        for item in forgotten:
            self.end(item, "forgotten", self.rest(item))
        due = {item for item in held - forgotten if self._is_due(every_seconds, self.claims[item])}
        for item in due:
            self._renew(item)
        for (_, who), soft in self.soft.items():
            since = {"renewed_at": soft["expires_at"] - round(soft["ttl"] * 1000), "ttl": soft["ttl"]}
            if who == session and self.now < soft["expires_at"] and self._is_due(every_seconds, since):
                soft["expires_at"] = self.now + round(soft["ttl"] * 1000)
        lapsed = {item: claim["token"] for item, claim in self.claims.items() if claim["session"] == session}
        lost = {}
        for item, token in (lapsed if holding is None else holding).items():
            try:
                self._fence(item, session, token)
            except No as no:
                lost[item] = no.code
        return {"renewed": {item: item in due for item in held - forgotten}, "forgotten": forgotten, "lost": lost}

    def renew(self, item: str, session: str, token: int | None) -> int:
        self._fence(item, session, token)
        return self._renew(item)

    def progress(self, item: str, session: str, token: int | None) -> int:
        self._fence(item, session, token)
        self.move(item, "in_progress")
        return self._renew(item)

    def finish(self, verb: str, item: str, session: str, token: int | None) -> str:
        """Release, park, done or reject."""
        self._fence(item, session, token)
        if verb == "done" and self._only_drafts(session):
            raise No("FORBIDDEN", agent=self.sessions[session]["agent"])
        if verb == "done":
            self._end_as_done(item)
        else:
            outcome, status = ENDS[verb]
            self.end(item, outcome, status or self.rest(item))
        return str(self.items[item]["status"])

    def _end_as_done(self, item: str) -> None:
        if self.items[item]["review"]:
            self.runs[item, self.items[item]["token"]]["is_result"] = True
            self.items[item].update(needs_approval=True)
            self.end(item, "submitted", "pending_approval")
        else:
            self.end(item, "done", "done")

    def submit(self, item: str, session: str, token: int | None) -> str:
        self._fence(item, session, token)
        self.items[item].update(needs_approval=True, approved=False)
        self.end(item, "submitted", "pending_approval")
        return "pending_approval"

    def fail(self, item: str, session: str, token: int | None, drawn: int | None) -> str:
        """`drawn` is when the board means to try again: any instant within the backoff will do."""
        self._fence(item, session, token)
        row = self.items[item]
        row["failures"] += 1
        again = row["failures"] <= row["retries"]
        if again:
            ceiling = min(BACKOFF_SECONDS * 2 ** (row["failures"] - 1), BACKOFF_SECONDS_MAX)
            assert drawn is not None, f"{item} is not to be tried again"
            assert 0 <= drawn - self.now <= ceiling * 1000, f"{item} is tried again after {drawn - self.now} ms"
            row["not_before"] = drawn
        self.end(item, "failed", self.rest(item) if again else "failed")
        return str(row["status"])

    def force_release(self, item: str, token: int | None) -> None:
        self.freshen(item)
        claim = self.claims.get(item)
        if claim is None:
            raise No("TASK_NOT_CLAIMED", status=self.items[item]["status"])
        if token not in (None, claim["token"]):
            raise No("NOT_CLAIM_OWNER", holder=claim["session"])
        self.end(item, "force_released", self.rest(item))

    def sweep(self) -> dict[str, set[str]]:
        rows = self.items.items()
        swept = {
            "expired": {item for item in self.claims if self.live(item) is None},
            "due": {item for item, row in rows if row["status"] == "scheduled" and row["not_before"] <= self.now},
            "offers": {item for item, row in rows if row["offered_to"] and row["offer_expires_at"] <= self.now},
        }
        for item in self.items:
            self.freshen(item)
            offered = self.items[item]["offered_to"]
            alive = self.waiters(item)
            self.tickets[item] = [one for one in self.tickets[item] if one in alive or one["session"] == offered]
        self.soft = {key: soft for key, soft in self.soft.items() if self.now < soft["expires_at"]}
        return swept

    # What the verbs are made of

    def _may_claim(self, item: str, session: str) -> None:
        row, claim = self.items[item], self.claims.get(item)
        if claim is not None:
            raise No("TASK_ALREADY_CLAIMED", holder=claim["session"])
        if row["status"] not in ("ready", "parked") or self.rest(item) != "ready":
            raise No("TASK_NOT_CLAIMABLE", status=row["status"])
        if row["offered_to"] not in (None, session):
            raise No("TASK_NOT_CLAIMABLE", offered_to=row["offered_to"])
        if not self._may_take(item, session):
            raise No("FORBIDDEN", agent=self.sessions[session]["agent"])
        self._room(session)

    def _may_take(self, item: str, session: str) -> bool:
        """Who may only draft is not handed what was approved."""
        return not (self.items[item]["approved"] and self._only_drafts(session))

    def _only_drafts(self, session: str) -> bool:
        return self.sessions[session]["agent"] in self.drafters

    def _room(self, session: str) -> int | None:
        agent = self.sessions[session]["agent"]
        of_agent = sum(len(self.held(one)) for one, row in self.sessions.items() if row["agent"] == agent)
        left = []
        for most, held in zip(self.limits[agent], (len(self.held(session)), of_agent), strict=True):
            if most is not None and held >= most:
                raise No("AGENT_AT_CAPACITY", held=held, max_claims=most)
            left += [] if most is None else [most - held]
        return min(left, default=None)

    def _end_all(self, session: str, finished: Mapping[str, int]) -> None:
        """All of them as done, or nothing, with the item that stood in the way among the facts."""
        was_done = ({"session": session, "outcome": "done"}, {"session": session, **RESULT})
        going_on = {item for item, token in finished.items() if self.runs.get((item, token)) not in was_done}
        for item in sorted(going_on):
            try:
                self._fence(item, session, finished[item])
                if self._only_drafts(session):
                    raise No("FORBIDDEN", agent=self.sessions[session]["agent"])
            except No as no:
                raise No(no.code, **no.facts, item=item) from no
        for item in sorted(going_on):
            self._end_as_done(item)

    def _fence(self, item: str, session: str, token: int | None) -> None:
        claim = self.live(item)
        mine = [number for (of, number), run in self.runs.items() if of == item and run["session"] == session]
        asked = (max(mine) if mine else None) if token is None else token if token in mine else None
        if asked is None:
            self.session(session)
        if token is not None and token > self.items[item]["token"]:
            raise No("INVALID", field="token")
        if claim is not None and claim["session"] == session and token in (None, claim["token"]):
            return
        if asked is not None:
            raise self._over(item, asked, claim)
        if claim is not None:
            raise No("NOT_CLAIM_OWNER", holder=claim["session"])
        raise No("TASK_NOT_CLAIMED", how="never_claimed")

    def _over(self, item: str, token: int, claim: dict[str, Any] | None) -> No:
        how = self.runs[item, token]["outcome"] or "expired"
        if how in LAPSED:
            latest = self.items[item]["token"]
            return No("CLAIM_EXPIRED", taken_over_by=None if latest == token else self.runs[item, latest]["session"])
        if claim is not None:
            return No("NOT_CLAIM_OWNER", holder=claim["session"], how=how)
        return No("TASK_NOT_CLAIMED", how=how)

    def _give(self, item: str, session: str, ttl_seconds: float | None) -> int:
        self.items[item]["token"] += 1
        self.items[item]["attempts"] += 1
        token: int = self.items[item]["token"]
        self.runs[item, token] = {"session": session, "outcome": None}
        self.claims[item] = {
            "session": session,
            "token": token,
            "deadline_at": self.now + round(self.items[item]["timeout"] * 1000),
            "beats": -1,
            "number": self.given + 1,
        }
        self.given += 1
        self._renew(item, ttl_seconds or DEFAULT_TTL_SECONDS)
        self.drop_ticket(item, session)
        self.move(item, "in_progress")
        return token

    def _renew(self, item: str, ttl_seconds: float | None = None, *, counted: bool = True) -> int:
        claim = self.claims[item]
        claim["ttl"] = ttl_seconds or claim["ttl"]
        claim["beats"] += counted
        claim["renewed_at"] = self.now
        claim["expires_at"] = min(self.now + round(claim["ttl"] * 1000), claim["deadline_at"])
        return int(claim["expires_at"])

    def _is_due(self, every_seconds: float | None, kept: Mapping[str, Any]) -> bool:
        """Three times in its TTL, and before it looks stale, whatever is said; what was renewed by a clock that was set
        back since, at once."""
        if every_seconds is None or self.now < kept["renewed_at"]:
            return True
        every_seconds = min(every_seconds, kept["ttl"] / 3, STALE_SECONDS / 3)
        return bool(self.now - kept["renewed_at"] >= round(every_seconds * 1000))
