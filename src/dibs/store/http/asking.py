"""One request, until it is answered: asked again after a lost answer where that is safe, refusals as our errors.

Every verb that changes something carries a request id, its caller's or one of our own, so that asking again cannot do
it twice. What cannot be asked again says that it is not known what became of it.
"""

from __future__ import annotations

import os
import time
from urllib.parse import urlencode

from dibs import errors, jsontext, wire
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.store.http.sending import Lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.store.http.sending import Reply, Sender

#: An answer may be waited for in vain, and there has to be time to ask again; where nobody is, that is known at once.
PATIENCE = 3
PAUSE_SECONDS_MAX = 0.5
RETRY_SECONDS = 1.0
#: Refusals of a server that are none of the board, and that it would repeat: no such route, too large, another host.
SAID_FOR_GOOD = frozenset({404, 405, 413, 415, 421})
OWN_PROBLEM = "urn:dibs:problem:"
#: The status of an answer that goes on.
PARTIAL = 206


def _refusals() -> dict[str, type[DibsError]]:
    found: dict[str, type[DibsError]] = {}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, DibsError):
            found.setdefault(kind.code, kind)
    return found


REFUSALS = _refusals()


class Asking:
    def __init__(self, sender: Sender, key: str | None, answer_seconds: float, *, lean: bool = False) -> None:
        """`lean`: for who asks again by itself where nobody is."""
        self.sender = sender
        self._lean = lean
        self.headers = {"Accept": "application/json"}
        if key is not None:
            self.headers["Authorization"] = f"Bearer {key}"
        self._answer_seconds = answer_seconds
        self._pid = os.getpid()
        #: How often something was asked again.
        self.repeated = 0

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """What is answered; `options` are those of `_replied`."""
        reply = self._replied(method, path, body, **options)
        return jsontext.loads(reply.body.decode()) if reply.body else None

    def ask_page(self, path: str, query: Mapping[str, Any]) -> tuple[list[Any], bool]:
        """A page of a long answer, and whether there is more."""
        reply = self._replied("GET", path, query=query)
        return jsontext.loads(reply.body.decode()), reply.status == PARTIAL

    def _replied(
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
        """`keeps_none`: None is something to say; else it is what is not said."""
        if self._pid != os.getpid():
            # What is open is the parent's.
            self.sender.forget()
            self._pid = os.getpid()
        headers = dict(self.headers)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            said = body if keeps_none else {name: value for name, value in body.items() if value is not None}
            data = jsontext.line(dict(said)).encode()
        if request_id is not None:
            headers["Idempotency-Key"] = request_id
        if query:
            asked = [(name, value) for name, value in query.items() if value is not None and value != ()]
            path = f"{path}?{urlencode(asked, doseq=True)}" if asked else path
        began, tries, heard, writes = time.monotonic(), 0, False, method != "GET"
        while True:
            try:
                reply = self.sender.send(method, path, headers, data, self._answer_seconds + wait_seconds)
                if reply.status >= 300:
                    raise refusal(reply, writes=writes)
                return reply
            except Lost as lost:
                heard = heard or lost.sent
                end = began + self._answer_seconds * (PATIENCE if heard else 1)
                given_up = self._lean if not heard else not repeatable
                if given_up or time.monotonic() >= end:
                    raise away(lost, unknown=heard and writes) from lost
            except StoreUnavailable as error:
                # By this attempt nothing was done; by an earlier one perhaps.
                if heard and writes:
                    raise away(error, unknown=True) from error
                raise
            tries += 1
            self.repeated += 1
            pause(tries)


def refusal(reply: Reply, *, writes: bool = False) -> DibsError:
    """The error that this reply stands for. A write that met a failure which is no refusal may have been done."""
    kind: type[DibsError] = DibsError
    found: DibsError = StoreUnavailable(f"the server answers {reply.status}", retry_after_seconds=RETRY_SECONDS)
    try:
        told = jsontext.loads(reply.body.decode())
        detail = str(told["detail"])
        if told["code"] in REFUSALS:
            kind = REFUSALS[told["code"]]
            found = kind(detail, **wire.plain(told["facts"]))
        elif reply.status in SAID_FOR_GOOD and told["type"] == OWN_PROBLEM + told["code"]:
            found = StoreUnusable(f"the server answers {reply.status}: {detail}")
    except (ValueError, KeyError, TypeError):
        pass  # something between us and the server speaks for it
    if writes and kind is DibsError and reply.status >= 500:
        return away(found, unknown=True)
    return found


def away(why: Exception, unknown: bool) -> StoreUnavailable:
    if unknown:
        return StoreUnavailable(
            f"no answer says what became of this, so it is not known whether it was done ({why});"
            " look, or ask with a request id, which makes asking again safe",
            outcome="unknown",
            retry_after_seconds=RETRY_SECONDS,
        )
    return StoreUnavailable(f"the server is away: {why}", retry_after_seconds=RETRY_SECONDS)


def pause(tries: int) -> None:
    time.sleep(int.from_bytes(os.urandom(2), "big") / 2**16 * min(PAUSE_SECONDS_MAX, 0.01 * 2**tries))


def new_request_id() -> str:
    return os.urandom(12).hex()
