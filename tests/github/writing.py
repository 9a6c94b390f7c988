"""Watchers that write to GitHub, for tests of what they write."""

from __future__ import annotations

from dibs.github.api import Api
from dibs.github.watch import Round, Watcher
from tests.github.conftest import EVERYTHING, GitHub
from tests.github.fake_api import FakeApi

TOKEN = "ghp_a_token_that_nobody_may_see"
LABEL = str(EVERYTHING.label)
BASE = "/repos/acme/shop/issues/12"


class Clock:
    """The clock by which a watcher leaves alone what fails."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def watcher(github: GitHub, api: FakeApi, clock: Clock | None = None) -> Watcher:
    made = Api(TOKEN, api.url, sleep=lambda _: None)
    return Watcher(github.board, made, "acme/shop", github.policy, clock=clock or Clock())


def look(github: GitHub, api: FakeApi) -> Round:
    """One look of a watcher that starts and ends."""
    watching = watcher(github, api)
    try:
        return watching.look()
    finally:
        watching.close()
