"""The agent claiming protocol: its own bash functions and scripts, unchanged, over a `bd` that calls dibs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.waiting import PATIENCE_SECONDS

SCRIPTS = Path(__file__).parent / "agent_claiming_protocol"


class Agent:
    """A coding agent's shell in a repository, as the protocol's hook at the start of its session leaves it."""

    def __init__(self, folder: Path, session: str) -> None:
        path = os.pathsep.join([str(SCRIPTS), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        self.session, self._folder, remembered = session, folder, folder / f"{session}.env"
        self._environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", "LOGNAME": "you"}
        self._environment |= {"CLAUDE_SESSION_ID": session, "CLAUDE_ENV_FILE": str(remembered)}
        remembered.touch()
        for source in ("startup", "compact"):
            code, said = self.type(f"source {SCRIPTS}/session-start.sh", _hook_source=source, _session_id=session)
            assert code == 0, said

    def start(self, line: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", f'source "$CLAUDE_ENV_FILE"; source {SCRIPTS}/lib-sprint.sh; {line}'],
            cwd=self._folder,
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )

    def type(self, line: str, **environment: str) -> tuple[int, str]:
        running = self.start(line, **environment)
        said, _ = running.communicate(timeout=PATIENCE_SECONDS)
        return running.returncode, said


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for program in ("bash", "jq"):
        if not shutil.which(program):
            pytest.skip(f"there is no {program} on this machine")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


@pytest.fixture
def one(repository: Path) -> Agent:
    agent = Agent(repository, "3f2b8f0e-6a53-4c0d-9a55-0f6c1d1a7f10")
    assert agent.type("dibs init && dibs add 'Fix login' --id iv-1 --priority P1")[0] == 0
    return agent


@pytest.fixture
def other(repository: Path) -> Agent:
    return Agent(repository, "9c0de1aa-0000-4c0d-9a55-0f6c1d1a7f11")


def test_the_loser_of_a_claim_is_told_that_it_is_already_claimed(one: Agent, other: Agent) -> None:
    assert one.type("bead_claim iv-1")[0] == 0
    assert other.type("bead_claim iv-1") == (1, "Bead iv-1 already claimed by another agent\n")


def test_of_eight_at_once_one_claims(one: Agent, repository: Path) -> None:
    agents = [Agent(repository, f"{number}{number}{number}{number}cafe-session") for number in range(8)]
    running = [agent.start("bead_claim iv-1") for agent in agents]
    ends = [process.communicate(timeout=PATIENCE_SECONDS) and process.returncode for process in running]
    assert sorted(ends) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_only_its_holder_releases_and_may_keep_its_status(one: Agent, other: Agent) -> None:
    one.type("bead_claim iv-1")
    other.type("bead_release iv-1")
    assert '"status":"in_progress"' in one.type("dibs show iv-1 --json")[1].replace(" ", "")
    one.type("bead_release iv-1 --keep-status")
    assert '"status":"parked"' in one.type("dibs show iv-1 --json")[1].replace(" ", "")
    one.type("bead_claim iv-1 && bead_release iv-1")
    assert '"status":"ready"' in one.type("dibs show iv-1 --json")[1].replace(" ", "")


def test_bd_who_groups_by_assignee(one: Agent, other: Agent) -> None:
    assert one.type("bd-who") == (0, "No in-progress beads.\n")
    one.type("dibs add 'Search' --id iv-2; bead_claim iv-1; bead_claim iv-2")
    other.type("dibs add 'Docs' --id iv-3; bead_claim iv-3")
    assert one.type("bd-who")[1].split("\n") == [
        "  3f2b8f0e (2 beads)",
        "    ◐ iv-1 [8] Fix login",
        "    ◐ iv-2 [5] Search",
        "  9c0de1aa (1 beads)",
        "    ◐ iv-3 [5] Docs",
        "",
    ]


def test_its_hooks_keep_a_claim_alive_and_release_it_when_the_session_ends(one: Agent, other: Agent) -> None:
    one.type("bead_claim iv-1")
    seen = "dibs show iv-1 --json | jq .claim.heartbeat_count"
    assert one.type(seen) == (0, "1\n"), "the protocol notes when it has claimed"
    mark = Path(f"/tmp/clavain-heartbeat-iv-1-{one.session}")
    try:
        for _ in range(3):
            assert one.type("heartbeat.sh", CLAVAIN_BEAD_ID="iv-1")[0] == 0
        assert one.type(seen) == (0, "2\n"), "at most once a minute"
        ended = other.type(f"source {SCRIPTS}/session-end.sh", CLAVAIN_BEAD_ID="iv-1")
        assert (ended, one.type("dibs show iv-1 --json | jq -r .item.status")) == ((0, ""), (0, "in_progress\n"))
        assert one.type(f"source {SCRIPTS}/session-end.sh", CLAVAIN_BEAD_ID="iv-1") == (0, "")
        assert one.type("dibs show iv-1 --json | jq -r .item.status") == (0, "ready\n")
        assert not mark.exists()
    finally:
        mark.unlink(missing_ok=True)


def test_a_sprint_that_has_a_lock_of_its_own_only_says_so(one: Agent, other: Agent) -> None:
    shown = "dibs who --json | jq -c '.holdings[] | [.item.id, (.claim // .soft).session, .health]'"
    on_it = f'["iv-1","{one.session}","soft"]\n'
    assert one.type('bead_claim iv-1 "$CLAUDE_SESSION_ID" --soft || true') == (0, "")
    assert one.type(shown) == (0, on_it)
    assert other.type("bead_claim iv-1") == (0, ""), "it keeps nobody out"
    assert one.type(shown) == (0, f'["iv-1","{other.session}","healthy"]\n{on_it}')
    other.type("bead_release iv-1")
    one.type("bead_release iv-1 --keep-status")
    assert one.type(shown) == (0, "")


@pytest.mark.parametrize(("said", "meant"), [("P0", 10), ("p1", 8), ("P2", 5), ("P3", 1), ("P4", 0)])
def test_priorities_are_what_beads_means_by_them(one: Agent, said: str, meant: int) -> None:
    one.type(f"dibs add Search --id iv-2 --priority {said}")
    assert one.type("dibs show iv-2 --json | jq .item.priority") == (0, f"{meant}\n")


def test_priority_0_is_low_and_is_said_to_be(one: Agent) -> None:
    exit_code, said = one.type("dibs add Search --id iv-2 --priority 0")
    assert exit_code == 0
    assert "priority 0 is low here: a higher number is sooner" in said
    assert "write P0" in said
