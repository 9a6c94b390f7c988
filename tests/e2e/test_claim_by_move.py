"""The test script of the claim-by-move source, with two real agents on each task; and what else it asks of a claim."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from dibs.testing.sizes import FACTOR
from tests.e2e.conftest import Dibs
from tests.kit.waiting import PATIENCE_SECONDS

#: As the source has it, but for where the vault lies and what the agents are.
SCRIPT = """
# 1. Create test task
echo "# Test Task" > $VAULT/Needs_Action/test-task.md

# 2. Start two agents simultaneously
agent_a &
agent_b &
wait

# 3. Verify only one agent claimed the task
if [ -f $VAULT/In_Progress/cloud/test-task.md ]; then
    if [ -f $VAULT/In_Progress/local/test-task.md ]; then
        echo "✗ Both agents claimed task (FAILED)"
        exit 1
    else
        echo "✓ Cloud agent claimed task (PASSED)"
    fi
elif [ -f $VAULT/In_Progress/local/test-task.md ]; then
    echo "✓ Local agent claimed task (PASSED)"
else
    echo "✗ No agent claimed task (FAILED)"
    exit 1
fi

# 4. Verify task removed from Needs_Action
if [ -f $VAULT/Needs_Action/test-task.md ]; then
    echo "✗ Task still in Needs_Action (FAILED)"
    exit 1
else
    echo "✓ Task removed from Needs_Action (PASSED)"
fi

echo "✓ All claim-by-move tests: PASSED"
"""
#: Says what came of it: 0 for one who has the task, 3 for one who has nothing.
DIBS_AGENT = """{function}() {{
    dibs next --agent {agent} --session {agent}-1 >/dev/null 2>$VAULT/{agent}.err; echo {agent} $? >>$VAULT/ends
}}
"""
#: What the contract does not allow: copies instead of moving, which the other one does at the same time.
WRONG_AGENT = """{function}() {{
    mkdir -p $VAULT/In_Progress/{agent}
    cp $VAULT/Needs_Action/test-task.md $VAULT/In_Progress/{agent}/
    until ls $VAULT/In_Progress/cloud/test-task.md $VAULT/In_Progress/local/test-task.md; do sleep 0.01; done
    rm -f $VAULT/Needs_Action/test-task.md
}}
"""
#: As many as it takes to trust it, in a soak.
ROUNDS = 200 if FACTOR > 1 else 10


def agents(pattern: str) -> str:
    pairs = (("agent_a", "cloud"), ("agent_b", "local"))
    return "".join(pattern.format(function=function, agent=agent) for function, agent in pairs)


def vault(dibs: Dibs, name: str) -> Path:
    """Nothing but the folder that makes it one: there is no index yet, and both agents find that at once."""
    root = dibs.folder / name
    (root / "Needs_Action").mkdir(parents=True)
    return root


def played(dibs: Dibs, root: Path, pattern: str) -> subprocess.CompletedProcess[str]:
    return dibs.shell(agents(pattern) + SCRIPT, VAULT=str(root), DIBS_STORE=f"vault:{root}")


def test_the_script_of_the_source(bare: Dibs) -> None:
    owners: Counter[str] = Counter()
    for number in range(ROUNDS):
        root = vault(bare, f"round-{number}")
        done = played(bare, root, DIBS_AGENT)
        errors = "".join(file.read_text() for file in root.glob("*.err"))
        assert done.returncode == 0, (number, done.stdout, errors)
        ends = dict(line.split() for line in (root / "ends").read_text().splitlines())
        assert sorted(ends.values()) == ["0", "3"], (number, ends, errors)
        (file,) = root.glob("In_Progress/*/*.md")
        owner = file.parent.name
        assert ends[owner] == "0", "the one who was told so has it"
        assert f"**Claimed By**: {owner}\n" in file.read_text()
        owners[owner] += 1
    print(f"{ROUNDS} rounds: {dict(owners)}")


def test_the_script_finds_out_agents_that_copy(bare: Dibs) -> None:
    done = played(bare, vault(bare, "wrong"), WRONG_AGENT)
    assert done.returncode == 1
    assert "FAILED" in done.stdout


#: verify_claim: work begins with the file in its own folder, and in no other.
WORK = 'test -f "In_Progress/$DIBS_AGENT/test-task.md" && test ! -e Needs_Action/test-task.md && echo $DIBS_AGENT >>ran'


def test_workers_begin_with_the_file_in_their_folder_and_one_of_them_works(bare: Dibs) -> None:
    for number in range(max(2, ROUNDS // 4)):
        root = vault(bare, f"round-{number}")
        (root / "Needs_Action" / "test-task.md").write_text("# Test Task\n")
        there = Dibs(root, bare.environment | {"DIBS_STORE": f"vault:{root}"})
        started = [
            there.start("work", "--agent", agent, "--once", "--", "sh", "-c", WORK) for agent in ("cloud", "local")
        ]
        said = [process.communicate(timeout=PATIENCE_SECONDS) for process in started]
        ran = (root / "ran").read_text().split()
        assert len(ran) == 1, (number, ran, said)
        assert sorted(process.returncode for process in started) == [0, 3], (number, said)
        assert [str(file.relative_to(root)) for file in root.rglob("*.md")] == ["Done/test-task.md"], number
        text = (root / "Done" / "test-task.md").read_text()
        assert text.count("**Claimed By**") == 1
        assert f"**Claimed By**: {ran[0]}\n" in text
        assert "**Result**: success\n**Next State**: Done\n" in text


@pytest.mark.parametrize("to", ["Needs_Action", "In_Progress/local", "Done"])
def test_a_claim_whose_file_is_elsewhere_is_not_verified(bare: Dibs, to: str) -> None:
    """verify_claim of the source: the claim holds while its file lies in In_Progress/<agent>/."""
    root = vault(bare, "vault")
    (root / "Needs_Action" / "test-task.md").write_text("# Test Task\n")
    identity = {"DIBS_STORE": f"vault:{root}", "DIBS_AGENT": "cloud", "DIBS_SESSION": "s1"}
    cloud = Dibs(root, bare.environment | identity)
    token = cloud.json("claim", "test-task")["claim"]["token"]
    cloud.ok("heartbeat", "test-task", "--token", str(token))
    (root / to).mkdir(parents=True, exist_ok=True)
    (root / "In_Progress/cloud/test-task.md").rename(root / to / "test-task.md")
    code, error = cloud.refused("heartbeat", "test-task", "--token", str(token))
    assert code == 4
    assert error["code"] in ("TASK_NOT_CLAIMED", "NOT_CLAIM_OWNER", "CLAIM_EXPIRED")
    assert (root / to / "test-task.md").exists(), "it is left where it was put"
