"""Calls as they really happened, across processes: begun, ended, and with what answer.

Each process writes a file of its own, one line when a call begins and one when it ends, so a call that was cut off by
a kill is known to have begun. Times are the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import glob
import json
import os
import time

from dibs.errors import DibsError
from dibs.model import Claim, Ended, Grant, Heartbeat, Renewal
from dibs.text import wire
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.testing.actors import Answer


class Call(Value):
    """One call of a verb. `end_ns` is None if nobody heard an answer: it may have taken effect, or not.

    `grants` are the claims that it gave as (item, token), to `holder` (None: to the session that asked), `ended` and
    `renewed` what it was told of a claim; a refusal has a `code` and its facts.
    """

    process: str
    verb: str
    item: str | None
    session: str | None
    token: int | None
    request: str | None
    start_ns: int
    end_ns: int | None = None
    code: str | None = None
    facts: dict[str, Any] = {}
    grants: tuple[tuple[str, int], ...] = ()
    holder: str | None = None
    renewed: tuple[tuple[str, int], ...] = ()
    ended: tuple[str, int, str] | None = None


class Recorder:
    """A board whose every call is written down. Verbs are called by name: `recorder.call("done", item, ...)`."""

    def __init__(self, board: Board, folder: str) -> None:
        self.board = board
        self.process = f"{os.getpid()}-{os.urandom(3).hex()}"
        path = os.path.join(folder, f"calls-{self.process}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._count = 0

    def call(self, verb: str, item: str | None = None, **kwargs: Any) -> Any:
        """The verb's answer; a refusal is recorded, then raised."""
        self._count += 1
        known = {name: kwargs.get(name) for name in ("session", "token")}
        request = kwargs.get("request_id")
        self._write(verb=verb, item=item, **known, request=request, start_ns=time.monotonic_ns())
        try:
            answer = getattr(self.board, verb)(*([] if item is None else [item]), **kwargs)
        except DibsError as refusal:
            facts = {name: refusal.facts.get(name) for name in ("holder", "taken_over_by", "how", "status", "outcome")}
            self._write(end_ns=time.monotonic_ns(), code=refusal.code, facts=facts)
            raise
        self._write(end_ns=time.monotonic_ns(), **summary(answer))
        return answer

    def close(self) -> None:
        os.close(self._file)

    def _write(self, **fields: Any) -> None:
        os.write(self._file, json.dumps({"call": self._count, **wire.encode(fields)}).encode() + b"\n")


def heard(session: str, verb: str, item: str | None, token: int | None, answer: Answer) -> Call:
    """A call that an actor was asked to make one at a time, as a recorded one."""
    error, reply = answer.error or {}, answer.reply or {}
    grants = reply if isinstance(reply, list) else [reply]
    return Call(
        process=session,
        verb=verb,
        item=item,
        session=session,
        token=token,
        request=None,
        start_ns=answer.start_ns,
        end_ns=answer.end_ns,
        code=error.get("code"),
        facts=error,
        grants=tuple((one["claim"]["item"], one["claim"]["token"]) for one in grants if "claim" in one),
        holder=reply["claim"]["session"] if "claim" in reply else None,
        renewed=((reply["item"], reply["token"]),) if "expires_at" in reply else (),
        ended=(reply["run"]["item"], reply["run"]["token"], reply["run"]["outcome"]) if "run" in reply else None,
    )


def summary(answer: object) -> dict[str, Any]:
    """What an answer says about claims."""
    if isinstance(answer, Grant):
        return {"grants": [_claim(answer.claim)], "holder": answer.claim.session}
    if isinstance(answer, tuple):
        return {"grants": [_claim(one.claim) for one in answer if isinstance(one, Grant)]}
    if isinstance(answer, Ended):
        return {"ended": [answer.run.item, answer.run.token, answer.run.outcome]}
    if isinstance(answer, Renewal):
        return {"renewed": [[answer.item, answer.token]]}
    if isinstance(answer, Heartbeat):
        return {"renewed": [[one.item, one.token] for one in answer.renewed]}
    return {}


def read(folder: str) -> list[Call]:
    """Every call that any process recorded here, in the order of their beginnings."""
    found: list[Call] = []
    for path in sorted(glob.glob(os.path.join(folder, "calls-*.jsonl"))):
        process = os.path.basename(path).removeprefix("calls-").removesuffix(".jsonl")
        begun: dict[int, dict[str, Any]] = {}
        for line in _whole_lines(path):
            fields = json.loads(line)
            begun.setdefault(fields.pop("call"), {}).update(fields)
        found.extend(_call(process, fields) for fields in begun.values())
    return sorted(found, key=lambda call: call.start_ns)


def _whole_lines(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    return lines[:-1]


def _call(process: str, fields: dict[str, Any]) -> Call:
    for name in ("grants", "renewed"):
        fields[name] = tuple((item, token) for item, token in fields.get(name, ()))
    fields["ended"] = tuple(fields["ended"]) if "ended" in fields else None
    return Call(process=process, **fields)


def _claim(claim: Claim) -> list[Any]:
    return [claim.item, claim.token]
