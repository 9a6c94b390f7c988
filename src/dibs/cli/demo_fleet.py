"""The processes and the output of `dibs demo`: starts server and workers, prints what they and the feed report."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

from dibs.board import connect
from dibs.cli.event_lines import KINDS
from dibs.cli.render import Paint, agent_colour, clean, cut, terminal_columns
from dibs.errors import DibsError
from dibs.value import Value
from dibs.worker.process_group import Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from dibs.model import Event

#: The demo has failed if an expected event takes longer than this.
PATIENCE_SECONDS = 20.0
#: Kinds that the demo waits for but does not print.
UNPRINTED = frozenset({"hello", "working", "claimable"})
#: The pause before the next heading on a terminal, for reading.
READING_SECONDS = 0.8
#: The column at which the text of a line begins.
TEXT_COLUMN = 28


class DemoFailed(DibsError):
    """An expected event did not happen."""


class Report(Value):
    """An event of the board, or a message of a worker."""

    kind: str
    item: str
    agent: str
    text: str = ""
    code: str = ""


class Fleet:
    def __init__(self, folder: str, paint: Paint, *, silent: bool = False) -> None:
        self.folder = folder
        self.checks: dict[str, bool] = {}
        self._silent = silent
        self._paint = paint
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._server: subprocess.Popen[str] | None = None
        # Ends the child processes if this process is killed.
        self._guard = Guard()
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        # The files that a server leaves for its user are removed with the folder.
        self._environment["XDG_STATE_HOME"] = folder
        self._incoming: queue.Queue[Report] = queue.Queue()
        self._reports: list[Report] = []
        self._closing = False
        self._started = time.monotonic()
        self._columns = terminal_columns(sys.stdout)

    def __enter__(self) -> Self:
        self._listener = threading.Thread(target=self._listen_to_board, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        started = [*self._workers.values(), *([self._server] if self._server else [])]
        for process in started:
            process.kill()
        for process in started:
            process.communicate()
            self._guard.remove(process.pid)
        self._guard.close()
        self._listener.join()

    # Processes

    @property
    def file(self) -> str:
        return os.path.join(self.folder, "board.db")

    def serve(self) -> tuple[str | None, str]:
        """Start a server for the board; return its URL or None, and the URL or the reason why it did not start."""
        self._server = self._start("dibs.cli.main", "serve", "--port", "0", "--quiet", "--json", "--store", self.file)
        assert self._server.stdout is not None
        late = threading.Timer(PATIENCE_SECONDS, self._server.kill)
        late.start()
        try:
            answer = json.loads(self._server.stdout.readline() or "{}")
        finally:
            late.cancel()
        if "serving" not in answer:
            return None, answer.get("error", {}).get("message", "it did not start")
        url = answer["serving"]["url"]
        return url, url

    def start_worker(self, name: str, store: str, seconds: float, first_seconds: float = 0) -> None:
        """Start a worker process and collect its reports."""
        worker = self._start("dibs.cli.demo_worker", store, self.folder, name, str(seconds), str(first_seconds))
        self._workers[name] = worker
        threading.Thread(target=self._listen_to_worker, args=(name, worker), daemon=True).start()

    def _start(self, module: str, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            cwd=self.folder,
            env=self._environment,
            # Ctrl-C reaches only this process, which then ends the others.
            process_group=0,
        )
        self._guard.add(process.pid)
        return process

    def order(self, order: str, *names: str) -> None:
        for name in names:
            stdin = self._workers[name].stdin
            assert stdin is not None
            stdin.write(order + "\n")

    def signal(self, name: str, number: signal.Signals, what: str) -> None:
        self._workers[name].send_signal(number)
        self._print(name, number.name, what, "red" if number != signal.SIGCONT else "yellow")

    # Output

    def heading(self, title: str, rest: str) -> None:
        if self._reports and self._columns is not None:
            end = time.monotonic() + READING_SECONDS
            while self._print_next(end):
                pass
        self.line("")
        self.line(f"{self._paint(title, 'bold')}  {self._paint(clean(rest), 'dim')}")

    def line(self, text: str) -> None:
        if not self._silent:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def check(self, sentence: str, holds: bool) -> None:
        self.checks[sentence] = holds
        self.line(f"  {self._paint('✓', 'green') if holds else self._paint('✗', 'red')} {clean(sentence)}")

    def until(self, kind: str, *, item: str | None = None, agent: str | None = None) -> Report:
        """Print reports until one matches; earlier reports count."""
        seen, end = 0, time.monotonic() + PATIENCE_SECONDS
        while True:
            for report in self._reports[seen:]:
                if report.kind == kind and item in (None, report.item) and agent in (None, report.agent):
                    return report
            seen = len(self._reports)
            if not self._print_next(end):
                raise DemoFailed(f"no such event within {PATIENCE_SECONDS:g}s: {kind} {item or ''} {agent or ''}")

    def _print_next(self, end: float) -> bool:
        """Wait for the next report and print it; False if there is none until the time `end`."""
        try:
            report = self._incoming.get(timeout=max(0, end - time.monotonic()))
        except queue.Empty:
            return False
        self._reports.append(report)
        if report.kind not in UNPRINTED:
            colour = "red" if report.kind == "refused" else KINDS.get(report.kind, "")
            self._print(report.agent, report.kind.replace("_", " "), f"{report.item:<14} {report.text}", colour)
        return True

    def _print(self, name: str, what: str, text: str, colour: str) -> None:
        seconds = f"{time.monotonic() - self._started:5.1f}s"
        text = clean(text) if self._columns is None else cut(clean(text), self._columns - TEXT_COLUMN)
        who, verb = self._paint(f"{name:<5}", agent_colour(name)), self._paint(f"{what:<11}", colour)
        self.line(f"  {self._paint(seconds, 'dim')}  {who}  {verb}{text}")

    # Input

    def _listen_to_board(self) -> None:
        after = 0
        with connect(self.file, folder=self.folder) as board:
            while not self._closing:
                for event in board.follow(after=after, wait_seconds=0.2):
                    after = event.id
                    self._incoming.put(_from_event(event))

    def _listen_to_worker(self, name: str, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            self._incoming.put(_from_worker(name, json.loads(line)))


def _from_event(event: Event) -> Report:
    match event.kind:
        case "added":
            text = str(event.data.get("title", ""))
        case "claimed" | "done":
            text = f"token {event.token}"
        case "owner_died":
            text = "its owner process died: ready again"
        case "expired":
            text = "no heartbeat in time: ready again"
        case "submitted":
            text = str(event.data.get("draft", ""))
        case "approved":
            text = f"the draft of run {event.data.get('draft_token')}"
        case _:
            text = ""
    return Report(kind=event.kind, item=event.item, agent=event.agent or event.actor, text=text)


def _from_worker(name: str, message: dict[str, Any]) -> Report:
    if "refused" not in message:
        ((kind, item),) = message.items()
        return Report(kind=kind, item=item, agent=name)
    refusal = message["refused"]
    code, by = refusal["code"], refusal.get("taken_over_by") or refusal.get("holder") or {}
    text = f"{code}: {by['agent']} holds it" if code == "TASK_ALREADY_CLAIMED" else refusal["message"]
    text = f"{code}: {by['agent']} took it over" if code == "CLAIM_EXPIRED" and by else text
    return Report(kind="refused", item=refusal.get("item") or "", agent=name, text=text, code=code)
