"""Every line of a snippet that calls dibs can be typed: the command exists, with these arguments and options."""

from __future__ import annotations

import re
import shlex

import pytest

from dibs.cli.commands import COMMANDS, split_command
from dibs.cli.parser import UsageError, build
from dibs.errors import DibsError
from tests.docs.markdown import DOCUMENTS, blocks, read

LANGUAGES = ("sh", "shell", "console", "bash")
#: What ends one command of a line, and what stands for something that a reader puts in.
ENDS = re.compile(r"[|&;()<>]+")
LEFT_OPEN = re.compile(r"\.\.\.|…|\$\$")


def calls(block: str) -> list[list[str]]:
    """The calls of dibs in a block, as words."""
    found = []
    for line in block.replace("\\\n", " ").split("\n"):
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue  # text over several lines
        at = [index for index, word in enumerate(words) if word == "dibs" and _is_command(words, index)]
        for index in at:
            rest = words[index + 1 :]
            end = next((place for place, word in enumerate(rest) if ENDS.fullmatch(word)), len(rest))
            found.append(rest[:end])
    return found


def _is_command(words: list[str], index: int) -> bool:
    before = words[index - 1] if index else ";"
    return before in {";", "&&", "||", "|", "(", "$(", "{", "!"} or "=" in before or before.endswith("$")


def check_call(words: list[str]) -> None:
    name, rest = split_command(words)
    if name is None or name.startswith("-") or name.isupper() or any(LEFT_OPEN.search(word) for word in words):
        return
    assert name in COMMANDS, f"there is no command dibs {name}"
    try:
        build(name, COMMANDS[name])[0].parse(rest)
    except UsageError as error:
        raise AssertionError(f"dibs {' '.join(words)}: {error.message}") from error
    except DibsError:
        pass  # a value that is a placeholder


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_call_of_dibs_can_be_typed(document: str) -> None:
    text = read(document)
    for language in LANGUAGES:
        for block in blocks(text, language):
            for words in calls(block):
                check_call(words)


def test_calls_are_found_and_mistakes_too() -> None:
    block = (
        "export DIBS_SESSION=$(dibs session start --agent coder)\ndibs add x --id x && dibs claim x; dibs who | cat\n"
    )
    assert [words[0] for words in calls(block)] == ["session", "add", "claim", "who"]
    for line in ("claim x --tll 5m", "display x", "log", "prune"):
        with pytest.raises(AssertionError):
            check_call(line.split())
