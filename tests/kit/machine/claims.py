"""The part of the state machine that claims: sessions, the claim path, and time."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.kit.comparison import SESSIONS
from tests.kit.machine.driving import Driven, actors, items, sessions, spans, tokens, ttls


class Claims(Driven):
    # Sessions

    @rule(session=sessions, chance=st.integers(0, 3))
    def end_session(self, session: str, chance: int) -> None:
        def ended() -> set[str]:
            lapsed = {item for item in self.model.claims if self.model.live(item) is None}
            return set(self.board.end_session(session).released) - lapsed

        if chance:
            self.both.start(session)  # so that most of them are alive most of the time
        else:
            self.agree("end_session", lambda: self.model.end_session(session), ended, told=True)

    @rule(session=sessions, parent=sessions, ends=st.booleans())
    def start_child(self, session: str, parent: str, ends: bool) -> None:
        """A session that has most often just ended becomes a child."""
        if ends and self.model.sessions[session]["live"]:
            self.end_session(session, 0)
        agent = session.partition("-")[0]
        self.agree(
            "start_child",
            lambda: self.model.start_session(session, agent, parent),
            lambda: self.board.start_session(agent, id=session, parent=parent).parent,
            told=True,
        )

    # The claim path

    @rule(item=items, session=sessions, ttl_seconds=ttls)
    def claim(self, item: int, session: str, ttl_seconds: float | None) -> None:
        id = self.both.item(item)
        self.agree(
            "claim",
            lambda: self.model.claim(id, session, ttl_seconds),
            lambda: self.board.claim(id, session=session, ttl_seconds=ttl_seconds).claim.token,
            told=True,
        )

    @rule(item=items, session=sessions)
    def claim_more(self, item: int, session: str) -> None:
        """Again, since without claims there is little to see."""
        self.claim(item, session, 60.0)

    @rule(item=items, who=actors, which=tokens, to=sessions, ttl_seconds=ttls)
    def hand(self, item: int, who: str, which: str, to: str, ttl_seconds: float | None) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.agree(
            "hand",
            lambda: self.model.hand(id, to, session, token, ttl_seconds),
            lambda: self.board.hand(id, to=to, session=session, token=token, ttl_seconds=ttl_seconds).claim.token,
            told=True,
        )

    @rule(session=sessions, n=st.integers(1, 3))
    def next(self, session: str, n: int) -> None:
        self.agree(
            "next",
            lambda: self.model.next(session, n),
            lambda: [grant.item.id for grant in self.other.next(session=session, n=n)],
            told=True,
        )

    @rule(item=items, who=actors, which=tokens, more=st.booleans(), n=st.integers(1, 2))
    def finish_and_next(self, item: int, who: str, which: str, more: bool, n: int) -> None:
        """One item is finished, or with `more` all that its session holds, and what it ended last."""
        id, session, token = self.both.shown(item, who, which)
        done = {id: token or 1}
        if more:
            done |= {other: claim["token"] for other, claim in self.model.claims.items() if claim["session"] == session}
            mine = [key for key, run in self.model.runs.items() if run == {"session": session, "outcome": "done"}]
            done |= dict(mine[-1:])
        self.agree(
            "finish_and_next",
            lambda: self.model.next(session, n, done),
            lambda: [grant.item.id for grant in self.other.next(session=session, n=n, done=done)],
            told=True,
        )

    @rule(n=st.integers(1, 3))
    def next_for_two_of_one_agent(self, n: int) -> None:
        for session in SESSIONS[:2]:
            self.next(session, n)

    @rule(item=items, who=actors, which=tokens)
    def recover(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.agree(
            "recover",
            lambda: self.model.recover(id, session, token),
            lambda: self.board.recover(id, session=session, token=token).claim.token,
            told=True,
        )

    @rule(
        session=sessions,
        holding=st.none() | st.dictionaries(items, tokens, max_size=3),
        late=st.booleans(),
        every_seconds=st.sampled_from((None, None, 60.0, 7200.0)),
        meta=st.sampled_from((None, {"a": 1}, {"a": None, "b": 2})),
    )
    def heartbeat(
        self,
        session: str,
        holding: dict[int, str] | None,
        late: bool,
        every_seconds: float | None,
        meta: dict[str, Any] | None,
    ) -> None:
        believed: dict[str, int | None] | None = None
        if holding is not None:
            shown = (self.both.shown(item, session, which) for item, which in holding.items())
            believed = {id: token for id, _, token in shown}
        self._heartbeat(session, believed, late=late, every_seconds=every_seconds, meta=meta)

    @rule(number=items, milliseconds=st.sampled_from((-1, 0, 0, 1)), named=st.booleans())
    def heartbeat_at_the_end(self, number: int, milliseconds: int, named: bool) -> None:
        """The holder of something says that it is alive when its claim ends, or just before or after that."""
        id, session, token = self.both.shown(number, "holder", "latest")
        claim = self.model.live(id)
        if claim is not None:
            self.both.let_pass((claim["expires_at"] - self.model.now + milliseconds) / 1000)
        self._heartbeat(session, {id: token} if named else None)

    @rule(item=items, who=actors, which=tokens)
    def renew(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.agree(
            "renew",
            lambda: self.model.renew(id, session, token),
            lambda: self.other.renew(id, session=session, token=token).expires_at,
            told=True,
        )

    @rule(item=items, who=actors, which=tokens)
    def progress(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.agree(
            "progress",
            lambda: self.model.progress(id, session, token),
            lambda: self.board.progress(id, "note", session=session, token=token).expires_at,
            told=True,
        )

    @rule(
        verb=st.sampled_from(("release", "release", "park", "done", "done", "reject")),
        item=items,
        who=actors,
        which=tokens,
    )
    def finish(self, verb: str, item: int, who: str, which: str) -> None:
        self._finish(verb, *self.both.shown(item, who, which))

    @rule(item=items, who=actors, which=tokens)
    def fail(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        drawn: list[int | None] = []

        def fail() -> str:
            ended = self.board.fail(id, session=session, token=token)
            drawn.append(ended.item.not_before)
            return ended.item.status

        self.agree("fail", lambda: self.model.fail(id, session, token, drawn[0] if drawn else None), fail, told=True)

    @rule(item=items, who=actors, which=tokens)
    def submit(self, item: int, who: str, which: str) -> None:
        id, session, token = self.both.shown(item, who, which)
        self.agree(
            "submit",
            lambda: self.model.submit(id, session, token),
            lambda: self.board.submit(id, session=session, token=token, draft="so").item.status,
            told=True,
        )

    @rule(item=items, which=tokens)
    def force_release(self, item: int, which: str) -> None:
        id, _, token = self.both.shown(item, "holder", which)
        self.agree(
            "force_release",
            lambda: self.model.force_release(id, token),
            lambda: self.board.force_release(id, reason="machine", token=token),
        )

    @rule()
    def sweep(self) -> None:
        def sweep() -> dict[str, set[str]]:
            swept = self.board.sweep()
            return {"expired": set(swept.expired), "due": set(swept.due), "offers": set(swept.offers)}

        self.agree("sweep", self.model.sweep, sweep, told=True)

    @rule(seconds=spans)
    def let_time_pass(self, seconds: float) -> None:
        self.both.let_pass(seconds)

    @rule(milliseconds=st.sampled_from((-1, 0, 0, 1)))
    def let_time_come_to_an_end(self, milliseconds: int) -> None:
        """To the millisecond at which the next claim, offer, ticket or schedule ends, or one beside it."""
        ends = [claim["expires_at"] for claim in self.model.claims.values()]
        ends += [ticket["expires_at"] for tickets in self.model.tickets.values() for ticket in tickets]
        for item in self.model.items.values():
            ends += [item[name] for name in ("not_before", "offer_expires_at") if item[name] is not None]
        ahead = [end - self.model.now for end in ends if end > self.model.now]
        self.both.let_pass((min(ahead, default=1000) + milliseconds) / 1000)

    def _heartbeat(
        self,
        session: str,
        believed: dict[str, int | None] | None,
        *,
        late: bool = False,
        every_seconds: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """`late`: sent when the session's heartbeat before it was answered. Only twins compare `meta`."""
        known_events: dict[str, tuple[int | None, int]] = self.model.known_events
        event, given = known_events.get(session, (0, 0)) if late and believed is not None else (None, math.inf)

        def beat() -> dict[str, Any]:
            answer = self.other.heartbeat(
                session=session, holding=believed, known_event=event, at_most_every_seconds=every_seconds, meta=meta
            )
            known_events[session] = (answer.event, self.model.given)
            return {
                "renewed": {one.item: one.renewed for one in answer.renewed},
                "forgotten": set(answer.forgotten),
                "lost": {one.item: one.code for one in answer.lost},
            }

        self.agree("heartbeat", lambda: self.model.heartbeat(session, believed, given, every_seconds), beat, told=True)

    def _finish(self, verb: str, id: str, session: str, token: int | None) -> None:
        known: dict[str, Any] = {"session": session, "token": token}

        def finish() -> str:
            if verb == "reject":
                return self.board.reject(id, reason="no", **known).status
            if verb == "done":
                return self.board.done(id, **known).item.status
            return self.board.release(id, park=verb == "park", **known).item.status

        self.agree(verb, lambda: self.model.finish(verb, id, session, token), finish, told=True)
