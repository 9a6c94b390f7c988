"""Watchers that write to GitHub, for tests of what they write."""

from __future__ import annotations

from dibs.github.api import Api
from dibs.github.watch import Round, Watcher
from tests.github.conftest import EVERYTHING, GitHub
from tests.github.fake_api import FakeApi

TOKEN = "ghp_a_token_that_nobody_may_see"
LABEL = str(EVERYTHING.label)
BASE = "/repos/acme/shop/issues/12"


def watcher(github: GitHub, api: FakeApi) -> Watcher:
    return Watcher(github.board, Api(TOKEN, api.url, sleep=lambda _: None), "acme/shop", github.policy)


def look(github: GitHub, api: FakeApi) -> Round:
    """One look of a watcher that starts and ends."""
    watching = watcher(github, api)
    try:
        return watching.look()
    finally:
        watching.close()
