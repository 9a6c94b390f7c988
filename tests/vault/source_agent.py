"""An agent of the claim-by-move contract: its `claim_task`, `verify_claim`, `release_task`, `claim_loop` and
`process_task` word for word, but for the folder and for how the loop is ended. What the contract names and leaves open
(`add_claim_metadata`, `execute_action` and so on) is below them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.vault.racing import CLAIMED, COMPLETED

if TYPE_CHECKING:
    from dibs.board import Board

VAULT = "/vault"
AGENT_NAME = "local"
AGENT_ROLE = "LOCAL"
ALLOWED_ACTIONS = ("work",)
SENSITIVE_ACTIONS: tuple[str, ...] = ()


def claim_task(task_file: str, agent_name: str) -> bool:
    # Path construction
    vault_path = VAULT
    source_path = os.path.join(vault_path, "Needs_Action", task_file)
    target_dir = os.path.join(vault_path, "In_Progress", agent_name)
    target_path = os.path.join(target_dir, task_file)

    # Ensure target directory exists
    os.makedirs(target_dir, exist_ok=True)

    try:
        # Atomic rename (POSIX guarantee)
        os.rename(source_path, target_path)

        # Update file content with claim metadata
        add_claim_metadata(target_path, agent_name)

        return True  # Claim successful

    except FileNotFoundError:
        # File no longer exists - another agent claimed it
        return False

    except OSError as e:
        # Other error (permissions, disk full, etc.)
        log_error(f"Claim failed: {e}")
        return False


def verify_claim(task_file: str) -> bool:
    claim_path = os.path.join(VAULT, "In_Progress", AGENT_NAME, task_file)
    return os.path.exists(claim_path)


def release_task(task_file: str, agent_name: str, next_state: str) -> bool:
    # Path construction
    source_path = os.path.join(VAULT, "In_Progress", agent_name, task_file)
    target_dir = os.path.join(VAULT, next_state)
    target_path = os.path.join(target_dir, task_file)

    # Ensure target directory exists
    os.makedirs(target_dir, exist_ok=True)

    try:
        # Move to next state
        os.rename(source_path, target_path)

        # Update file metadata
        update_metadata(target_path, next_state)

        return True

    except FileNotFoundError:
        # Task no longer exists (should not happen)
        log_error(f"Task not found: {task_file}")
        return False

    except OSError as e:
        log_error(f"Release failed: {e}")
        return False


def claim_loop(agent_name: str, interval: float = 10) -> None:
    while not is_over():
        try:
            # List tasks in Needs_Action
            needs_action_dir = os.path.join(VAULT, "Needs_Action")
            tasks = os.listdir(needs_action_dir)

            for task_file in tasks:
                if task_file.endswith(".md"):  # noqa: SIM102
                    # Attempt to claim
                    if claim_task(task_file, agent_name):
                        log(f"Claimed: {task_file}")

                        # Verify claim (double-check)
                        if verify_claim(task_file):
                            # Process task
                            process_task(task_file)
                        else:
                            log(f"Claim verification failed: {task_file}")

            # Wait for next interval
            time.sleep(interval)

        except Exception as e:
            log_error(f"Claim loop error: {e}")
            time.sleep(interval)


def process_task(task_file: str) -> None:
    # 1. Read task
    claim_path = os.path.join(VAULT, "In_Progress", AGENT_NAME, task_file)
    task = read_task(claim_path)

    # 2. Determine action
    action_type = determine_action(task)

    # 3. Check if action is allowed for this agent
    if action_type in ALLOWED_ACTIONS:
        # Execute directly
        execute_action(action_type, task)

        # Move to Done
        release_task(task_file, AGENT_NAME, "Done")

    elif AGENT_ROLE == "CLOUD" and action_type in SENSITIVE_ACTIONS:
        # Cloud creates draft, Local approves
        release_task(task_file, AGENT_NAME, "Pending_Approval")

    else:
        # Action not allowed
        log_error(f"Action not allowed: {action_type}")
        release_task(task_file, AGENT_NAME, "Rejected")


# What the contract leaves to whoever writes the agent

#: When what was claimed, verified or released, and every line that was written, by the name of the file.
_told: dict[str, Any] = {}


def add_claim_metadata(path: str, agent: str) -> None:
    name = os.path.basename(path)
    _told["since"][name] = time.monotonic_ns()
    note = f"{agent} was here {os.urandom(6).hex()}"
    _told["notes"].setdefault(name.removesuffix(".md"), []).append(note)
    _write(path, CLAIMED.format(id=name, agent=agent, at=datetime.now(UTC).isoformat(), note=note))


def update_metadata(path: str, state: str) -> None:
    name = os.path.basename(path)
    began = _told["since"].pop(name)
    _told["holds"].append([name.removesuffix(".md"), AGENT_NAME, began, _told.pop("until"), state.lower()])
    _write(path, COMPLETED.format(at=datetime.now(UTC).isoformat(), state=state))


def _write(path: str, text: str) -> None:
    """Appended by one half of the agents, the whole file read and written anew by the others."""
    before = "" if _told["appends"] else Path(path).read_text(encoding="utf-8")
    with open(path, "a" if _told["appends"] else "w", encoding="utf-8") as file:
        file.write(before + text)


def read_task(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def determine_action(task: str) -> str:
    return "work" if task else ""


def execute_action(action: str, task: str) -> None:
    _told["until"] = time.monotonic_ns()


def log(line: str) -> None:
    _told["lines"].append(line)


log_error = log


def is_over() -> bool:
    return os.path.exists(_told["stop"])


def play(board: Board, *, root: str, agent: str, stop: str, appends: bool, interval: float = 0.005) -> dict[str, Any]:
    """A scene: the loop of the contract until the file `stop` is there."""
    global VAULT, AGENT_NAME
    board.close()
    VAULT, AGENT_NAME = root, agent
    _told.update(since={}, notes={}, holds=[], lines=[], stop=stop, appends=appends)
    claim_loop(agent, interval=interval)
    return {"holds": _told["holds"], "notes": _told["notes"], "lines": _told["lines"]}
