"""Commands of an agent's shell tool: whether one is a single simple call of `dibs`, and how it acts as another session.

A simple call has no operator, expansion or redirection, so that the shell runs `dibs` and nothing else. A list of
simple calls runs nothing else either, but is more than a person who allows one call has in mind.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.agents.payload import Payload

PROGRAMS = ("dibs", "calldibs")
#: Commands of dibs that run other programs.
RUNNERS = frozenset({"work", "exec", "demo"})
#: Commands that take the session as an option. Others find it in the environment, or need none.
ACTING = frozenset(
    {
        *("next", "claim", "wait", "leave", "heartbeat", "progress", "release", "done", "fail", "submit"),
        *("why", "annotate", "reject", "hand"),
    }
)
#: What an agent may do without asking a person: take work, keep it, end it, and look at the board.
HARMLESS = frozenset(
    {
        *("next", "claim", "wait", "leave", "heartbeat", "progress", "release", "done", "fail", "submit"),
        *("list", "show", "who", "why", "log", "runs", "stats"),
    }
)
#: Options that let a harmless command read another board or a file.
NOT_HARMLESS = ("--store", "--draft-file", "--session", "--agent")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,@%+")
#: Characters that a shell interprets between double quotes.
_EXPANDED = frozenset("$`\\!")
_ERRORS_TO_OUTPUT = "2>&1"
#: What may stand between the words of a list of calls.
_JOINTS = ("&&", "||", ";", "\n", _ERRORS_TO_OUTPUT)


def simple_call(command: str) -> list[str] | None:
    """The words of a simple call of dibs; None for every other command."""
    found = _commands(command)
    return found[0] if found and _calls_dibs(found[0]) else None


def is_list_of_calls(command: str) -> bool:
    """Whether the command runs dibs, once or several times, and nothing else; it may change its folder before."""
    found = [words for words in _commands(command, _JOINTS) or () if words]
    calls = [words for words in found if words[0] != "cd"]
    return bool(calls) and all(_calls_dibs(words) and not runs_others(words) for words in calls)


def runs_others(words: list[str]) -> bool:
    """Whether this call of dibs runs another program. Which word is the command cannot be told behind an option."""
    command = words[1:2]
    return not RUNNERS.isdisjoint(words if command and command[0].startswith("-") else command)


def is_harmless(words: list[str]) -> bool:
    """Whether nobody needs to be asked: the program is found on the PATH, and the command is one of those above."""
    options = (word.partition("=")[0] for word in words)
    return words[0] in PROGRAMS and len(words) > 1 and words[1] in HARMLESS and not set(options) & set(NOT_HARMLESS)


def as_session(payload: Payload, session: str) -> dict[str, Any]:
    """The tool's input, with the command acting as `session`. A simple call gets an option where that is possible,
    because the permission rules of clients are about how a command begins."""
    command = payload.command
    words = simple_call(command)
    if words is not None and words[1:2] and words[1] in ACTING and "--" not in words and "--session" not in words:
        changed = f"{command.rstrip()} --session {session}"
    else:
        changed = f"export DIBS_SESSION={session}; {command}"
    return {**payload.input, "command": changed}


def _calls_dibs(words: list[str]) -> bool:
    return bool(words) and words[0].rpartition("/")[2] in PROGRAMS


def _commands(command: str, joints: tuple[str, ...] = ()) -> list[list[str]] | None:
    """The words of each simple command, where `joints` separate them; None if a shell would do more than run them."""
    text = command.strip(" ")
    commands: list[list[str]] = [[]]
    word: str | None = None
    quote = ""
    at = 0
    while at < len(text):
        sign = text[at]
        joint = "" if quote else next((one for one in joints if text.startswith(one, at)), "")
        if quote:
            if sign == quote:
                quote = ""
            elif quote == '"' and sign in _EXPANDED:
                return None
            else:
                word = (word or "") + sign
        elif joint or sign == " ":
            commands[-1] += [] if word is None else [word]
            word = None
            commands += [[]] if joint and joint != _ERRORS_TO_OUTPUT else []
        elif sign in "'\"":
            quote, word = sign, word or ""
        elif sign in _PLAIN:
            word = (word or "") + sign
        else:
            return None
        at += len(joint) or 1
    if quote:
        return None
    commands[-1] += [] if word is None else [word]
    return commands
