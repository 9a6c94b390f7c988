"""Commands of an agent's shell tool: whether one is a single simple call of `dibs`, and how it acts as another session.

A simple call has no operator, expansion or redirection, so that the shell runs `dibs` and nothing else.
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
        *("why", "annotate", "reject"),
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


def simple_call(command: str) -> list[str] | None:
    """The words of a simple call of dibs; None for every other command."""
    words = _words(command)
    if not words or words[0].rpartition("/")[2] not in PROGRAMS:
        return None
    return words


def runs_others(words: list[str]) -> bool:
    return not RUNNERS.isdisjoint(words)


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


def _words(command: str) -> list[str] | None:
    """The words of one simple command; None if a shell would do more than run it."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    for sign in command.strip(" "):
        if quote:
            if sign == quote:
                quote = ""
            elif quote == '"' and sign in _EXPANDED:
                return None
            else:
                word = (word or "") + sign
        elif sign in "'\"":
            quote, word = sign, word or ""
        elif sign == " ":
            words += [] if word is None else [word]
            word = None
        elif sign in _PLAIN:
            word = (word or "") + sign
        else:
            return None
    if quote:
        return None
    return words + ([] if word is None else [word])
