"""A small model of the board, to compare a real one with: plain dicts, one process, no storage, no shared code.

Every verb either returns what matters of its answer or raises `No` with the code and what the caller must be told. Time
is whatever `now` says. One thing is left open, as the contract leaves it open: when an expiry is written down. A claim
past its end stays in `claims` until a verb has to record it, or until `noticed` is told that the board has.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_STRIKES = 5
DEFAULT_TTL_SECONDS = 1800.0
LAPSED = ("expired", "owner_died")


class No(Exception):
    """A refusal: its code, and the facts that the caller is told."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(code, facts)
        self.code, self.facts = code, facts


class Reference:
    def __init__(self, now: int) -> None:
        self.now = now
        self.items: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.runs: dict[tuple[str, int], dict[str, Any]] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        self.limits: dict[str, int | None] = {}

    # Items

    def add(self, item: str, priority: int, timeout_seconds: float) -> None:
        first = {"status": "ready", "token": 0, "strikes": 0, "attempts": 0, "revision": 1}
        self.items[item] = {**first, "priority": priority, "age": len(self.items), "timeout": timeout_seconds}

    def edit(self, item: str, priority: int) -> None:
        if self.items[item]["priority"] != priority:
            self.items[item]["priority"] = priority
            self.items[item]["revision"] += 1

    def cancel(self, item: str) -> None:
        if self.items[item]["status"] not in ("ready", "in_progress"):
            raise No("TASK_NOT_CLAIMABLE", status=self.items[item]["status"])
        if item in self.claims:
            self._end(item, "cancelled", "cancelled")
        else:
            self._move(item, "cancelled")

    def retry(self, item: str) -> None:
        if self.items[item]["status"] != "failed":
            raise No("TASK_NOT_CLAIMABLE", status=self.items[item]["status"])
        self.items[item]["strikes"] = 0
        self._move(item, "ready")

    # Sessions

    def start_session(self, session: str, agent: str) -> None:
        self.sessions[session] = {"agent": agent, "live": True}
        self.limits.setdefault(agent, None)

    def end_session(self, session: str) -> set[str]:
        self._session(session)
        held = self._held(session)
        for item in [item for item, claim in self.claims.items() if claim["session"] == session]:
            self._end(item, "released", "ready") if item in held else self._expire(item)
        self.sessions[session]["live"] = False
        return held

    # The claim path

    def claim(self, item: str, session: str, ttl_seconds: float | None = None) -> int:
        self._session(session)
        claim = self.live(item)
        if claim is not None and claim["session"] == session:
            self._renew(item, ttl_seconds or DEFAULT_TTL_SECONDS, counted=False)
            return int(claim["token"])
        if claim is not None:
            raise No("TASK_ALREADY_CLAIMED", holder=claim["session"])
        if item in self.claims:
            self._expire(item)
        if self.items[item]["status"] != "ready":
            raise No("TASK_NOT_CLAIMABLE", status=self.items[item]["status"])
        self._room(session)
        return self._give(item, session, ttl_seconds)

    def recover(self, item: str, session: str, token: int | None) -> int:
        try:
            self._fence(item, session, token)
        except No as no:
            if no.code != "CLAIM_EXPIRED" or no.facts["taken_over_by"] is not None:
                raise
        return self.claim(item, session)

    def next(self, session: str, n: int) -> list[str]:
        self._session(session)
        room = self._room(session)
        eligible = [item for item in self.items if self._eligible(item)]
        eligible.sort(key=lambda item: (-self.items[item]["priority"], self.items[item]["age"]))
        given = eligible[: n if room is None else min(n, room)]
        for item in given:
            if item in self.claims:
                self._expire(item)
            self._give(item, session, None)
        return given

    def heartbeat(self, session: str, holding: Mapping[str, int | None] | None) -> dict[str, Any]:
        self._session(session)
        held = self._held(session)
        forgotten = set() if holding is None else held - set(holding)
        for item in forgotten:
            self._end(item, "forgotten", "ready")
        for item in held - forgotten:
            self._renew(item)
        lapsed = {item: claim["token"] for item, claim in self.claims.items() if claim["session"] == session}
        lost = {}
        for item, token in (lapsed if holding is None else holding).items():
            try:
                self._fence(item, session, token)
            except No as no:
                lost[item] = no.code
        return {"renewed": held - forgotten, "forgotten": forgotten, "lost": lost}

    def renew(self, item: str, session: str, token: int | None) -> int:
        self._fence(item, session, token)
        return self._renew(item)

    def progress(self, item: str, session: str, token: int | None) -> int:
        self._fence(item, session, token)
        self._move(item, "in_progress")
        return self._renew(item)

    def end(self, verb: str, item: str, session: str, token: int | None) -> str:
        """Release, done or fail."""
        self._fence(item, session, token)
        outcome, status = {"release": ("released", "ready"), "done": ("done", "done"), "fail": ("failed", "failed")}[
            verb
        ]
        self._end(item, outcome, status)
        return status

    def force_release(self, item: str, token: int | None) -> None:
        claim = self.claims.get(item)
        if claim is None:
            raise No("TASK_NOT_CLAIMED", status=self.items[item]["status"])
        if token not in (None, claim["token"]):
            raise No("NOT_CLAIM_OWNER", holder=claim["session"])
        self._end(item, "force_released", "ready")

    def sweep(self) -> set[str]:
        lapsed = {item for item in self.claims if self.live(item) is None}
        for item in lapsed:
            self._expire(item)
        return lapsed

    def noticed(self, item: str) -> None:
        """The board has written down an expiry that this model knew of."""
        self._expire(item)

    # What the verbs are made of

    def _session(self, session: str) -> None:
        if not self.sessions[session]["live"]:
            raise No("SESSION_NOT_FOUND")

    def live(self, item: str) -> dict[str, Any] | None:
        claim = self.claims.get(item)
        return claim if claim is not None and self.now < claim["expires_at"] else None

    def _held(self, session: str) -> set[str]:
        return {item for item, claim in self.claims.items() if claim["session"] == session and self.live(item)}

    def _room(self, session: str) -> int | None:
        limit = self.limits[self.sessions[session]["agent"]]
        if limit is None:
            return None
        if len(self._held(session)) >= limit:
            raise No("AGENT_AT_CAPACITY", held=len(self._held(session)))
        return limit - len(self._held(session))

    def _eligible(self, item: str) -> bool:
        if item in self.claims:
            return self.live(item) is None and self.items[item]["strikes"] + 1 < MAX_STRIKES
        return bool(self.items[item]["status"] == "ready")

    def _fence(self, item: str, session: str, token: int | None) -> None:
        claim = self.live(item)
        mine = [number for (of, number), run in self.runs.items() if of == item and run["session"] == session]
        asked = (max(mine) if mine else None) if token is None else token if token in mine else None
        if asked is None:
            self._session(session)
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
        }
        self._renew(item, ttl_seconds or DEFAULT_TTL_SECONDS)
        self._move(item, "in_progress")
        return token

    def _renew(self, item: str, ttl_seconds: float | None = None, *, counted: bool = True) -> int:
        claim = self.claims[item]
        claim["ttl"] = ttl_seconds or claim["ttl"]
        claim["beats"] += counted
        claim["expires_at"] = min(self.now + round(claim["ttl"] * 1000), claim["deadline_at"])
        return int(claim["expires_at"])

    def _expire(self, item: str) -> None:
        self.items[item]["strikes"] += 1
        self._end(item, "expired", "failed" if self.items[item]["strikes"] >= MAX_STRIKES else "ready")

    def _end(self, item: str, outcome: str, status: str) -> None:
        self.runs[item, self.claims.pop(item)["token"]]["outcome"] = outcome
        self._move(item, status)

    def _move(self, item: str, status: str) -> None:
        self.items[item]["status"] = status
        self.items[item]["revision"] += 1
