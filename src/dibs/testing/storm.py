"""A storm: workers on one board that are killed with -9 at arbitrary moments, each replaced by a new one.

`rage` is a scene, played by a process of its own. It forks the workers, since a fork costs a hundredth of a start, and
each of them opens the board anew. A worker's life is random calls of its role, recorded, until it is killed.
"""

from __future__ import annotations

import glob
import os
import random
import signal
import time

from dibs.errors import DibsError
from dibs.testing.actors import say
from dibs.testing.harness import open_recipe
from dibs.testing.recording import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model import Grant

ROLES = ("claimer", "finisher", "sweeper")
#: Items to begin with; sweepers add others.
ITEMS = 40
#: So few of them are fought over at any time.
CROWD = 4
WORKERS = 6
#: A worker that is not killed ends by itself after so many calls.
CALLS_MAX = 100_000
CALM_SECONDS_MAX = 0.03


def rage(
    board: Board, *, recipe: dict[str, Any], folder: str, seed: int, kills: int, calm_seconds: float = CALM_SECONDS_MAX
) -> dict[str, int]:
    """Kill so many workers, with so long between at most; how many of each role. Says `killed` after each tenth."""
    board.close()
    draw = random.Random(seed)
    workers: dict[int, str] = {}
    killed = dict.fromkeys(ROLES, 0)
    for number in range(kills + WORKERS):
        role = ROLES[number % len(ROLES)]
        workers[_forked(recipe, role, folder, seed * 1_000_003 + number)] = role
        if len(workers) < WORKERS:
            continue
        # The moment is what is random here; nothing is waited for.
        time.sleep(draw.random() * calm_seconds)
        victim = draw.choice(sorted(workers))
        killed[workers.pop(victim)] += _killed(victim)
        if number % 10 == 0:
            say({"killed": sum(killed.values())})
    for victim, role in workers.items():
        killed[role] += _killed(victim)
    return killed


def toil(board: Board, *, role: str, folder: str, seed: int, calls: int) -> None:
    """A worker's life: `calls` random calls of its role."""
    recorder = Recorder(board, folder)
    draw = random.Random(seed)
    # Half of them say who owns them, so that their deaths are noticed; the others' claims have to expire.
    owner_pid = os.getpid() if draw.random() < 0.5 else None
    me = board.start_session(role, owner_pid=owner_pid).id
    life = {"claimer": _claim_a_while, "finisher": _finish_one, "sweeper": _sweep_up}[role]
    held: list[Grant] = []
    for _ in range(calls):
        try:
            life(recorder, draw, me, held)
        except DibsError:
            held.clear()


def died(folder: str) -> list[str]:
    """What workers died of that nobody killed."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "died-*"))):
        with open(path, encoding="utf-8") as file:
            found.append(file.read())
    return found


def _forked(recipe: dict[str, Any], role: str, folder: str, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    try:
        toil(open_recipe(recipe), role=role, folder=folder, seed=seed, calls=CALLS_MAX)
    except BaseException as error:
        with open(os.path.join(folder, f"died-{os.getpid()}"), "w", encoding="utf-8") as file:
            file.write(f"{role}, seed {seed}: {error!r}")
        raise
    finally:
        os._exit(1)


def _killed(pid: int) -> int:
    """1 if the kill found it at work, 0 if it had ended before."""
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return int(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL)


def _claim_a_while(recorder: Recorder, draw: random.Random, me: str, held: list[Grant]) -> None:
    """Claim by id or the next, go on with it, give it back or forget about it."""
    if not held:
        if draw.random() < 0.7:
            held.append(recorder.call("claim", _any_item(recorder, draw, "ready", "in_progress"), session=me))
        else:
            held.extend(recorder.call("next", session=me, n=draw.randint(1, 3)))
        return
    grant = held[-1]
    known = {"session": me, "token": grant.claim.token}
    match draw.choice(("renew", "progress", "heartbeat", "release", "release", "drop")):
        case "renew":
            recorder.call("renew", grant.item.id, **known)
        case "progress":
            recorder.call("progress", grant.item.id, note="on it", **known)
        case "heartbeat":
            recorder.call("heartbeat", session=me)
        case "release":
            held.pop()
            recorder.call("release", grant.item.id, **known)
        case _:
            held.pop()


def _finish_one(recorder: Recorder, draw: random.Random, me: str, held: list[Grant]) -> None:
    """Take the next and end it, mostly with done."""
    if not held:
        held.extend(recorder.call("next", session=me))
        return
    grant = held.pop()
    verb = draw.choice(("done", "done", "fail"))
    recorder.call(verb, grant.item.id, session=me, token=grant.claim.token)


def _sweep_up(recorder: Recorder, draw: random.Random, me: str, held: list[Grant]) -> None:
    """Sweep, take items back, forgive the failed, add more."""
    match draw.choice(("sweep", "sweep", "force_release", "retry", "add", "add")):
        case "sweep":
            recorder.call("sweep")
        case "force_release":
            recorder.call("force_release", _any_item(recorder, draw, "in_progress", "failed"), reason="storm")
        case "retry":
            recorder.call("retry", _any_item(recorder, draw, "in_progress", "failed"))
        case _:
            recorder.call("add", f"from {me} {draw.random()}")


def _any_item(recorder: Recorder, draw: random.Random, *statuses: str) -> str:
    """An item worth fighting over, as far as anybody can know before asking for it."""
    found = recorder.board.list(statuses=statuses, limit=CROWD)
    return draw.choice([item.id for item in found] or ["item-00"])
