"""What the operating system does for dibs has one module each: no other starts git, locks a file, renames one, or reads
the id of the boot."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import dibs

SOURCE = Path(dibs.__file__).parent
RENAMES = {"rename", "renames", "replace"}
STARTS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec", "execvp", "posix_spawnp"}


def starts_git(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _name(node.func) not in STARTS or not node.args:
        return False
    command = node.args[0]
    first = command.elts[0] if isinstance(command, ast.List | ast.Tuple) and command.elts else command
    return isinstance(first, ast.Constant) and str(first.value).partition(" ")[0] == "git"


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def locks_a_file(node: ast.AST) -> bool:
    """With `flock`, `lockf`, or the requests of `fcntl` for locks."""
    name = _name(node) or ""
    return name in {"flock", "lockf"} or (name.startswith(("F_SETLK", "F_OFD_SETLK")))


def replaces_a_file(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and bool({one.name for one in node.names} & RENAMES)
    return isinstance(node, ast.Attribute) and f"{_name(node.value)}.{node.attr}" in {"shutil.move"} | {
        f"os.{name}" for name in RENAMES
    }


def reads_the_boot_id(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "random/boot_id" in node.value


HOMES: dict[Callable[[ast.AST], bool], set[str]] = {
    starts_git: {"system/git.py"},
    # SQLite's fair lock is two locks on two bytes of one file, and a signal may interrupt it at any point.
    locks_a_file: {"system/locks.py", "store/sqlite/lock.py"},
    replaces_a_file: {
        "system/durable.py",
        # Relative to descriptors of folders, for the files of a vault.
        "system/renaming.py",
        # Moves, and no writes: hooks that were there before, the index that git has written, damaged objects.
        "guard/install.py",
        "store/vault/git/user_git.py",
        "store/vault/git/repair.py",
    },
    reads_the_boot_id: {"system/owner.py"},
}


@pytest.mark.parametrize("does", HOMES, ids=lambda does: does.__name__)
def test_only_its_home_does_it(does: Callable[[ast.AST], bool]) -> None:
    assert {module for module, nodes in modules().items() if any(map(does, nodes))} == HOMES[does]


@cache
def modules() -> dict[str, list[ast.AST]]:
    """The nodes of each module's syntax tree."""
    return {
        str(path.relative_to(SOURCE)): list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for path in SOURCE.rglob("*.py")
    }
