"""A git that is killed in the middle of a sync, at any of its writes, renames, links and unlinks, on a clone or on its
hub: none leaves a lock that stops anybody, and what was acknowledged stays so."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.errors import StoreUnavailable
from dibs.store.vault.places import SESSIONS
from dibs.testing import sizes
from dibs.testing.invariants import assert_sound
from tests.vault.clones import files, git
from tests.vault.test_git_store import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = ("write", "rename", "link", "unlink")
#: So many of all moments, for every commit.
KILLS = 2
#: In the place of git: one of all that a sync runs is traced, or each. It is known by its command and by how many of
#: these came before; not by how many gits did, since some run side by side.
WRAPPER = """\
#!/bin/sh
command= before=
for word; do
    [ "$before" != -c ] && [ "$word" != -c ] && command=$word && break
    before=$word
done
echo >> {folder}/ran.$command
which=$command.$(wc -l < {folder}/ran.$command)
if [ "$which" = "$DIBS_TRACED" ] || [ "$DIBS_TRACED" = all ]; then
    exec strace -f -qq -o {folder}/log.$which -e trace={calls} $DIBS_INJECTED {git} "$@"
fi
exec {git} "$@"
"""

#: Which of the gits of a sync (`push.1`), which call, and which of these.
Moment = tuple[str, str, int]

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Killing:
    def __init__(self, folder: Path) -> None:
        self.pair = Pair(folder)
        self._folder = folder / "traced"
        (self._folder / "bin").mkdir(parents=True)
        wrapper = self._folder / "bin" / "git"
        wrapper.write_text(WRAPPER.format(folder=self._folder, calls=",".join(CALLS), git=shutil.which("git")))
        wrapper.chmod(0o755)
        self._number = 0

    def moments(self) -> list[Moment]:
        """Every one of a sync that brings something and sends something off."""
        self._sync("none", "")  # the first one looks for damage, too
        self._sync("all", "")
        found = []
        for log in self._folder.glob("log.*"):
            calls: Counter[tuple[str, str]] = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text(), re.MULTILINE))
            most = {call: max([n for (_, one), n in calls.items() if one == call], default=0) for call in CALLS}
            found += [(log.name.removeprefix("log."), call, n + 1) for call in CALLS for n in range(most[call])]
        return sorted(found)

    def kill(self, moment: Moment) -> tuple[bool, str | None]:
        """Whether a git was killed there; and what is wrong after that."""
        which, call, number = moment
        self._sync(which, f"-e inject={call}:signal=KILL:when={number}")
        log = self._folder / f"log.{which}"
        fired = log.exists() and "killed by SIGKILL" in log.read_text()
        return fired, self._wrong() if fired else None

    def _sync(self, traced: str, injected: str) -> None:
        pair, self._number = self.pair, self._number + 1
        for told in (*self._folder.glob("log.*"), *self._folder.glob("ran.*")):
            told.unlink()
        pair.b.edit("y", body=f"news {self._number}")
        pair.b.sync()
        (pair.here / f"Notes-{self._number}.md").write_text("mine\n")
        before = os.environ["PATH"]
        os.environ.update(PATH=f"{self._folder}/bin:{before}", DIBS_TRACED=traced, DIBS_INJECTED=injected)
        try:
            board = pair.open(pair.here)
            try:
                board.sync()
            except StoreUnavailable:
                pass
            finally:
                board.close()
        finally:
            os.environ["PATH"] = before

    def _wrong(self) -> str | None:
        """With the locks that were left as old as locks have to be that may be of a git that cannot be seen."""
        pair, then = self.pair, time.time() - 60
        repositories = (pair.here / ".git", pair.folder / "hub.git")
        for lock in [lock for place in repositories for lock in place.rglob("*.lock")]:
            os.utime(lock, (then, then))
        try:
            item = pair.a.add("more", id=f"z{self._number}").id
            pair.a.claim(item, session=pair.alice)
            pair.a.sync()
            pair.b.sync()
            pair.b.add("more", id=f"w{self._number}")
            pair.b.sync()
            pair.a.sync()
            git(pair.here, "commit", "-q", "--allow-empty", "-m", "a person's")
            pair.a.sync()
            pair.b.sync()
            pair.a.done(item, session=pair.alice)
            pair.b.sync()
            pair.a.sync()
        except StoreUnavailable as error:
            return f"somebody is stopped: {error}"
        left = [str(lock) for place in repositories for lock in place.rglob("*.lock")]
        if left:
            return f"locks are left: {left}"
        here, there = (set(files(clone).items()) for clone in (pair.here, pair.there))
        differ = sorted({path for path, _ in here ^ there if not path.startswith(f"{SESSIONS}/")})
        return f"the clones differ: {differ}" if differ else None


@pytest.fixture
def killing(tmp_path: Path) -> Iterator[Killing]:
    killing = Killing(tmp_path)
    yield killing
    killing.pair.a.close()
    killing.pair.b.close()


def test_a_git_that_is_killed_stops_nobody(killing: Killing) -> None:
    seed = sizes.seed()
    moments = killing.moments()
    chosen = moments if sizes.FACTOR > 1 else random.Random(seed).sample(moments, KILLS)
    told = [(moment, *killing.kill(moment)) for moment in chosen]
    wrong = [f"{moment}: {what}" for moment, _, what in told if what is not None]
    missed = [moment for moment, fired, _ in told if not fired]
    print(f"seed {seed}: {len(told)} of {len(moments)} moments, {len(missed)} did not come, {len(wrong)} wrong")
    assert not wrong, f"seed {seed}: " + "\n".join(wrong[:5])
    assert not missed, f"seed {seed}: no git was killed at {missed}"
    for board in (killing.pair.a, killing.pair.b):
        assert_sound(board)
