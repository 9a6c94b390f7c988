"""Sends requests with retries, and raises the server's refusals as errors.

Every verb that writes has an idempotency key, the caller's or a random one, so that a retry after a lost answer does
not repeat the write. For a request that cannot be retried, the outcome is reported as unknown.
"""

from __future__ import annotations

import time
from urllib.parse import urlencode

from dibs.errors import BY_CODE, DibsError, StoreUnavailable, StoreUnusable
from dibs.randomness import sleep_before_retry
from dibs.store.http.transport import NoAnswer
from dibs.system.fork import ForkAware
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.store.http.transport import Reply, Sender

#: Once the server may have received the request, all attempts together may take this many answer timeouts.
TIMEOUTS_MAX = 3
RETRY_SECONDS = 1.0
#: Statuses that a retry does not change: no such route, too large, another host.
PERMANENT = frozenset({404, 405, 413, 415, 421})
OWN_PROBLEM = "urn:dibs:problem:"
#: The status of a page that is not the last.
PARTIAL = 206


class Client(ForkAware):
    def __init__(self, sender: Sender, key: str | None, answer_seconds: float, *, lean: bool = False) -> None:
        """`lean`: do not retry while no server listens; the caller retries."""
        self.sender = sender
        self._lean = lean
        self.headers = {"Accept": "application/json"}
        if key is not None:
            self.headers["Authorization"] = f"Bearer {key}"
        self._answer_seconds = answer_seconds
        self.track_forks()
        #: The number of retries.
        self.repeated = 0

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The decoded answer; `options` are those of `_send`."""
        reply = self._send(method, path, body, **options)
        return json_text.loads(reply.body.decode()) if reply.body else None

    def ask_page(self, path: str, query: Mapping[str, Any]) -> tuple[list[Any], bool]:
        """A page of a long answer, and whether there are more."""
        reply = self._send("GET", path, query=query)
        return json_text.loads(reply.body.decode()), reply.status == PARTIAL

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        repeatable: bool = True,
        wait_seconds: float = 0.0,
        keeps_none: bool = False,
    ) -> Reply:
        """`keeps_none`: send fields whose value is None, which are omitted otherwise."""
        if self.is_inherited:
            # The open connections are the parent's.
            self.sender.forget()
            self.is_inherited = False
        headers = dict(self.headers)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            sent = body if keeps_none else {name: value for name, value in body.items() if value is not None}
            data = json_text.line(dict(sent)).encode()
        if request_id is not None:
            headers["Idempotency-Key"] = request_id
        if query:
            given = [(name, _in_query(value)) for name, value in query.items() if value is not None and value != ()]
            path = f"{path}?{urlencode(given, doseq=True)}" if given else path
        began, tries, received, writes = time.monotonic(), 0, False, method != "GET"
        while True:
            try:
                reply = self.sender.send(method, path, headers, data, self._answer_seconds + wait_seconds)
                if reply.status >= 300:
                    raise refusal(reply, writes=writes)
                return reply
            except NoAnswer as lost:
                received = received or lost.sent
                end = began + self._answer_seconds * (TIMEOUTS_MAX if received else 1)
                gives_up = not repeatable if received else self._lean
                if gives_up or time.monotonic() >= end:
                    raise unavailable(lost, unknown=received and writes) from lost
            except StoreUnavailable as error:
                # This attempt wrote nothing, but an earlier one may have.
                if received and writes:
                    raise unavailable(error, unknown=True) from error
                raise
            tries += 1
            self.repeated += 1
            sleep_before_retry(tries)


def refusal(reply: Reply, *, writes: bool = False) -> DibsError:
    """The error of this reply. After a failure that is not a refusal, the outcome of a write is unknown."""
    kind: type[DibsError] = DibsError
    found: DibsError = StoreUnavailable(f"the server answers {reply.status}", retry_after_seconds=RETRY_SECONDS)
    try:
        problem = json_text.loads(reply.body.decode())
        detail = str(problem["detail"])
        if problem["code"] in BY_CODE:
            kind, facts = BY_CODE[problem["code"]], wire.plain(problem["facts"])
            if kind is StoreUnavailable and facts.get("permanent") is True:
                kind = StoreUnusable
            found = kind(detail, **facts)
        elif reply.status in PERMANENT and problem["type"] == OWN_PROBLEM + problem["code"]:
            found = StoreUnusable(f"the server answers {reply.status}: {detail}")
    except (ValueError, KeyError, TypeError):
        pass  # the answer is from a proxy
    if writes and kind is DibsError and reply.status >= 500:
        return unavailable(found, unknown=True)
    return found


def unavailable(why: Exception, unknown: bool) -> StoreUnavailable:
    if unknown:
        return StoreUnavailable(
            f"no answer arrived, so the outcome is unknown ({why});"
            " check the board, or use a request id, which makes a retry safe",
            outcome="unknown",
            retry_after_seconds=RETRY_SECONDS,
        )
    return StoreUnavailable(f"the server is unreachable: {why}", retry_after_seconds=RETRY_SECONDS)


def _in_query(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
