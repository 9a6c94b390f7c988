"""Whatever GitHub answers about one issue, head or item: all others are served, it is reported once, and it costs at
most a request a minute."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dibs.errors import StoreUnavailable
from dibs.github import api as client
from dibs.github.api import Api
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.github.watch import Watcher
from dibs.testing import sizes
from tests.github.conftest import GitHub, claimed
from tests.github.direct import Direct, close
from tests.github.fake_writes import WritableApi
from tests.github.payloads import at
from tests.github.writing import Clock
from tests.kit.soak import in_a_soak

MINUTES = 12
LABEL = "dibs: in progress"
BAD, GOOD = "a" * 40, "b" * 40
#: What is about one subject: the method, and the path below that of the repository.
ROUTES = {
    "the comments of an issue": ("GET", r"/issues/12/comments"),
    "a new comment": ("POST", r"/issues/12/comments"),
    "an issue": ("GET", r"/issues/12"),
    "a label": ("POST", r"/issues/12/labels"),
    "an assignee": ("POST", r"/issues/12/assignees"),
    "the events of an issue": ("GET", r"/issues/30/events"),
    "the message of a head": ("GET", rf"/commits/{'c' * 40}"),
    "the checks of a head": ("GET", rf"/commits/{BAD}/check-runs"),
    "the statuses of a head": ("GET", rf"/commits/{BAD}/statuses"),
    "the runs of a head": ("GET", rf"/actions/runs\?.*head_sha={BAD}.*"),
    "the history of a head": ("GET", rf"/compare/main\.\.\.{BAD}|/compare/0+\.\.\.{BAD}"),
    "a status": ("POST", rf"/statuses/{BAD}"),
}
STATUSES = (
    *(400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 418, 421, 422, 423, 424, 426, 428, 429),
    *(431, 451, 500, 501, 502, 503, 504, 301, 303),
)
ODD = (
    *("null", "[]", "{}", "7", '"x"', "[null, 3, [], {}]", '{"a": [7, {"id": []}]}', "{", "<html>", "[" * 5000, ""),
    json.dumps({"commits": [{"sha": 3, "commit": [], "parents": "x"}], "labels": [[]], "assignees": [3, {}]}),
    json.dumps([{"sha": [], "event": "labeled", "label": "x", "actor": 3, "id": "x", "body": {}, "context": []}]),
    json.dumps({"check_runs": [{"id": -1}], "workflow_runs": [{"id": 3, "path": []}], "commit": {"message": 3}}),
)


class Shop:
    """Two of everything: what the number 12, 20, 30 or 40 is about is bad, the rest is good."""

    def __init__(self, github: GitHub, fake: WritableApi, api: Api) -> None:
        self.github, self.fake, self.clock = github, fake, Clock()
        everything = Out(comment=True, label=LABEL, assign=(("coder", "octocat"),), status=True)
        github.policy = Policy(out=everything, complete="checks", approve_label="ok")
        self.problems: list[str] = []
        for number in (12, 13):
            fake.put_issue(number)
        for number, name, sha in ((20, "bad", BAD), (21, "good", GOOD)):
            github.board.add(name, id=name, review=True)
            fake.push(f"dibs/{name}", sha[0], "Work")
            self.pull(number, f"dibs/{name}", sha)
            fake.put_run(number, "success", head_sha=sha, head_branch=f"dibs/{name}")
        for number in (30, 31):
            fake.put_issue(number, user="eve", author_association="NONE", labels=["ok"])
            fake.put_label_event(number, "ok", "ann", at(0))
        for number, letter in ((40, "c"), (41, "d")):
            fake.push(f"branch-{number}", letter, "Work")
            self.pull(number, f"branch-{number}", letter * 40)
        self.watcher = Watcher(github.board, api, "acme/shop", github.policy, every=60.0, clock=self.clock)

    def pull(self, number: int, branch: str, sha: str) -> None:
        self.fake.put_pull(number)
        head = {**self.fake.pulls[number]["head"], "ref": branch, "sha": sha}
        base = {**self.fake.pulls[number]["base"], "sha": "0" * 40}
        self.fake.put_pull(number, head=head, base=base)

    def start(self) -> None:
        """What a watcher has to serve afterwards."""
        self.look()
        board = self.github.board
        for number in (12, 13):
            claimed(board, self.github.item(f"github:acme/shop#{number}").id)
        for name in ("bad", "good"):
            session, token = claimed(board, name)
            board.done(name, session=session, token=token, links={"commit": BAD if name == "bad" else GOOD})

    def look(self) -> None:
        self.problems += self.watcher.look().wrote.problems

    def minute(self) -> None:
        """A poll, and changes of the board between two."""
        self.clock.advance(60)
        self.look()
        for priority in (2, 3, 4):
            for name in ("good", "bad"):
                self.github.board.edit(name, priority=priority)
            for number in (12, 13):
                self.github.board.edit(self.github.item(f"github:acme/shop#{number}").id, priority=priority)
            self.problems += self.watcher.show().problems

    def assert_served(self) -> None:
        (comment,) = self.fake.bodies(13)
        assert "has been working on this" in comment
        assert (self.fake.labels(13), self.fake.assignees(13)) == ([LABEL], ["octocat"])
        assert self.github.board.get("good").item.status == "done"
        assert self.github.item("github:acme/shop#31").status == "ready", "approved"
        assert self.github.item("github:acme/shop#41").type == "pr_review"
        assert self.fake.state(GOOD) == "success"


@pytest.fixture
def fake() -> Iterator[WritableApi]:
    made = WritableApi(None)
    yield made
    close(made)


def break_route(fake: WritableApi, route: str, answer: tuple[int, dict[str, str], bytes]) -> list[str]:
    """Answer so at one route. What was asked there."""
    method, pattern = ROUTES[route]
    asked: list[str] = []
    sound = fake.answer

    def answers(target: str, headers: dict[str, str], verb: str = "GET", sent: bytes = b"") -> Any:
        below = target.removeprefix("/repos/acme/shop")
        path = below if "head_sha" in below else below.partition("?")[0]
        if verb == method and re.fullmatch(pattern, path):
            asked.append(path)
            return answer
        return sound(target, headers, verb, sent)

    fake.answer = answers  # type: ignore[method-assign,assignment]
    return asked


@pytest.mark.parametrize("route", ROUTES)
def test_no_answer_about_one_subject_stops_the_others(github: GitHub, fake: WritableApi, route: str) -> None:
    """Every answer in turn, each on a board of its own, would take long: they follow each other, and each subject is
    asked about at most once a minute through all of them."""
    shop = Shop(github, fake, Direct(fake))
    answers = [(status, {"Location": fake.url + "/repos/acme/other/issues/1"}, b"{}") for status in STATUSES]
    answers += [(429, {"Retry-After": "1"}, b"{}"), (403, {}, b'{"message": "secondary rate limit"}')]
    answers += [(200, {}, body.encode()) for body in ODD]
    current: list[Any] = [answers[0]]
    minutes = 0
    asked = break_route(fake, route, Changing(current))  # type: ignore[arg-type]
    shop.start()
    for answer in answers:
        current[0] = answer
        for _ in range(sizes.times(1)):
            minutes += 1
            try:
                shop.minute()
            except StoreUnavailable as limited:
                if answer[0] not in (403, 429):
                    raise
                shop.clock.advance(float(limited.facts["retry_after_seconds"]))
        assert len(asked) <= minutes + 2, (answer, asked)
    shop.assert_served()
    assert len(set(shop.problems)) == len(shop.problems), "reported once"
    assert shop.problems
    shop.watcher.close()


class Changing:
    """The answer of now, as a tuple."""

    def __init__(self, current: list[Any]) -> None:
        self._current = current

    def __iter__(self) -> Iterator[Any]:
        return iter(self._current[0])


FIRST = (301, 401, 403, 404, 422, 429, 500, ODD[0], ODD[5], ODD[7], ODD[-1], ODD[-2])


@pytest.mark.parametrize(
    "status",
    [*FIRST, *in_a_soak(*(one for one in (*STATUSES, *ODD) if one not in FIRST))],
    ids=lambda one: str(one)[:20],
)
def test_the_first_answer_about_one_subject_may_be_any(github: GitHub, fake: WritableApi, status: int | str) -> None:
    """On all routes at once, from the first look on."""
    shop = Shop(github, fake, Direct(fake))
    code, body = (status, b"{}") if isinstance(status, int) else (200, status.encode())
    asked = [
        break_route(fake, route, (code, {"Location": f"{fake.url}/repos/acme/other/issues/1"}, body))
        for route in ROUTES
    ]
    rounds = 0
    while rounds < MINUTES:
        try:
            if rounds == 0:
                shop.start()
            rounds += 1
            shop.minute()
        except StoreUnavailable as limited:
            if code != 429:
                raise
            shop.clock.advance(float(limited.facts["retry_after_seconds"]))
    shop.assert_served()
    assert all(len(one) <= MINUTES + 1 for one in asked), asked
    assert len(set(shop.problems)) == len(shop.problems)
    shop.watcher.close()


class Slow:
    """A server that never finishes an answer about one subject: it drips, it never ends, or it closes the line."""

    def __init__(self, how: str) -> None:
        self.how, self.asked = how, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.stopped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            self.asked += 1
            if self.how == "closes":
                return
            head = b"HTTP/1.1 200 OK\r\n" + (b"" if self.how == "headers" else b"Content-Length: 1000000\r\n\r\n")
            drip = b"X-Drip: 1\r\n" if self.how == "headers" else b" "
            try:
                connection.sendall(head)
                while not self.stopped.wait(0.02):
                    if self.how != "silent":
                        connection.sendall(drip)
            except OSError:
                return

    def close(self) -> None:
        self.stopped.set()
        self._listening.close()


@pytest.mark.parametrize("how", ["body", "headers", "silent", "closes"])
def test_an_answer_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The time-out of a socket is for one read: an answer that drips would last for ever."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)
    server = Slow(how)
    api = Api("token", f"http://127.0.0.1:{server.port}", sleep=lambda _: None)
    with api.once(), pytest.raises(client.Failed, match="does not answer about /repos/acme/shop/issues/12"):
        api.one("/repos/acme/shop/issues/12")
    assert server.asked == 1
    api.close()
    server.close()


def test_an_item_whose_status_route_drips_keeps_nobody_waiting(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a real connection: the answer about one head never ends."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.5)
    over = threading.Event()
    with WritableApi() as fake:
        api = Api("token", fake.url, sleep=lambda _: None)
        shop = Shop(github, fake, api)
        shop.start()
        sound = fake.answer

        def drips(target: str, *given: Any) -> Any:
            if f"compare/{'0' * 40}...{BAD}" in target:
                over.wait(20)
            return sound(target, *given)

        fake.answer = drips  # type: ignore[method-assign,assignment]
        shop.github.board.edit("bad", priority=1)
        shop.watcher._out._statuses._histories.clear()  # type: ignore[union-attr]
        for _ in range(3):
            shop.minute()
        shop.assert_served()
        over.set()
        assert any("no whole answer within 0.5 s" in one for one in shop.problems)
        shop.watcher.close()
