"""The claim path on PostgreSQL: each verb is one call of an SQL function. Its answer is the result, or the facts of a
refusal."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dibs import randomness
from dibs.model import READY, Ended, Finished, Grant, Renewal
from dibs.rules.fencing import counted_interval
from dibs.rules.refusals import request_reused
from dibs.store.postgres import answers
from dibs.store.postgres.calls import (
    CLAIM,
    DONE,
    FINISH,
    FORCE_RELEASE,
    HEARTBEAT,
    NEXT,
    PROGRESS,
    RENEW,
    SWEEP,
    claim_past_dead_owners,
)
from dibs.store.sql.dispatch import past_dead_owners
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from dibs.config import Settings
    from dibs.model import Heartbeat, Owner, Request, Sweep
    from dibs.store.postgres.lane_hints import LaneHints


class ClaimPath(ABC):
    settings: Settings
    _hints: LaneHints
    _settings_row: str
    reap_dead_owners: Callable[[], bool]

    @abstractmethod
    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]: ...

    @abstractmethod
    def notify(self, *, urgent: bool = False) -> None:
        """Wake waiting clients after a change; `urgent`: an item became claimable."""

    @past_dead_owners
    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self._claim(item, session, agent, ttl_seconds, request)

    @past_dead_owners
    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self._claim(item, session, None, ttl_seconds, request, recover=True, token=token)

    def _claim(
        self,
        item: str,
        session: str,
        agent: str | None,
        ttl_seconds: float | None,
        request: Request | None,
        *,
        recover: bool = False,
        token: int | None = None,
    ) -> Grant:
        call_id = _call_id(request)
        whose = (item, session, agent, ttl_seconds, recover, token)
        sent = (*whose, self._settings_row, _request(request, call_id))
        # Repeatable, because a session that claims again gets the same claim.
        answer = claim_past_dead_owners(
            lambda keeps_offer: self.call(CLAIM, *sent, keeps_offer, repeatable=True), self.reap_dead_owners
        )
        if (kept := answers.kept(answer, Grant)) is not None:
            return kept
        if _is_refused_repeat(answer, "run", call_id) and _is_held_by(answer, session):
            # The first attempt recovered the item, and its answer was lost.
            return self._claim(item, session, agent, ttl_seconds, None).replace(renewed=False)
        asked = {"session": session, "agent": agent, "ttl_seconds": ttl_seconds, "token": token, "item_id": item}
        self._raise_refusal(answer, request, **asked)
        self.notify()
        return answers.grant(answer)

    @past_dead_owners
    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        labels: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        finished = done or {}
        returns, thorough, lanes, lows = self._hints.hints()
        answer = self.call(
            *(NEXT, session, agent, list(types), list(projects), n, ttl_seconds, lanes, lows, thorough),
            *(self._settings_row, _request(request), list(finished), list(finished.values()), list(labels)),
            request is None,
            repeatable=request is not None,
        )
        if (kept := answers.kept_many(answer, Grant)) is not None:
            return kept
        if answer.get("moved"):
            self._hints.forget()
        # Before a refusal is raised: items in `done` have ended even if a limit refuses another item.
        if answer.get("ended") or answer.get("rows") or answer.get("grants"):
            self.notify(urgent=bool(answer.get("moved")))
        asked = {"session": session, "agent": agent, "ttl_seconds": ttl_seconds}
        self._raise_refusal(answer, request, **asked, token=answer.get("token"), item_id=answer.get("item"))
        self._hints.learn(answer, returns)
        return answers.grants(answer)

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Heartbeat:
        items = None if holding is None else list(holding)
        tokens = None if holding is None else list(holding.values())
        every = counted_interval(at_most_every_seconds, self.settings)
        sent = (session, items, tokens, self._settings_row, known_event, every, _json(meta))
        answer = self.call(HEARTBEAT, *sent, repeatable=True)
        self._raise_refusal(answer, None, session=session)
        if answer["forgotten"]:
            self._hints.forget()
            self.notify(urgent=True)
        return answers.heartbeat(answer, session, self.settings)

    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        every = counted_interval(at_most_every_seconds, self.settings)
        sent = (item, session, token, ttl_seconds, self._settings_row, every)
        answer = self.call(RENEW, *sent, repeatable=True)
        self._raise_refusal(answer, None, session=session, token=token, ttl_seconds=ttl_seconds, item_id=item)
        return answers.renewal(answer, self.settings)

    def progress(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str,
        meta: Mapping[str, Any],
        request: Request | None = None,
    ) -> Renewal:
        sent = (item, session, token, note, _json(meta) or "{}", self._settings_row, _request(request))
        answer = self.call(PROGRESS, *sent, repeatable=request is not None)
        if (kept := answers.kept(answer, Renewal)) is not None:
            return kept
        self._raise_refusal(answer, request, session=session, token=token, item_id=item)
        self.notify()
        return answers.renewal(answer, self.settings)

    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request: Request | None = None,
    ) -> Ended:
        return self._finish("release", item, session, token, reason, request, park=park)

    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        answer = self._done_each({item: token}, session, note, _json(links), _json(cost), request, many=False)
        if (kept := answers.kept(answer, Ended)) is not None:
            return kept
        (one,) = answer["each"]
        self._raise_refusal(one["answer"], request, session=session, token=token, item_id=item)
        return answers.ended(one["answer"])

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        answer = self._done_each(holding, session, None, None, None, request, many=True)
        kept = answers.kept(answer, Finished)
        return answers.finished(answer) if kept is None else kept

    def _done_each(
        self,
        holding: Mapping[str, int | None],
        session: str,
        note: str | None,
        links: str | None,
        cost: str | None,
        request: Request | None,
        *,
        many: bool,
    ) -> dict[str, Any]:
        # Not repeatable without a token: a repeat could end the session's next claim of the item.
        repeatable = None not in holding.values()
        call_id = _call_id(request) if repeatable else None
        answer = self.call(
            *(DONE, list(holding), list(holding.values()), session, note, links, cost, many),
            *(self._settings_row, _request(request, call_id)),
            repeatable=repeatable or request is not None,
        )
        if "wire" in answer:
            return answer
        self._raise_refusal(answer, request, session=session)
        moved = bool(answer["moved"])
        for one in answer["each"]:
            if _is_refused_repeat(one["answer"], "asked", call_id):
                one["answer"] = _answer_of_first_attempt(one["answer"])
                moved = True
        if moved:
            self._hints.forget()
        self.notify(urgent=moved)
        return answer

    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        return self._finish("fail", item, session, token, reason, request, links=links, cost=cost)

    def submit(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        draft: str,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        return self._finish("submit", item, session, token, note, request, draft=draft, links=links, cost=cost)

    def force_release(
        self, item: str, *, actor: str, reason: str, token: int | None = None, request: Request | None = None
    ) -> Ended:
        sent = (item, actor, reason, token, self._settings_row, _request(request))
        answer = self.call(FORCE_RELEASE, *sent, repeatable=request is not None)
        if (kept := answers.kept(answer, Ended)) is not None:
            return kept
        if answer.get("no") == "REQUEST_REUSED" and request is not None:
            raise request_reused(request)
        if "no" in answer:
            # The refused call may have recorded an expiry.
            self._hints.forget()
            raise answers.force_release_refusal(answer, actor=actor, reason=reason, token=token, item_id=item)
        return self._ended(answer)

    def _sweep(self, dead: Sequence[tuple[str, Owner]], limit: int) -> Sweep:
        sent = json_text.dumps([[session, owner.as_dict()] for session, owner in dead])
        swept = answers.sweep(self.call(SWEEP, sent, limit, self._settings_row, repeatable=True))
        if swept.expired or swept.owner_died or swept.due or swept.offers:
            self._hints.forget()
            self.notify(urgent=True)
        return swept

    def _finish(
        self,
        verb: str,
        item: str,
        session: str,
        token: int | None,
        reason: str | None,
        request: Request | None,
        *,
        park: bool = False,
        draft: str | None = None,
        links: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> Ended:
        # Not repeatable without a token: a repeat could end the session's next claim of the item.
        call_id = _call_id(request) if token is not None else None
        answer = self.call(
            *(FINISH, verb, item, session, token, reason, park, draft, _json(links), _json(cost), randomness.uniform()),
            *(self._settings_row, _request(request, call_id)),
            repeatable=token is not None or request is not None,
        )
        if (kept := answers.kept(answer, Ended)) is not None:
            return kept
        if _is_refused_repeat(answer, "asked", call_id):
            answer = _answer_of_first_attempt(answer)
        self._raise_refusal(answer, request, session=session, token=token, item_id=item)
        return self._ended(answer)

    def _ended(self, answer: dict[str, Any]) -> Ended:
        is_ready = answer["item"]["status"] == READY
        if is_ready:
            self._hints.item_returned(answer["item"])
        self.notify(urgent=is_ready)
        return answers.ended(answer)

    def _raise_refusal(self, answer: dict[str, Any], request: Request | None, **asked: Any) -> None:
        if "no" not in answer:
            return
        if answer["no"] == "REQUEST_REUSED" and request is not None:
            raise request_reused(request)
        raise answers.refusal(answer, settings=self.settings, **asked)


def _json(data: Mapping[str, Any] | None) -> str | None:
    return json_text.dumps(json_text.as_object(data)) if data else None


def _call_id(request: Request | None) -> str | None:
    """An id that all attempts of one call share. A call with a request does not need it: its answer is kept."""
    return randomness.request_id() if request is None else None


def _request(request: Request | None, call_id: str | None = None) -> list[str] | None:
    if request is None:
        return None if call_id is None else [call_id]
    return [request.actor, request.id, request.fingerprint]


def _is_held_by(answer: dict[str, Any], session: str) -> bool:
    claim = answer["claim"]
    return claim is not None and claim["session"] == session and claim["expires_at"] > answer["now"]


def _is_refused_repeat(answer: dict[str, Any], run: str, call_id: str | None) -> bool:
    """Whether the call was refused because an earlier attempt of the same call opened or ended this run."""
    if call_id is None or answer.get("no") != "FENCED" or answer[run] is None:
        return False
    return bool(answer[run]["call_id"] == call_id)


def _answer_of_first_attempt(answer: dict[str, Any]) -> dict[str, Any]:
    return {"item": answer["item"], "run": answer["asked"]}
