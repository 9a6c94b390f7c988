"""What a client tells its hooks, as one value: the payloads of six clients are normalised to the names of Claude Code.

Claude Code and Codex share a shape. Gemini CLI, Copilot and Cursor have other names for the same events, fields and
tools. The plugin for opencode sends the shape of Claude Code.
"""

from __future__ import annotations

from dibs.check import item_id
from dibs.errors import Invalid
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLAUDE, CODEX, GEMINI, COPILOT, CURSOR, OPENCODE = CLIENTS = (
    *("claude", "codex", "gemini", "copilot", "cursor", "opencode"),
)
#: Names of other clients' events that are not those of Claude Code with a small first letter.
EVENTS = {
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "BeforeAgent": "UserPromptSubmit",
    "AfterAgent": "Stop",
    "AgentStop": "Stop",
    "UserPromptSubmitted": "UserPromptSubmit",
    "BeforeSubmitPrompt": "UserPromptSubmit",
}
#: Tools that run a command or type into one that runs, and tools that write files, of all clients.
TYPING = "write_stdin"
SHELLS = frozenset({"Bash", "bash", "shell", "Shell", "run_shell_command", "exec_command", "Monitor", TYPING})
EDITS = frozenset(
    {
        *("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch"),
        *("write_file", "replace", "edit", "write", "patch", "create", "str_replace_editor", "Delete", "StrReplace"),
    }
)
#: Tools of clients' own lists of tasks that the board is asked about: before they run, and after.
TASK_TOOLS_BEFORE = frozenset({"TaskUpdate", "create_goal"})
TASK_TOOLS_AFTER = frozenset({"TaskUpdate", "TaskList"})
#: What stands before the name of an MCP tool of dibs: that of the plugin's server in Claude Code, and those of a server
#: that is configured under the name `dibs`, in the words of each client.
PLUGIN_TOOLS = "mcp__plugin_dibs_dibs__"
OUR_TOOLS = {
    CLAUDE: (PLUGIN_TOOLS, "mcp__dibs__"),
    CODEX: ("mcp__dibs__",),
    GEMINI: ("mcp_dibs_",),
    COPILOT: ("dibs-",),
    OPENCODE: ("dibs_",),
}
#: How Claude Code describes the plugin's server. A project can bring a server whose tools are named like the plugin's.
PLUGIN_SERVER = {"name": "plugin:dibs:dibs", "source": "plugin"}


class Payload(Value):
    """One event. `session` is the client's session id, `subagent` the id of the subagent that acts, if one does."""

    client: str
    event: str
    session: str
    subagent: str | None = None
    cwd: str = "."
    tool: str = ""
    input: dict[str, Any] = {}
    source: str = ""
    reason: str = ""
    prompt: str = ""
    mode: str = ""
    transcript: str = ""
    meta: dict[str, Any] = {}
    raw: dict[str, Any] = {}

    @property
    def dibs_session(self) -> str:
        """The session on the board. The shell of a subagent has the subagent's id in Codex, else the parent's."""
        if self.subagent is None:
            return self.session
        return self.subagent if self.client == CODEX else f"{self.session}-{self.subagent}"

    @property
    def is_shell(self) -> bool:
        """Without characters, a tool that types reads what the command has printed since."""
        return self.tool in SHELLS and (self.tool != TYPING or self.input.get("chars") != "")

    @property
    def is_edit(self) -> bool:
        return self.tool in EDITS

    @property
    def is_ours(self) -> bool:
        """Whether the tool is one of the tools of dibs, of a server called `dibs`."""
        before = next((one for one in OUR_TOOLS.get(self.client, ()) if self.tool.startswith(one)), None)
        if before is None:
            return False
        from dibs.mcp.tools import BY_NAME

        return self.tool.removeprefix(before) in BY_NAME

    @property
    def is_of_plugin(self) -> bool:
        """Whether the server of the tool is the one that the plugin brings."""
        return self.tool.startswith(PLUGIN_TOOLS) and self.raw.get("mcp_server") == PLUGIN_SERVER

    @property
    def command(self) -> str:
        """The command of a shell tool."""
        found = self.input.get("command", self.input.get("cmd"))
        return found if isinstance(found, str) else ""


def parse(text: str, event: str = "", client: str | None = None) -> Payload | None:
    """The payload of an event; None if it names no session that can name a folder, or is no payload at all."""
    try:
        raw = json_text.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    try:
        session = item_id(_text(raw, "session_id", "sessionId", "conversation_id"))
        subagent = _text(raw, "agent_id") or None
        found = Payload(
            client=client or _client(raw),
            event=_event(event or _text(raw, "hook_event_name", "hookName")),
            session=session,
            subagent=subagent and item_id(subagent),
            cwd=_text(raw, "cwd") or ".",
            tool=_text(raw, "tool_name", "toolName"),
            input=_object(raw, "tool_input", "toolArgs"),
            source=_text(raw, "source"),
            reason=_text(raw, "reason"),
            prompt=_text(raw, "prompt"),
            mode=_text(raw, "permission_mode"),
            transcript=_text(raw, "transcript_path", "transcriptPath"),
            meta={name: raw[name] for name in ("model", "context_tokens", "cost_usd") if _is_plain(raw.get(name))},
            raw=raw,
        )
        item_id(found.dibs_session)
    except Invalid:
        return None
    return found


def _client(raw: dict[str, Any]) -> str:
    """Which client sends a payload of this shape."""
    if "sessionId" in raw:
        return COPILOT
    if "conversation_id" in raw:
        return CURSOR
    if "turn_id" in raw or "/rollout-" in _text(raw, "transcript_path"):
        return CODEX
    return GEMINI if "timestamp" in raw else CLAUDE


def _event(name: str) -> str:
    name = name[:1].upper() + name[1:]
    return EVENTS.get(name, name)


def _text(raw: dict[str, Any], *names: str) -> str:
    found = next((raw[name] for name in names if name in raw), "")
    return found if isinstance(found, str) else ""


def _object(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    """The object, also if it is written as a text of JSON, as older versions of Copilot CLI do."""
    found: object = next((raw[name] for name in names if name in raw), {})
    if isinstance(found, str):
        try:
            found = json_text.loads(found)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not (isinstance(value, str) and len(value) > 200)
