# The Python of the claim-by-move contract, block after block. Changed: nothing; whoever runs it puts the folder of a
# vault in the place of /vault, and supplies the functions and names that the contract leaves open.

import os
import shutil

def claim_task(task_file: str, agent_name: str) -> bool:
    """
    Attempt to claim a task by moving it to In_Progress/<agent>/.

    Returns:
        True if claim successful, False if already claimed
    """
    # Path construction
    vault_path = "/vault"
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
    """
    Verify that the claimed task still exists in In_Progress.

    Returns:
        True if task exists (claim valid), False otherwise
    """
    claim_path = os.path.join("/vault", "In_Progress", AGENT_NAME, task_file)
    return os.path.exists(claim_path)


def release_task(task_file: str, agent_name: str, next_state: str) -> bool:
    """
    Move task from In_Progress/<agent>/ to next state folder.

    Args:
        task_file: Filename of the task
        agent_name: Current owning agent
        next_state: Target state (Pending_Approval, Done, Rejected)

    Returns:
        True if release successful, False otherwise
    """
    # Path construction
    source_path = os.path.join("/vault", "In_Progress", agent_name, task_file)
    target_dir = os.path.join("/vault", next_state)
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


import time
import os

def claim_loop(agent_name: str, interval: int = 10):
    """
    Main claim loop for an agent.

    Args:
        agent_name: Name of the agent (cloud, local)
        interval: Check interval in seconds
    """
    while True:
        try:
            # List tasks in Needs_Action
            needs_action_dir = "/vault/Needs_Action"
            tasks = os.listdir(needs_action_dir)

            for task_file in tasks:
                if task_file.endswith('.md'):
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


def process_task(task_file: str):
    """
    Process a claimed task.

    Steps:
    1. Read task content
    2. Determine action type
    3. Execute or create draft
    4. Move to next state
    """
    # 1. Read task
    claim_path = os.path.join("/vault", "In_Progress", AGENT_NAME, task_file)
    task = read_task(claim_path)

    # 2. Determine action
    action_type = determine_action(task)

    # 3. Check if action is allowed for this agent
    if action_type in ALLOWED_ACTIONS:
        # Execute directly
        result = execute_action(action_type, task)

        # Move to Done
        release_task(task_file, AGENT_NAME, "Done")

    elif AGENT_ROLE == "CLOUD" and action_type in SENSITIVE_ACTIONS:
        # Cloud creates draft, Local approves
        draft_file = create_draft(task, action_type)
        release_task(task_file, AGENT_NAME, "Pending_Approval")

    else:
        # Action not allowed
        log_error(f"Action not allowed: {action_type}")
        release_task(task_file, AGENT_NAME, "Rejected")


import time

def claim_with_retry(task_file: str, agent_name: str, max_retries: int = 3) -> bool:
    """
    Attempt to claim task with exponential backoff.

    Returns:
        True if claim successful, False otherwise
    """
    for attempt in range(max_retries):
        if claim_task(task_file, agent_name):
            return True

        # Exponential backoff: 100ms, 200ms, 400ms
        backoff = 0.1 * (2 ** attempt)
        time.sleep(backoff)

    log_error(f"Claim failed after {max_retries} retries: {task_file}")
    return False


def sync_safe_claim_loop(agent_name: str):
    """
    Claim loop that coordinates with Git sync.
    """
    while True:
        # 1. Pull latest changes
        subprocess.run(["git", "pull", "origin", "main"])

        # 2. Claim tasks (atomic moves are local)
        claim_and_process_tasks(agent_name)

        # 3. Commit and push changes
        subprocess.run(["git", "add", "-A"])
        subprocess.run(["git", "commit", "-m" f"Agent {agent_name} updates"])
        subprocess.run(["git", "push", "origin", "main"])

        # 4. Wait for next interval
        time.sleep(30)
