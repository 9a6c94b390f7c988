"""A real Prometheus with the alert rules of `deploy/`, scraping two boards: each fault of one raises one alert with its
name, and the other board raises none."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from dibs.board import connect, make
from dibs.model.webhooks import Attempt
from tests.docs.markdown import ROOT
from tests.kit.postgres_server import free_port
from tests.kit.small_disk import fill, small_disk
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.server.process import Serving, board_of, serving
from tests.server.test_store_state import states
from tests.server.test_tls import make_certificate

SHOP, SITE = "dibs-shop", "dibs-site"
DAY_MS = 86_400_000


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def alerts(self) -> list[tuple[str, str]]:
        """Those that fire, each with its board."""
        found = self._ask("/alerts")["alerts"]
        return sorted((one["labels"]["alertname"], one["labels"]["job"]) for one in found if one["state"] == "firing")

    def scraped(self) -> set[str]:
        """The boards that are scraped without an error."""
        targets = self._ask("/targets")["activeTargets"]
        return {one["labels"]["job"] for one in targets if one["health"] == "up"}

    def jobs(self, expression: str) -> list[str | None]:
        """The board of each series that an expression gives."""
        found = self._ask(f"/query?{urllib.parse.urlencode({'query': expression})}")["result"]
        return [one["metric"].get("job") for one in found]

    def until(self, expected: list[tuple[str, str]], meanwhile: Callable[[], object] = lambda: None) -> None:
        def holds() -> bool:
            meanwhile()
            return self.alerts() == sorted(expected)

        until(holds, f"alerts {sorted(expected)}")

    def until_scraped(self, expected: set[str]) -> None:
        until(lambda: not self._is_starting() and self.scraped() == expected, "Prometheus scrapes")

    def _is_starting(self) -> bool:
        try:
            self._ask("/targets")
        except OSError:
            return True
        return False

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, boards: dict[str, Serving]) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus on this machine")
    rules = (ROOT / "deploy" / "alert-rules.yaml").read_text(encoding="utf-8")
    # What has to last for minutes lasts for a second.
    (folder / "rules.yaml").write_text(re.sub(r"for: \d+m", "for: 1s", rules), encoding="utf-8")
    scrapes = []
    for job, server in boards.items():
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        (folder / f"{job}.key").write_text(key)
        scrapes.append(
            {
                "job_name": job,
                "scheme": server.url.partition(":")[0],
                "tls_config": {"insecure_skip_verify": True},
                "authorization": {"credentials_file": str(folder / f"{job}.key")},
                "static_configs": [{"targets": [server.url.rpartition("/")[2]]}],
            }
        )
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": scrapes,
    }
    (folder / "prometheus.yaml").write_text(json.dumps(settings), encoding="utf-8")
    port = free_port()
    command = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with open(folder / "prometheus.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def assert_a_dashboard_shows_boards_apart(scraping: Prometheus) -> None:
    """Each query of the dashboard for Grafana is one that Prometheus answers, for one board and for both."""
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert all("$board" in query for query in queries)
    seen = set()
    for query in queries:
        assert set(scraping.jobs(query.replace("$board", SHOP))) <= {SHOP}, query
        seen |= set(scraping.jobs(query.replace("$board", "dibs.*")))
    assert seen == {SHOP, SITE}


def neglect(server: Serving) -> None:
    """A key and a backup that are about to be forgotten, a disabled webhook, and a plan that waits for a person."""
    with closing(connect(server.told["store"])) as board:
        key, _ = board.create_key("agent", name="night runs", seconds=3 * 86400)
        board.add("A plan", id="plan", needs_approval=True)
        board.backup(str(Path(server.told["store"]).parent / "backup"))
        hook = board.add_webhook("https://127.0.0.1/dibs", kinds=["added"]).webhook
        board.add("An item", id="item")
        (event,) = board.events(after=hook.cursor, limit=1)
        board.change_webhook(hook.id, enabled=True)
        assert board.store.take_webhook(hook.id, deliverer="test", seconds=60) is not None
        gone = Attempt(event=event, failure="410 Gone", gone=True)
        board.store.advance_webhook(hook.id, deliverer="test", after=hook.cursor, attempt=gone)
    # Long ago, as the clock of a test cannot be in another process.
    with closing(apsw.Connection(server.told["store"])) as connection:
        connection.setbusytimeout(10_000)
        for statement, given in (
            ("UPDATE keys SET created_at = created_at - ? WHERE id = ?", (30 * DAY_MS, key.id)),
            ("UPDATE items SET updated_at = updated_at - ? WHERE id = 'plan'", (2 * DAY_MS,)),
            ("UPDATE meta SET value = value - ? WHERE name = 'last_backup_at'", (3 * DAY_MS,)),
        ):
            connection.execute(statement, given).fetchall()


def live_quietly(server: Serving) -> None:
    """One failed run, a person who holds an item, a backlog."""
    board = board_of(server)
    for n in range(120):
        board.add("An item", id=f"item-{n}")
    me = board.start_session("coder").id
    board.claim("item-0", session=me)
    board.fail("item-0", session=me, reason="it does not work")
    board.end_session(me)
    board.claim("item-1", session=board.start_session("ann", kind="person").id)
    board.close()


def test_each_fault_of_one_board_raises_one_alert_with_its_name(tmp_path: Path) -> None:
    folders = {job: tmp_path / job for job in (SHOP, SITE)}
    for folder in folders.values():
        folder.mkdir()
    make_certificate(folders[SHOP])  # for a day
    with ExitStack() as stack:
        boards = {job: stack.enter_context(serving(folder, "--quiet")) for job, folder in folders.items()}
        scraping = stack.enter_context(prometheus(tmp_path, boards))
        scraping.until_scraped({SHOP, SITE})
        live_quietly(boards[SITE])
        neglect(boards[SHOP])
        neglected = [
            (alert, SHOP)
            for alert in (
                "DibsBackupOld",
                "DibsCertificateEnds",
                "DibsKeyEnds",
                "DibsPersonAwaited",
                "DibsWebhookDisabled",
            )
        ]
        scraping.until(neglected)
        assert_a_dashboard_shows_boards_apart(scraping)
        board = Path(boards[SHOP].told["store"])
        board.rename(board.with_suffix(".away"))
        scraping.until([("DibsCertificateEnds", SHOP), ("DibsStoreDown", SHOP)])
        assert scraping.scraped() == {SHOP, SITE}, "the scrape itself is answered"
        board.with_suffix(".away").rename(board)
        scraping.until(neglected)
        assert boards[SITE].stop() == 0
        scraping.until([*neglected, ("DibsServerDown", SITE)])


def test_a_full_disk_and_refused_requests_raise_an_alert_each(tmp_path: Path) -> None:
    folders = {job: tmp_path / job for job in (SHOP, SITE)}
    for folder in folders.values():
        folder.mkdir()
    (folders[SITE] / "dibs.toml").write_text("[server]\nsubscribers_max = 1\n")
    with ExitStack() as stack:
        # The settings, the key and the log of the server lie elsewhere, and find room.
        board = str(stack.enter_context(small_disk(tmp_path / "disk", 64)) / "board.db")
        make(board)
        shop = stack.enter_context(serving(folders[SHOP], "--quiet", "--log-json", store=board))
        site = stack.enter_context(serving(folders[SITE], "--quiet"))
        scraping = stack.enter_context(prometheus(tmp_path, {SHOP: shop, SITE: site}))
        scraping.until_scraped({SHOP, SITE})
        filler = fill(Path(board).parent)
        refused = shop.admin()("POST", "/v1/items", {"title": "An item", "body": "x" * 100_000})
        assert (refused.status, refused.code) == (503, "STORE_UNAVAILABLE")
        until(lambda: shop.admin()("GET", "/readyz").status == 503, "the server is not ready")
        scraping.until([("DibsStoreNotWritable", SHOP)])
        examined = shop.dibs("doctor", DIBS_STORE=board)
        assert (examined.returncode, "MB left" in examined.stdout) == (1, True), examined
        ((state, reason),) = states(shop)
        assert (state, "full" in reason) == ("full", True), reason
        filler.unlink()
        listening = stack.enter_context(closing(listener(site)))
        assert listening.getresponse().readline().startswith(b"retry:")
        # Once it accepts writes again, the board that was full raises no alert about what it refused meanwhile.
        scraping.until([("DibsRefuses", SITE)], meanwhile=lambda: site.admin()("GET", "/api/events"))
        until(lambda: shop.admin()("GET", "/readyz").status == 200, "the server is ready again")
        assert shop.admin()("POST", "/v1/items", {"title": "An item", "body": "x" * 100_000}).status == 200
        assert [state for state, _ in states(shop)] == ["full", "answers"]


def listener(server: Serving) -> http.client.HTTPConnection:
    """It listens to the events of the board."""
    caller = server.admin()
    connection = http.client.HTTPConnection(caller.host, caller.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {caller.key}"})
    return connection
