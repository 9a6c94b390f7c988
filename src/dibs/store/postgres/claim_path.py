"""The claim path on PostgreSQL: each verb is one call of a function, with the facts of a refusal in its answer."""

from __future__ import annotations

import os
from abc import abstractmethod

from dibs import jsontext
from dibs.model import READY, Ended, Finished, Grant, Renewal
from dibs.rules.holding import counted_interval
from dibs.store.postgres import answers
from dibs.store.tables.requests import reused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.config import Settings
    from dibs.model import Heartbeat, Owner, Request, Sweep
    from dibs.store.postgres.lanes import Lanes

CLAIM = (
    "SELECT dibs.claim(%s::text, %s::text, %s::text, %s::double precision, %s::boolean, %s::bigint, %s::dibs.settings,"
    " %s::text[])"
)
NEXT = (
    "SELECT dibs.next(%s::text, %s::text, %s::text[], %s::text[], %s::bigint, %s::double precision,"
    " %s::integer[], %s::bigint[], %s::boolean, %s::dibs.settings, %s::text[], %s::text[], %s::bigint[])"
)
HEARTBEAT = (
    "SELECT dibs.heartbeat(%s::text, %s::text[], %s::bigint[], %s::dibs.settings, %s::bigint, %s::double precision)"
)
RENEW = (
    "SELECT dibs.renew(%s::text, %s::text, %s::bigint, %s::double precision, %s::dibs.settings, %s::double precision)"
)
PROGRESS = "SELECT dibs.progress(%s::text, %s::text, %s::bigint, %s::text, %s::text, %s::dibs.settings, %s::text[])"
FINISH = (
    "SELECT dibs.finish(%s::text, %s::text, %s::text, %s::bigint, %s::text, %s::boolean, %s::text, %s::text, %s::text,"
    " %s::double precision, %s::dibs.settings, %s::text[])"
)
DONE = (
    "SELECT dibs.done(%s::text[], %s::bigint[], %s::text, %s::text, %s::text, %s::text, %s::boolean, %s::dibs.settings,"
    " %s::text[])"
)
FORCE_RELEASE = "SELECT dibs.force_release(%s::text, %s::text, %s::text, %s::bigint, %s::dibs.settings, %s::text[])"
SWEEP = "SELECT dibs.sweep(%s::json, %s::bigint, %s::dibs.settings)"


class ClaimPath:
    settings: Settings
    _lanes: Lanes
    _settings_row: str

    @abstractmethod
    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]: ...

    @abstractmethod
    def tell(self, *, urgent: bool = False) -> None:
        """Wake whoever waits: something changed, or became free (`urgent`)."""

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
        # Asked again, a session is given its own claim again.
        answer = self.call(
            CLAIM,
            item,
            session,
            agent,
            ttl_seconds,
            recover,
            token,
            self._settings_row,
            _request(request, call_id),
            repeatable=True,
        )
        if "wire" in answer:
            kept: Grant = answers.kept(answer, Grant)
            return kept
        if _is_marked(answer, "run", call_id) and _is_held_by(answer, session):
            # The first attempt recovered it, and its answer was lost.
            return self._claim(item, session, agent, ttl_seconds, None).replace(renewed=False)
        self._refuse(
            answer,
            request,
            session=session,
            agent=agent,
            ttl_seconds=ttl_seconds,
            token=token,
            item_id=item,
        )
        self.tell()
        return answers.grant(answer)

    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        finished = done or {}
        returns, thorough, lanes, lows = self._lanes.hints()
        answer = self.call(
            NEXT,
            session,
            agent,
            list(types),
            list(projects),
            n,
            ttl_seconds,
            lanes,
            lows,
            thorough,
            self._settings_row,
            _request(request),
            list(finished),
            list(finished.values()),
            repeatable=request is not None,
        )
        if "wire" in answer:
            kept: tuple[Grant, ...] = answers.kept(answer, Grant)
            return kept
        if answer.get("moved"):
            self._lanes.forget()
        # Said before a refusal is: what limits refuse was ended all the same.
        if answer.get("ended") or answer.get("grants"):
            self.tell(urgent=bool(answer.get("moved")))
        self._refuse(
            answer,
            request,
            session=session,
            agent=agent,
            ttl_seconds=ttl_seconds,
            token=answer.get("token"),
            item_id=answer.get("item"),
        )
        self._lanes.learn(answer, returns)
        return answers.grants(answer)

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Heartbeat:
        items = None if holding is None else list(holding)
        tokens = None if holding is None else list(holding.values())
        every = counted_interval(at_most_every_seconds, self.settings)
        answer = self.call(HEARTBEAT, session, items, tokens, self._settings_row, known_event, every, repeatable=True)
        self._refuse(answer, None, session=session)
        if answer["forgotten"]:
            self._lanes.forget()
            self.tell(urgent=True)
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
        answer = self.call(RENEW, item, session, token, ttl_seconds, self._settings_row, every, repeatable=True)
        self._refuse(answer, None, session=session, token=token, ttl_seconds=ttl_seconds, item_id=item)
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
        answer = self.call(
            PROGRESS,
            item,
            session,
            token,
            note,
            jsontext.dumps(dict(meta)),
            self._settings_row,
            _request(request),
            repeatable=request is not None,
        )
        if "wire" in answer:
            kept: Renewal = answers.kept(answer, Renewal)
            return kept
        self._refuse(answer, request, session=session, token=token, item_id=item)
        self.tell()
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
        if "wire" in answer:
            kept: Ended = answers.kept(answer, Ended)
            return kept
        (one,) = answer["each"]
        self._refuse(one["answer"], request, session=session, token=token, item_id=item)
        return answers.ended(one["answer"])

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        answer = self._done_each(holding, session, None, None, None, request, many=True)
        if "wire" in answer:
            kept: Finished = answers.kept(answer, Finished)
            return kept
        return answers.finished(answer)

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
        # Without a token, the session's next claim of the item would be meant as well.
        repeatable = None not in holding.values()
        call_id = _call_id(request) if repeatable else None
        answer = self.call(
            DONE,
            list(holding),
            list(holding.values()),
            session,
            note,
            links,
            cost,
            many,
            self._settings_row,
            _request(request, call_id),
            repeatable=repeatable or request is not None,
        )
        if "wire" in answer:
            return answer
        self._refuse(answer, request, session=session)
        moved = bool(answer["moved"])
        for one in answer["each"]:
            if _is_marked(one["answer"], "asked", call_id):
                one["answer"] = _of_the_first_attempt(one["answer"])
                moved = True
        if moved:
            self._lanes.forget()
        self.tell(urgent=moved)
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
        answer = self.call(
            FORCE_RELEASE,
            item,
            actor,
            reason,
            token,
            self._settings_row,
            _request(request),
            repeatable=request is not None,
        )
        if "wire" in answer:
            kept: Ended = answers.kept(answer, Ended)
            return kept
        if answer.get("no") == "REQUEST_REUSED" and request is not None:
            raise reused(request)
        if "no" in answer:
            # An expiry may have been recorded with the refusal.
            self._lanes.forget()
            raise answers.forced(answer, actor=actor, reason=reason, token=token, item_id=item)
        return self._ended(answer)

    def sweep(self, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
        told = jsontext.dumps([[session, owner.as_dict()] for session, owner in dead])
        swept = answers.sweep(self.call(SWEEP, told, limit, self._settings_row, repeatable=True))
        if swept.expired or swept.owner_died or swept.due or swept.offers:
            self._lanes.forget()
            self.tell(urgent=True)
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
        # Without a token, the session's next claim of the item would be meant as well.
        call_id = _call_id(request) if token is not None else None
        answer = self.call(
            FINISH,
            verb,
            item,
            session,
            token,
            reason,
            park,
            draft,
            _json(links),
            _json(cost),
            uniform(),
            self._settings_row,
            _request(request, call_id),
            repeatable=token is not None or request is not None,
        )
        if "wire" in answer:
            kept: Ended = answers.kept(answer, Ended)
            return kept
        if _is_marked(answer, "asked", call_id):
            answer = _of_the_first_attempt(answer)
        self._refuse(answer, request, session=session, token=token, item_id=item)
        return self._ended(answer)

    def _ended(self, answer: dict[str, Any]) -> Ended:
        if answer["item"]["status"] == READY:
            self._lanes.came_back(answer["item"])
        self.tell(urgent=answer["item"]["status"] == READY)
        return answers.ended(answer)

    def _refuse(self, answer: dict[str, Any], request: Request | None, **asked: Any) -> None:
        if "no" not in answer:
            return
        if answer["no"] == "REQUEST_REUSED" and request is not None:
            raise reused(request)
        raise answers.refusal(answer, settings=self.settings, **asked)


def _json(data: Mapping[str, Any] | None) -> str | None:
    return jsontext.dumps(dict(data)) if data else None


def _call_id(request: Request | None) -> str | None:
    """The same for all attempts of a call. With a request id there is no need for it: the answer itself is kept."""
    return os.urandom(8).hex() if request is None else None


def _request(request: Request | None, call_id: str | None = None) -> list[str] | None:
    if request is None:
        return None if call_id is None else [call_id]
    return [request.actor, request.id, request.fingerprint]


def _is_held_by(answer: dict[str, Any], session: str) -> bool:
    claim = answer["claim"]
    return claim is not None and claim["session"] == session and claim["expires_at"] > answer["now"]


def _is_marked(answer: dict[str, Any], run: str, call_id: str | None) -> bool:
    """Whether the call was refused because an earlier attempt of the very same call had opened or ended this run."""
    if call_id is None or answer.get("no") != "FENCED" or answer[run] is None:
        return False
    return bool(answer[run]["call_id"] == call_id)


def _of_the_first_attempt(answer: dict[str, Any]) -> dict[str, Any]:
    return {"item": answer["item"], "run": answer["asked"]}


def uniform() -> float:
    """A draw from 0 to 1, for the jitter of a retry."""
    return int.from_bytes(os.urandom(7), "big") / 2**56
