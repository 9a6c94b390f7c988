"""The requests that GitHub allows: they are known, a part is left to others, and people and Prometheus see them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.github import place
from dibs.github.api import Api
from dibs.github.budget import Limited
from dibs.store.http.transport import sender
from dibs.store.sqlite.store import SqliteStore
from tests.github.conftest import GitHub
from tests.github.fake_writes import WritableApi
from tests.github.writing import TOKEN, look
from tests.kit import sqlite
from tests.kit.http import Host


class Metered(WritableApi):
    """Says how much is left of an hour's requests."""

    remaining = 4000
    reset_in = 1800

    def answer(
        self, target: str, headers: dict[str, str], method: str = "GET", sent: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        status, more, body = super().answer(target, headers, method, sent)
        self.remaining -= status != 304
        left = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": str(self.remaining)}
        return status, {**more, **left, "X-RateLimit-Reset": str(int(time.time()) + self.reset_in)}, body


def test_a_part_is_left_to_others_of_the_same_user() -> None:
    with Metered() as fake:
        fake.put_issue(12)
        fake.remaining = 503
        first = Api(TOKEN, fake.url, sleep=lambda _: None)
        second = first.another()
        for api in (first, second, first):
            api.one("/repos/acme/shop/issues/12")
        for api in (first, second):
            with pytest.raises(Limited, match="GitHub allows 500 of 5000 requests") as limited:
                api.one("/repos/acme/shop/issues/12")
            assert 1700 < limited.value.facts["retry_after_seconds"] <= 1801
        assert len(fake.asked) == 3, "nobody was asked in vain"
        assert (first.budget.plain() or {})["sent"] == 3
        fake.reset_in = -5
        first.budget._free_at = 0.0  # the hour has ended
        first.one("/repos/acme/shop/issues/12")
        for api in (first, second):
            api.close()


def command(tmp_path: Path, fake: WritableApi, *options: str) -> tuple[str, str]:
    path = tmp_path / "board.db"
    with Board(SqliteStore(str(path), DEFAULTS, create=True), DEFAULTS):
        pass
    environment = {**os.environ, "GITHUB_API_URL": fake.url, "GITHUB_TOKEN": TOKEN, "DIBS_STORE": str(path)}
    line = [sys.executable, "-m", "dibs.cli.main", "github", "watch", "acme/shop", "--once", *options]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_the_command_shows_what_github_allows(tmp_path: Path) -> None:
    with Metered() as fake:
        shown, _ = command(tmp_path, fake)
        assert re.search(r"GitHub allows 3,99\d of 5,000 requests until 20\d\d-.*; dibs leaves 500 of them", shown)
        told, _ = command(tmp_path, fake, "--json")
        budget = json.loads(told)["budget"]
        assert (budget["limit"], budget["reserve"]) == (5000, 500)
        assert budget["remaining"] < 4000


def test_a_server_exports_what_github_allows_the_watchers_of_its_board(http_host: Host, tmp_path: Path) -> None:
    with Metered() as fake, sqlite.harness(tmp_path) as harness:
        from dibs.github.policy import Policy
        from dibs.github.watch import Watcher

        watcher = Watcher(harness.board(), Api(TOKEN, fake.url), "acme/shop", Policy(), every=60.0)
        watcher.look()
        assert place.budgets(harness.board(), 10)["acme/shop"]["limit"] == 5000
        url, key = http_host.serve(harness.recipe())
        asked = sender(url)
        text = asked.send("GET", "/metrics", {"Authorization": f"Bearer {key}"}, None, 10).body.decode()
        asked.close()
        http_host.stop(url)
        watcher.close()
    assert 'dibs_github_requests_limit{repository="acme/shop"} 5000.0' in text
    assert re.search(r'dibs_github_requests_remaining\{repository="acme/shop"\} 399\d', text)


def test_a_board_on_which_nobody_watches_has_no_budget(github: GitHub, api: WritableApi) -> None:
    look(github, api)
    assert place.budgets(github.board, 10) == {}
