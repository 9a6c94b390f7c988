"""`dibs demo --open`: a fleet at work on a temporary board, live on the dashboard.

The sessions are those of a few processes (`crowd`), some over HTTP and some on the file. This process is their
environment: it adds work, kills one process and starts it again, stops another one until its claims have expired, and
answers drafts, but leaves the latest ones to you. Whatever you do on the dashboard meanwhile is part of it. A run of
less than two minutes is faster, so that all of it happens.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

from dibs import check
from dibs.board import connect
from dibs.cli import dashboard, server
from dibs.cli.context import Cli
from dibs.cli.demo import processes
from dibs.cli.demo.crowd import LETTER, MAILER, SENDER, WANTED
from dibs.cli.demo.folder import DemoFolder
from dibs.cli.demo.processes import Processes
from dibs.cli.demo.screen import Screen
from dibs.cli.demo.story import NOT_SHOWN, held_twice
from dibs.cli.render import number_of
from dibs.errors import DibsError, StoreUnusable
from dibs.maintenance.doctor import examine
from dibs.model import BLOCKED, DEFAULT_TYPE, FAILED, PENDING_APPROVAL, READY
from dibs.rules.fencing import LAPSED
from dibs.rules.lost_runs import REVOKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dibs.board import Board
    from dibs.model import Item, Run

    #: A run, by its item and its token.
    Held = tuple[str, int]

#: A run of this length or longer has the pace of people and models.
FULL_SECONDS = 120.0
#: At a pace of 1, in seconds.
TTL_SECONDS = 40.0
CRASH_AT, CRASH_EVERY, RESTART_AFTER = 20.0, 100.0, 15.0
STALL_AT, STALL_EVERY = 30.0, 150.0
SUPPLY_EVERY, ANSWER_EVERY = 5.0, 8.0
TTL_SECONDS_MIN = 2.0
LOOK_SECONDS = 0.25
MORE_SECONDS = 30.0
#: How many drafts, and how many failed items, are left to you.
LEFT = 3
#: How many sessions the process has that is killed, and the one that is stopped.
CRASHING, STALLING = 2, 1
AGENTS = ("coder", "fixer", "reviewer", "writer")
PROJECTS = ("shop", "billing", "site")
TYPES = {"bug": 8, "feature": 5, "docs": 3, "review": 5}
TITLES = (
    *("Login fails on Safari", "Migrate orders to the new schema", "Document the webhooks", "Speed up search"),
    *("Rotate the signing keys", "Refunds lose the currency", "Upgrade the payment library", "Flaky test in checkout"),
    *("Add an index on customers", "Translate the invoices", "Cache the price list", "Export reports as CSV"),
)
LETTERS = ("The login works again", "Your refund is on its way", "Search is faster now", "We changed our prices")
FOLDERS = ("checkout", "search", "billing", "site", "api", "mobile", "admin", "ops")


def show(cli: Cli, agents: int, seconds: float | None) -> int:
    server.require_server("dibs demo --open")
    pace = min(1.0, (seconds or FULL_SECONDS) / FULL_SECONDS)
    screen = Screen(cli.paint, silent=cli.json, name_columns=max(map(len, AGENTS)))
    with DemoFolder() as folder:
        with open(f"{folder}/dibs.toml", "w") as file:
            file.write(_settings(max(TTL_SECONDS_MIN, pace * TTL_SECONDS)))
        with (
            connect(f"{folder}/board.db", folder=folder, create=True, actor="you") as board,
            Processes(folder) as started,
        ):
            screen.heading("A fleet at work", f"on {started.file}; Ctrl-C ends it and leaves nothing behind")
            live = Live(started, board, screen, pace)
            url = live.start(agents)
            _open(cli, board, screen, url, started.file)
            live.run(seconds)
            live.check()
    if cli.json:
        cli.print_json({"shown": screen.shown, "checks": screen.checks})
    return 0 if screen.shown else NOT_SHOWN


def _settings(ttl: float) -> str:
    settings = {
        "ttl_seconds": ttl,
        "ttl_seconds_min": 1,
        "heartbeat_seconds": ttl / 4,
        "stale_seconds": ttl / 4,
        "orphan_seconds": ttl / 2,
        "warning_seconds": ttl / 4,
        "expiring_seconds": ttl / 10,
        "retry_backoff_seconds": ttl / 4,
    }
    return "\n".join(["[board]", *(f"{name} = {value:g}" for name, value in settings.items()), ""])


def _open(cli: Cli, board: Board, screen: Screen, url: str, file: str) -> None:
    _, link = server.login_link(board, url)
    if cli.json:
        is_opened = dashboard.opens(link)
        cli.print_json({"opened": is_opened, "url": url, "login": None if is_opened else link})
        sys.stdout.flush()
        return
    # The note of the server, with the name of its pages, is in the folder too.
    command = f"XDG_STATE_HOME={os.path.dirname(file)} dibs key link --store {file}"

    def tell() -> None:
        screen.line(f"  {'opened ' + url if dashboard.opens(link) else link}")

    if dashboard.has_display():
        # Half a minute may pass before it is known that no browser comes.
        threading.Thread(target=tell, daemon=True).start()
    else:
        tell()
    screen.line(screen.paint(f"  another link: {command}", "dim"))
    screen.line("")


def _items(held: set[Held]) -> str:
    return ", ".join(sorted(item for item, _ in held))


def _by_you(ends: list[str | None]) -> str:
    count = sum(end in REVOKED for end in ends)
    return f" (you ended {count})" if count else ""


class Live:
    def __init__(self, started: Processes, board: Board, screen: Screen, pace: float) -> None:
        self.processes, self.board, self.screen, self.pace = started, board, screen, pace
        self.chance = random.Random()
        self._added = 0
        self._latest: str | None = None
        #: What killed processes held, and how stopped ones lost what they held.
        self.killed: set[Held] = set()
        self.lost: dict[Held, str] = {}
        self._stores: dict[str, str] = {}
        self._agents: dict[str, list[str]] = {}
        self._crowds: dict[str, subprocess.Popen[str]] = {}
        self._hellos: dict[str, threading.Event] = {}

    def start(self, agents: int) -> str:
        """Start server and sessions; return the URL of the dashboard."""
        answer = self.processes.serve()
        url = answer["url"]
        if url is None:
            raise StoreUnusable(f"the server did not start: {answer['error']}")
        for name in AGENTS:
            self.board.set_agent(name, types=[*TYPES, DEFAULT_TYPE])
        self.board.set_agent(MAILER, types=[LETTER], sensitive_actions=["send"])
        self.board.set_agent(SENDER, types=[LETTER], allowed_actions=["send"], sensitive_actions=["send"])
        self.board.add("The staging environment", id=WANTED, type="environment", project="shop", priority=10)
        self._supply(2 * agents)
        others = agents - CRASHING - STALLING
        crowd = [MAILER, SENDER, *(AGENTS[number % len(AGENTS)] for number in range(others))][:others]
        self._plan("build-1", url, crowd[0::2])
        self._plan("build-2", self.processes.file, crowd[1::2])
        self._plan("spot-1", url, list(AGENTS[:CRASHING]))
        self._plan("laptop", url, list(AGENTS[:STALLING]))
        for host in self._agents:
            self._start_crowd(host)
        for host in self._agents:
            self._hellos[host].wait(processes.PATIENCE_SECONDS)
        pages: str = answer["pages"] or url
        return pages

    def run(self, seconds: float | None) -> None:
        """Let things happen until the time is up, or for ever. On a slow machine, a short run may take a bit longer."""
        end = None if seconds is None else time.monotonic() + seconds
        clocks = [self._supplies(), self._answers(), self._crashes(), self._stalls()]
        due = [(time.monotonic() + next(clock), clock) for clock in clocks]
        while end is None or time.monotonic() < end or (not self._is_told and time.monotonic() < end + MORE_SECONDS):
            time.sleep(LOOK_SECONDS * self.pace)
            for number, (at, clock) in enumerate(due):
                if time.monotonic() >= at:
                    due[number] = (time.monotonic() + next(clock), clock)

    @property
    def _is_told(self) -> bool:
        """Whether a crash and a stall have happened."""
        return bool(self.killed and self.lost)

    def check(self) -> None:
        """Print what happened, and check it against the board."""
        self.screen.heading("What the board recorded", "read from its history")
        self.board.sweep()
        runs: dict[str, list[Run]] = {}
        for run in sorted(self.board.runs(limit=check.LIST_MAX), key=lambda run: run.token):
            runs.setdefault(run.item, []).append(run)
        outcomes = {(run.item, run.token): run.outcome for of_item in runs.values() for run in of_item}
        done, drafts, revoked = (
            sum(outcome in wanted for outcome in outcomes.values()) for wanted in ({"done"}, {"submitted"}, REVOKED)
        )
        checks = {
            f"{number_of(done, 'run')} done, {number_of(drafts, 'draft')} written": done + revoked > 0,
            f"no item was held twice at a time in {len(outcomes)} runs": not held_twice(runs),
            "replaying the history of every item gives its state": not [
                finding for finding in examine(self.board) if not finding.late
            ],
        }
        if self.killed:
            ends = [outcomes[run] for run in self.killed if run in outcomes]
            sentence = f"{number_of(ends.count('owner_died'), 'claim')} of killed processes came back{_by_you(ends)}"
            checks[f"{sentence}, and none was left behind"] = None not in ends
        if self.lost:
            known = {run: outcomes[run] for run in self.lost if run in outcomes}
            ends = list(known.values())
            sentence = f"{number_of(ends.count('expired'), 'claim')} of stopped sessions expired{_by_you(ends)}"
            checks[f"{sentence}, and late results changed nothing"] = known.items() <= self.lost.items()
        for sentence, holds in checks.items():
            self.screen.check(sentence, holds)

    # What happens, each as the seconds until it happens next

    def _supplies(self) -> Iterator[float]:
        while True:
            yield self.pace * SUPPLY_EVERY
            sessions = sum(map(len, self._agents.values()))
            missing = sessions - len(self.board.list(statuses=[READY, BLOCKED], limit=2 * sessions))
            if missing > 0:
                self._supply(missing + self.chance.randrange(sessions))

    def _answers(self) -> Iterator[float]:
        while True:
            yield self.pace * ANSWER_EVERY
            drafts = self.board.list(statuses=[PENDING_APPROVAL])
            for item in sorted(drafts, key=lambda item: item.updated_at)[: max(0, len(drafts) - LEFT)]:
                self._answer(item)
            failed = self.board.list(statuses=[FAILED])
            for item in failed[: max(0, len(failed) - LEFT)]:
                self._retry(item)

    def _crashes(self) -> Iterator[float]:
        yield self.pace * CRASH_AT
        while True:
            held = self._stop("spot-1")
            if not held:
                self._crowds["spot-1"].send_signal(signal.SIGCONT)
                yield self.pace
                continue
            self.processes.kill(self._crowds["spot-1"])
            self.killed |= held
            self.screen.act("spot-1", "SIGKILL", f"kill -9, holding {_items(held)}", "red")
            yield self.pace * RESTART_AFTER
            self._start_crowd("spot-1")
            self.screen.act("spot-1", "started", "again, with new sessions", "green")
            yield self.pace * CRASH_EVERY

    def _stalls(self) -> Iterator[float]:
        yield self.pace * STALL_AT
        while True:
            held = self._stop("laptop")
            if held:
                self.screen.act("laptop", "SIGSTOP", f"stopped, holding {_items(held)}", "red")
                while held & self._holding():
                    yield self.pace
                self.lost |= self._lost(held)
                yield self.pace * RESTART_AFTER
                self.screen.act("laptop", "SIGCONT", "continues: too late", "yellow")
            self._crowds["laptop"].send_signal(signal.SIGCONT)
            yield self.pace * (STALL_EVERY if held else 1)

    # Sessions

    def _plan(self, host: str, store: str, agents: list[str]) -> None:
        self._stores[host], self._agents[host] = store, agents

    def _start_crowd(self, host: str) -> None:
        words = (self._stores[host], self.processes.folder, host, str(self.pace), *self._agents[host])
        crowd = self.processes.start("dibs.cli.demo.crowd", *words)
        self._crowds[host] = crowd
        self._hellos[host] = threading.Event()
        threading.Thread(target=self._listen, args=(host, crowd), daemon=True).start()

    def _stop(self, host: str) -> set[Held]:
        """Stop the process; return what its sessions hold."""
        self._crowds[host].send_signal(signal.SIGSTOP)
        return self._holding({view.session.id for view in self.board.sessions() if view.session.host == host})

    def _holding(self, sessions: set[str] | None = None) -> set[Held]:
        claims = [one.claim for one in self.board.who() if one.claim is not None]
        return {(claim.item, claim.token) for claim in claims if sessions is None or claim.session in sessions}

    def _lost(self, held: set[Held]) -> dict[Held, str]:
        """How these runs were lost, without those that a request which was under way has ended all the same."""
        runs = [run for item in {item for item, _ in held} for run in self.board.get(item).runs]
        ends = {(run.item, run.token): run.outcome for run in runs if (run.item, run.token) in held}
        return {run: outcome for run, outcome in ends.items() if outcome in LAPSED | REVOKED}

    def _listen(self, host: str, crowd: subprocess.Popen[str]) -> None:
        assert crowd.stdout is not None
        for line in crowd.stdout:
            kind, *rest = line.split()
            if kind == "hello":
                self._hellos[host].set()
            elif kind in ("late", "refused"):
                item, agent, code = rest
                self.screen.act(agent, kind, f"{item:<18} {code}", "red")

    # Work

    def _supply(self, count: int) -> None:
        try:
            self.board.add_many([self._new_item() for _ in range(count)])
        except DibsError:
            self._latest = None  # you added an item with one of these ids; the next ones have other numbers

    def _new_item(self) -> dict[str, Any]:
        self._added += 1
        number, chance = self._added, self.chance
        if chance.random() < 0.1:
            title = chance.choice(LETTERS)
            return {"id": f"letter-{number}", "title": title, "type": LETTER, "action": "send", "project": "site"}
        title, type = chance.choice(TITLES), chance.choice(list(TYPES))
        item: dict[str, Any] = {
            "id": f"{title.split()[0].lower()}-{number}",
            "title": title,
            "type": type,
            "project": chance.choice(PROJECTS),
            "priority": min(10, TYPES[type] + chance.choice((0, 0, 0, 1, 2))),
            "labels": chance.sample(("web", "db", "api", "ops"), chance.randrange(3)),
            "retries": chance.randrange(2),
        }
        if self._latest is not None and chance.random() < 0.1:
            item["depends_on"] = [self._latest]
        self._latest = item["id"]
        if chance.random() < 0.5:
            item["resources"] = [f"src/{chance.choice(FOLDERS)}/{chance.choice('abcdefgh')}.py"]
        return item

    def _answer(self, item: Item) -> None:
        try:
            if self.chance.random() < 0.2:
                self.board.send_back(item.id, comment="shorter, please", revision=item.revision)
            else:
                self.board.approve(item.id, revision=item.revision)
        except DibsError:
            pass  # somebody at the dashboard was faster

    def _retry(self, item: Item) -> None:
        try:
            self.board.retry(item.id, reason="the build is green again")
        except DibsError:
            pass  # as above
