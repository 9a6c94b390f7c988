"""The task tools of Claude Code for tests: its files, and the hooks that it runs around them, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dibs.agents import hook
from tests.hooks.agent import Agent, payload

LIST = "shop"


class TaskClient:
    """One session at a list. `folder` is that of the list, which sessions share. `is_quick`: the hooks of tasks run in
    this process, which has the environment of the agent; that costs a tenth."""

    def __init__(self, agent: Agent, folder: Path, subagent: str | None = None, *, is_quick: bool = False) -> None:
        self.agent, self.folder, self.subagent, self.is_quick = agent, folder, subagent, is_quick
        self.folder.mkdir(parents=True, exist_ok=True)
        self._calls = 0

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        if not self.is_quick:
            return self.agent.hook(event, self.subagent, **fields)
        text = payload("claude", event, self.agent.session, self.agent.folder, self.subagent, **fields)
        found = json.loads(hook.run(text, event) or "{}")
        assert isinstance(found, dict)
        specific = found.get("hookSpecificOutput", found)
        assert isinstance(specific, dict)
        return specific

    def read(self, id: str) -> dict[str, Any]:
        found = json.loads((self.folder / f"{id}.json").read_text())
        assert isinstance(found, dict)
        return found

    def write(self, id: str, subject: str, **fields: Any) -> None:
        """As a session without hooks, or another program, writes a task."""
        task = {"id": id, "subject": subject, "description": "", "status": "pending", "blocks": [], "blockedBy": []}
        (self.folder / f"{id}.json").write_text(json.dumps(task | fields))

    def create(self, id: str, subject: str, **fields: Any) -> None:
        self.write(id, subject, **fields)
        assert self.event("TaskCreated", id) == {}

    def event(self, event: str, id: str) -> dict[str, Any]:
        return self.hook(event, task_id=id, task_subject=self.read(id)["subject"], task_description="")

    def update(self, id: str, *, fails: str = "", **fields: Any) -> str:
        """`TaskUpdate`: why it did not happen, or an empty text. With `fails`, the tool fails with that event."""
        self._calls += 1
        call: dict[str, Any] = {
            "tool_name": "TaskUpdate",
            "tool_input": {"taskId": id, **fields},
            "tool_use_id": f"t_{self._calls}",
        }
        answer = self.hook("PreToolUse", **call)
        if answer.get("permissionDecision") == "deny":
            return self.agent.denied(answer)
        # Nothing is allowed that was not changed.
        assert ("permissionDecision" in answer) == ("updatedInput" in answer)
        given = call["tool_input"] = answer.get("updatedInput", call["tool_input"])
        why = self.event("TaskCompleted", id).get("reason", "") if given.get("status") == "completed" else fails
        if why != "PostToolUseFailure":
            call["tool_response"] = {"success": not why, "taskId": id, "updatedFields": []}
        if not why:
            self._apply(id, given)
        event = "PostToolUseFailure" if why == "PostToolUseFailure" else "PostToolUse"
        self.answer = self.hook(event, **call)
        return str(why)

    def listed(self) -> str:
        """`TaskList`, as the model reads it."""
        names = ("id", "subject", "status", "owner", "blockedBy")
        files = sorted(self.folder.glob("*.json"))
        tasks = [{name: task[name] for name in names if name in task} for task in map(_load, files)]
        answer = self.hook("PostToolUse", tool_name="TaskList", tool_input={}, tool_response={"tasks": tasks})
        return "\n".join(map(_line, answer.get("updatedToolOutput", {"tasks": tasks})["tasks"]))

    def _apply(self, id: str, given: dict[str, Any]) -> None:
        if given.get("status") == "deleted":
            (self.folder / f"{id}.json").unlink()
            return
        task = self.read(id)
        task |= {name: given[name] for name in ("subject", "status", "owner") if name in given}
        task["metadata"] = task.get("metadata", {}) | given.get("metadata", {})
        task["blockedBy"] += given.get("addBlockedBy", [])
        (self.folder / f"{id}.json").write_text(json.dumps(task))
        for other in given.get("addBlocks", ()):
            blocked = self.read(other)
            blocked["blockedBy"].append(id)
            (self.folder / f"{other}.json").write_text(json.dumps(blocked))


def _load(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def _line(task: dict[str, Any]) -> str:
    owner = f" ({task['owner']})" if task.get("owner") else ""
    needs = f" [blocked by {', '.join('#' + one for one in task['blockedBy'])}]" if task["blockedBy"] else ""
    return f"#{task['id']} [{task['status']}] {task['subject']}{owner}{needs}"
