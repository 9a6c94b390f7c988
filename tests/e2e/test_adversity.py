"""`dibs work` in adversity: stopped past its TTL, cut off from its store, run across a jump of the board's clock.

Real workers with real commands, on each store. Whatever happens, the item is done once by the record; what comes late
is refused if somebody else was given the item, and recovered if nobody was; and no process is left behind.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.sdk.heartbeat import GAP_SECONDS
from dibs.testing.conformance.asking import kinds
from dibs.testing.invariants import assert_sound
from tests.conformance.conftest import folder
from tests.kit.processes import alive, with_variable
from tests.kit.soak import in_a_soak
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.sdk.conftest import Stage as Place
from tests.sdk.conftest import make_stage

__all__ = ["folder"]

TTL_SECONDS = 3.0
#: A tenth of it, in which a worker without heartbeats ends its command, is more than a busy machine needs for that.
CUT_TTL_SECONDS = 8.0
DAY = 86400.0
MARKER = "DIBS_TEST_ADVERSITY"
#: `dibs`, with the clock of the test under a board that is a file.
DIBS = """
import sys
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.clock import FileClock
SqliteStore.__init__.__kwdefaults__["clock"] = FileClock(sys.argv.pop(1))
from dibs.cli.main import run
run()
"""
#: Says who it is, waits to be let go, and says done, also if it is told to end.
COMMAND = "trap 'exit 0' TERM; echo $$ >>pids; echo begun; read x <go; echo finished"


class Working:
    """A `dibs work` process, and what it tells."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DIBS, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._told: queue.Queue[dict[str, Any]] = queue.Queue()
        self.words: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def until(self, word: str, item: str = "x") -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                told = self._told.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {word}, but {self.words}") from None
            self.words.append(f"{told['event']} {told.get('text', '')}")
            if (told["event"], told.get("item")) == (word, item):
                return told

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_SECONDS) == 0
        assert self.process.stderr is not None
        assert self.process.stderr.read() == ""

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._told.put(json.loads(line))


class Scene:
    """A board with the item x, and a worker that is at work on it."""

    def __init__(
        self, place: Place, folder: Path, stack: ExitStack, script: str = COMMAND, ttl_seconds: float = TTL_SECONDS
    ) -> None:
        self.place, self.board, self.folder = place, place.board, folder
        self._stack, self._ttl_seconds = stack, ttl_seconds
        self.marker = f"adversity-{os.urandom(8).hex()}"
        os.mkfifo(folder / "go")
        board_folder = os.path.dirname(place.recipe["kwargs"].get("path", ""))
        (folder / board_folder / "dibs.toml").write_text("[board]\nttl_seconds_min = 1\nlock_wait_seconds = 2\n")
        self.board.add("do it", id="x")
        self.worker = self.work(script)
        self.worker.until("output")

    def work(self, script: str) -> Working:
        words = ["work", "--agent", "coder", "--ttl", f"{self._ttl_seconds:g}s", "--json", "--", "sh", "-c", script]
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            MARKER: self.marker,
            **self._store(),
        }
        (self.folder / "dibs").write_text(f"#!/bin/sh\nexec {sys.executable} -c '{DIBS}' {self._clock} \"$@\"\n")
        (self.folder / "dibs").chmod(0o755)
        worker = Working([self._clock, *words], self.folder, environment)
        self._stack.callback(worker.close)
        return worker

    def let_go(self) -> None:
        """Let the command finish."""
        (self.folder / "go").write_text("on\n")

    @property
    def pids(self) -> list[int]:
        return [int(word) for word in (self.folder / "pids").read_text().split()]

    def taken_over(self) -> None:
        """Somebody else is given the item, and does it."""
        with self.place.harness.board().session("other") as other:
            claim = other.claim("x", wait_seconds=PATIENCE_SECONDS)
            assert claim.token == 2
            claim.done("by another")

    def ended(self, outcomes: list[str]) -> None:
        """All is as it should be: x is done once, by these runs, and no process is left."""
        assert [run.outcome for run in self.board.get("x").runs] == outcomes
        assert kinds(self.board, "x").count("done") == 1
        assert_sound(self.board)
        until(lambda: not alive(self.pids))
        self.worker.stop()
        until(lambda: not with_variable(MARKER, self.marker))
        assert not list(self.folder.glob("dibs-*")), "no file either"

    @property
    def _clock(self) -> str:
        return str(Path(self.place.harness.folder) / "clock")

    def _store(self) -> dict[str, str]:
        kwargs = self.place.recipe["kwargs"]
        if "servers" in kwargs:
            ((url, key),) = kwargs["servers"]
            return {"DIBS_STORE": url, "DIBS_KEY": key}
        return {"DIBS_STORE": kwargs.get("url") or kwargs["path"]}


Opens = Callable[..., Scene]


@pytest.fixture
def open_scene(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[Opens]:
    with ExitStack() as stack:
        yield lambda kind, **asked: Scene(make_stage(stack, request, folder, kind), tmp_path, stack, **asked)


def has_expired(board: Board) -> bool:
    board.sweep()
    return board.get("x").claim is None


def stop_between_beats(scene: Scene) -> None:
    """Not in the middle of one: on a file it would have the lock in its hands."""
    claim = scene.board.get("x").claim
    assert claim is not None

    def has_beaten() -> bool:
        now = scene.board.get("x").claim
        return now is not None and now.heartbeat_count > claim.heartbeat_count

    until(has_beaten)
    time.sleep(0.1)  # nobody tells when it has let go of the lock
    scene.worker.process.send_signal(signal.SIGSTOP)


def stand_still(scene: Scene) -> None:
    """Until it has expired, and then for so long that it is clear afterwards why nothing was heard."""
    until(lambda: has_expired(scene.board))
    time.sleep(4 * GAP_SECONDS)


STORES = ["sqlite", *in_a_soak("postgres"), "http"]


@pytest.mark.parametrize("kind", STORES)
def test_stopped_past_its_ttl_while_another_was_given_the_item(open_scene: Opens, kind: str) -> None:
    scene = open_scene(kind)
    stop_between_beats(scene)
    scene.taken_over()
    scene.let_go()  # the command is done, and exits with 0
    until(lambda: not alive(scene.pids))
    scene.worker.process.send_signal(signal.SIGCONT)
    scene.worker.until("lost")
    scene.ended(["done", "expired"])
    assert scene.board.get("x").runs[0].reason == "by another"


@pytest.mark.parametrize("kind", STORES)
def test_stopped_past_its_ttl_while_nobody_was_given_the_item(open_scene: Opens, kind: str) -> None:
    """It is recovered; and what the command says inside, under the token it began with, counts."""
    recovered = 'until [ "$(wc -l <"$DIBS_CLAIM_FILE")" = 2 ]; do sleep 0.05; done'
    inside = 'dibs progress "$DIBS_ITEM" "with $DIBS_CLAIM_TOKEN for $(tail -n 1 "$DIBS_CLAIM_FILE")"'
    scene = open_scene(kind, script=f"echo $$ >>pids; echo begun; read x <go; {recovered}; {inside}; echo finished")
    stop_between_beats(scene)
    stand_still(scene)
    scene.worker.process.send_signal(signal.SIGCONT)
    scene.let_go()
    assert scene.worker.until("done")["token"] == 2
    assert "with 1 for 2" in [note.note for note in scene.board.get("x").notes]
    scene.ended(["done", "expired"])


@pytest.mark.parametrize("kind", STORES)
def test_what_the_command_recovered_meanwhile_the_worker_goes_on_with(open_scene: Opens, kind: str) -> None:
    """Both under the session's name, and not as if each had taken it from the other."""
    inside = 'dibs progress "$DIBS_ITEM" half && dibs progress "$DIBS_ITEM" more && echo noted'
    scene = open_scene(kind, script=f"echo $$ >>pids; echo begun; read x <go; {inside}; read x <go; echo finished")
    stop_between_beats(scene)
    stand_still(scene)
    scene.let_go()
    until(lambda: [note.note for note in scene.board.get("x").notes] == ["half", "more"])
    scene.worker.process.send_signal(signal.SIGCONT)
    scene.worker.until("output")
    beats = scene.board.get("x").claim
    assert beats is not None
    until(lambda: (now := scene.board.get("x").claim) is not None and now.heartbeat_count > beats.heartbeat_count)
    scene.let_go()
    assert scene.worker.until("done")["token"] == 2
    scene.ended(["done", "expired"])


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("postgres", "cut"),
        ("http", "hold"),
        pytest.param("postgres", "hold", marks=pytest.mark.soak),
        pytest.param("http", "cut", marks=pytest.mark.soak),
    ],
)
def test_cut_off_it_ends_its_command_before_another_can_have_the_item(open_scene: Opens, kind: str, how: str) -> None:
    scene = open_scene(kind, ttl_seconds=CUT_TTL_SECONDS)
    getattr(scene.place.line, how)()
    until(lambda: has_expired(scene.board))
    assert not alive(scene.pids), "it knew in time"
    scene.taken_over()
    scene.worker.until("lost")
    scene.place.line.mend()
    scene.ended(["done", "expired"])


@pytest.mark.parametrize("kind", ["postgres", *in_a_soak("http")])
def test_cut_off_for_a_while_it_goes_on(open_scene: Opens, kind: str) -> None:
    """Also if the command is done meanwhile: that is told when the store is back."""
    scene = open_scene(kind, ttl_seconds=CUT_TTL_SECONDS)
    scene.place.line.cut()
    scene.let_go()
    until(lambda: not alive(scene.pids))
    scene.place.line.mend()
    assert scene.worker.until("done")["token"] == 1
    scene.ended(["done"])


@pytest.mark.parametrize("kind", STORES)
def test_across_a_jump_of_the_clock_while_another_was_given_the_item(open_scene: Opens, kind: str) -> None:
    scene = open_scene(kind)
    stop_between_beats(scene)  # so that it is the other who comes first
    scene.place.harness.clock.advance(DAY)
    scene.taken_over()
    scene.worker.process.send_signal(signal.SIGCONT)
    scene.worker.until("lost")
    scene.ended(["done", "expired"])


@pytest.mark.parametrize("kind", STORES)
def test_across_a_jump_of_the_clock_while_nobody_was_given_the_item(open_scene: Opens, kind: str) -> None:
    scene = open_scene(kind)
    scene.place.harness.clock.advance(DAY)

    def is_recovered() -> bool:
        claim = scene.board.get("x").claim
        return claim is not None and claim.token == 2

    until(is_recovered)
    scene.let_go()
    assert scene.worker.until("done")["token"] == 2
    scene.ended(["done", "expired"])


@pytest.mark.parametrize("kind", STORES)
def test_across_a_jump_back(open_scene: Opens, kind: str) -> None:
    scene = open_scene(kind)
    scene.place.harness.clock.advance(-DAY)
    claim = scene.board.get("x").claim
    assert claim is not None
    beats = claim.heartbeat_count
    until(lambda: (now := scene.board.get("x").claim) is not None and now.heartbeat_count > beats)
    scene.let_go()
    assert scene.worker.until("done")["token"] == 1
    scene.ended(["done"])


@pytest.mark.parametrize("kind", STORES)
def test_killed_it_leaves_no_process_and_another_worker_does_the_item(open_scene: Opens, kind: str) -> None:
    scene = open_scene(kind)
    first = scene.worker
    first.process.kill()
    first.process.wait()
    scene.worker = scene.work("echo again")
    scene.worker.until("done")
    until(lambda: not alive(scene.pids))
    for left in scene.folder.glob("dibs-*"):  # what is told to stay
        assert sorted(os.listdir(left)) == ["claim", "item.json"]
        for name in ("claim", "item.json"):
            os.unlink(left / name)
        os.rmdir(left)
    assert scene.board.get("x").runs[1].outcome in ("owner_died", "expired")
    scene.ended(["done", scene.board.get("x").runs[1].outcome or ""])
