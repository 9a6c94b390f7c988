"""The workers of the story: started, given orders, and listened to; and the feed of the board, printed as it comes."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time

from dibs.board import connect
from dibs.cli.demo import processes
from dibs.cli.demo.processes import Processes
from dibs.cli.demo.screen import Screen
from dibs.cli.event_lines import KIND_COLOURS
from dibs.errors import DibsError
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from dibs.model import Event

#: Kinds that the demo waits for but does not print.
UNPRINTED = frozenset({"hello", "working", "claimable"})
#: The pause before the next heading on a terminal, for reading.
READING_SECONDS = 0.8


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
    def __init__(self, processes: Processes, screen: Screen) -> None:
        self.processes, self.screen = processes, screen
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._incoming: queue.Queue[Report] = queue.Queue()
        self._reports: list[Report] = []
        self._closing = False

    def __enter__(self) -> Self:
        self._listener = threading.Thread(target=self._listen_to_board, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._listener.join()

    def start_worker(self, name: str, store: str, seconds: float, first_seconds: float = 0) -> None:
        """Start a worker process and collect its reports."""
        words = (store, self.processes.folder, name, str(seconds), str(first_seconds))
        worker = self.processes.start("dibs.cli.demo.worker", *words)
        self._workers[name] = worker
        threading.Thread(target=self._listen_to_worker, args=(name, worker), daemon=True).start()

    def order(self, order: str, *names: str) -> None:
        for name in names:
            stdin = self._workers[name].stdin
            assert stdin is not None
            stdin.write(order + "\n")

    def signal(self, name: str, number: signal.Signals, what: str) -> None:
        self._workers[name].send_signal(number)
        self.screen.act(name, number.name, what, "red" if number != signal.SIGCONT else "yellow")

    def heading(self, title: str, rest: str) -> None:
        if self._reports and self.screen.is_paced:
            end = time.monotonic() + READING_SECONDS
            while self._print_next(end):
                pass
        self.screen.heading(title, rest)

    def until(self, kind: str, *, item: str | None = None, agent: str | None = None) -> Report:
        """Print reports until one matches; earlier reports count."""
        seen, end = 0, time.monotonic() + processes.PATIENCE_SECONDS
        while True:
            for report in self._reports[seen:]:
                if report.kind == kind and item in (None, report.item) and agent in (None, report.agent):
                    return report
            seen = len(self._reports)
            if not self._print_next(end):
                patience = f"{processes.PATIENCE_SECONDS:g}s"
                raise DemoFailed(f"no such event within {patience}: {kind} {item or ''} {agent or ''}")

    def _print_next(self, end: float) -> bool:
        """Wait for the next report and print it; False if there is none until the time `end`."""
        try:
            report = self._incoming.get(timeout=max(0, end - time.monotonic()))
        except queue.Empty:
            return False
        self._reports.append(report)
        if report.kind not in UNPRINTED:
            colour = "red" if report.kind == "refused" else KIND_COLOURS.get(report.kind, "")
            what, text = report.kind.replace("_", " "), f"{report.item:<14} {report.text}"
            self.screen.act(report.agent, what, text, colour)
        return True

    def _listen_to_board(self) -> None:
        after = 0
        with connect(self.processes.file, folder=self.processes.folder) as board:
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
