"""The claim-by-move contract: its own Python and its own test script, in a vault, with dibs beside them.

Its claim loop races dibs in `tests/vault/test_source_agents.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import connect, make
from tests.kit.waiting import PATIENCE_SECONDS
from tests.vault.clones import git, make_clone, make_hub, on_hub

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "claim_by_move_contract" / "test-claim-by-move.sh"
#: What the script calls an agent, as a shell script: the contract's, or dibs'.
AGENTS = {
    "contract": "exec {python} -m tests.vault.source_agent {vault} {name}",
    "dibs": "cd {vault} && exec {python} -m dibs.cli.main next --agent {name} --session {name}-1",
}
STATES = {"cloud": "✓ Cloud agent claimed task (PASSED)", "local": "✓ Local agent claimed task (PASSED)"}


def put_agent(folder: Path, program: str, kind: str, name: str, vault: Path) -> None:
    line = AGENTS[kind].format(python=sys.executable, vault=vault, name=name)
    (folder / program).write_text(f"#!/bin/sh\n{line}\n")
    (folder / program).chmod(0o755)


@pytest.mark.parametrize(("cloud", "local"), [("contract", "contract"), ("contract", "dibs"), ("dibs", "contract")])
def test_its_script_finds_one_owner_who_is_the_boards(tmp_path: Path, cloud: str, local: str) -> None:
    if not shutil.which("bash"):
        pytest.skip("there is no bash on this machine")
    vault, programs = tmp_path / "vault", tmp_path / "bin"
    programs.mkdir()
    make(f"vault:{vault}")
    with connect(f"vault:{vault}") as board:
        for name in STATES:
            board.start_session(name, id=f"{name}-1")
        put_agent(programs, "agent-a", cloud, "cloud", vault)
        put_agent(programs, "agent-b", local, "local", vault)
        path = os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])
        done = subprocess.run(
            ["bash", "-c", SCRIPT.read_text(encoding="utf-8").replace("/vault", str(vault))],
            env={"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        holder = board.get("test-task").claim
        assert holder is not None
        assert STATES[holder.agent] in done.stdout
        assert "✓ All claim-by-move tests: PASSED" in done.stdout


def test_its_loop_beside_git_leaves_alone_what_dibs_has_claimed_elsewhere(tmp_path: Path) -> None:
    make_hub(tmp_path)
    here, there = make_clone(tmp_path, "here"), make_clone(tmp_path, "there")
    make(f"vault:{there}")
    with connect(f"vault:{there}") as board:
        session = board.start_session("cloud").id
        for name in ("one", "two"):
            board.add(name, id=name)
        board.claim("one", session=session)
        board.sync()
        subprocess.run(
            [sys.executable, "-m", "tests.vault.source_agent", str(here), "local", "--sync"],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        assert git(here, "log", "-1", "--format=%s") == "Agent local updates\n"
        assert {"In_Progress/cloud/one.md", "Done/two.md"} <= set(on_hub(tmp_path))
        board.sync()
        held, done = board.get("one"), board.get("two")
        assert held.claim is not None
        assert (held.claim.session, done.item.status) == (session, "done")
        assert "**Claimed By**: local" in (there / "Done" / "two.md").read_text(encoding="utf-8")
