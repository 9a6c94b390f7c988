"""What the operating system does for dibs has one module each: no other starts git, locks a file, renames one, or reads
the id of the boot."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import dibs

SOURCE = Path(dibs.__file__).parent
STARTS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec", "execvp", "posix_spawnp"}


def starts_git(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _name(node.func) not in STARTS or not node.args:
        return False
    command = node.args[0]
    first = command.elts[0] if isinstance(command, ast.List | ast.Tuple) and command.elts else command
    return isinstance(first, ast.Constant) and str(first.value).partition(" ")[0] == "git"


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


HOMES: dict[Callable[[ast.AST], bool], set[str]] = {
    starts_git: {"system/git.py"},
}


@pytest.mark.parametrize("does", HOMES, ids=lambda does: does.__name__)
def test_only_its_home_does_it(does: Callable[[ast.AST], bool]) -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(map(does, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == HOMES[does]
