"""The guides to fleets and to leaving, followed word by word, in a repository with stand-ins for the coding agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import blocks, read
from tests.docs.shop import Shop

#: Stand in for coding agents: each reads its item and leaves something. Codex cannot commit in its sandbox.
CODEX = """#!/bin/sh
cat >/dev/null
printf '%s\\n' "$@" >arguments.txt
[ -n "$DIBS_ITEM" ] || exit 0
dibs show "$DIBS_ITEM" >/dev/null || exit 1
"""
AGENTS = {"codex": CODEX, "claude": f'{CODEX}git add . && git commit --quiet -m "$DIBS_ITEM"\n'}
WITHOUT_QUESTIONS = (("dibs setup claude", "dibs setup claude --yes"), ("dibs setup codex", "dibs setup codex --yes"))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A repository with one commit, and programs called `claude` and `codex`."""
    shop = Shop(tmp_path)
    (shop.folder / ".git" / "HEAD").unlink()
    (shop.folder / ".git").rmdir()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in AGENTS.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    shop.environment = {"HOME": str(tmp_path / "home"), "PATH": f"{programs}:{shop.environment['PATH']}"}
    (tmp_path / "home").mkdir()
    done = shop.type(
        "git init -q -b main . && git config user.name you && git config user.email you@example.org"
        " && git commit -q --allow-empty -m first"
    )
    assert done.returncode == 0, done.stdout
    return shop


def type_all(shop: Shop, block: str, *changes: tuple[str, str]) -> None:
    for before, after in changes:
        block = block.replace(before, after)
    done = shop.type(f"set -e\n{block}")
    assert done.returncode == 0, done.stdout


def tree(*folders: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }


def test_a_fleet_of_claude_code(shop: Shop) -> None:
    two_lines, add, by_hand, by_itself, guard = blocks(read("docs/guides/claude-code.md"), "shell")
    type_all(shop, two_lines, *WITHOUT_QUESTIONS)
    assert shop.type("dibs setup claude --check").returncode == 0
    type_all(shop, add)
    type_all(shop, by_hand)
    assert (shop.folder.parent / "shop-one" / "arguments.txt").exists()
    assert "fix-login" in shop.type("cd ../shop-one && dibs list").stdout, "worktrees share the board"
    for _ in range(2):  # the second time for what the first made ready
        type_all(shop, by_itself, ("--max 4", "--max 4 --once"))
    items = {item["id"]: item["status"] for item in shop.answer("dibs list --all")["items"]}
    assert items == {"fix-login": "done", "search-pages": "done", "search-docs": "done"}
    assert "fix-login" in shop.type("git log --format=%s dibs/fix-login").stdout
    type_all(shop, guard)


def test_codex(shop: Shop) -> None:
    setup, work = blocks(read("docs/guides/codex.md"), "shell")
    type_all(shop, setup, *WITHOUT_QUESTIONS)
    assert shop.type("dibs setup codex --check").returncode == 0
    shop.type('dibs add "Fix login" --id fix-login')
    type_all(shop, work, ("--worktree", "--worktree --once"))
    assert shop.answer("dibs show fix-login")["item"]["status"] == "done"
    assert "fix-login" in shop.type("git log --format=%s dibs/fix-login").stdout


def test_leaving_without_a_trace(shop: Shop) -> None:
    folders = (shop.folder, Path(shop.environment["HOME"]))
    hooks = shop.folder / ".git" / "hooks"
    (hooks / "pre-push").write_text("#!/bin/sh\nexit 0\n")
    (hooks / "pre-push").chmod(0o755)
    before = tree(*folders)
    type_all(shop, "dibs init\ndibs setup claude --yes\ndibs guard install\ndibs add x --id x\n")
    type_all(shop, "dibs exec x --agent coder --worktree --keep -- true\ndibs trust .\n")
    (block,) = blocks(read("docs/operations/leaving.md"), "shell")
    asked = [(f"dibs {words} ", f"dibs {words} --yes ") for words in ("remove-board", "setup claude --remove")]
    asked += [("dibs worktree clean ", "dibs worktree clean x "), ("pip uninstall calldibs", "git branch -q -D dibs/x")]
    type_all(shop, block, *asked)
    (shop.folder.parent / "shop.worktrees").rmdir()
    (shop.folder / "board.jsonl").unlink()
    left = {path for path, text in tree(*folders).items() if before.get(path, b"\0") != text}
    # What the page says is removed by hand, and what git itself keeps of worktrees.
    by_hand = {".local", ".config", "state", "dibs"}
    unexpected = {path for path in left if not by_hand & set(Path(path).parts) and "/.git/" not in path}
    assert unexpected == set()
    assert not (shop.folder / ".git" / "dibs").exists()
    assert not (shop.folder / ".git" / "dibs-guard").exists()
    assert (hooks / "pre-push").read_text() == "#!/bin/sh\nexit 0\n"


def test_backing_up_and_upgrading(shop: Shop) -> None:
    shop.type('dibs init && dibs add "Fix login" --id fix-login && dibs claim fix-login --agent coder --session c-1')
    copies, check = blocks(read("docs/operations/backup.md"), "shell")
    type_all(shop, copies, ("dibs restore monday.db ", "dibs restore monday.db --yes "))
    type_all(shop, check, ("/tmp/try.db", "try.db"))
    assert not (shop.folder / "try.db").exists()
    shown = shop.answer("dibs show fix-login")
    assert (shown["item"]["status"], shown["runs"][0]["outcome"]) == ("ready", "restored")
    (upgrade,) = blocks(read("docs/operations/upgrade.md"), "shell")
    type_all(shop, upgrade, ("pip install --upgrade calldibs", ""))


def test_a_vault_and_its_clones(shop: Shop) -> None:
    alone, clones = blocks(read("docs/guides/vault.md"), "sh")
    done = shop.type(f"set -e\n{alone}")
    assert done.returncode == 0, done.stdout
    assert "call-bob.md\n" in done.stdout
    assert "done" in done.stdout.splitlines()[-1]
    type_all(shop, clones)
    assert shop.type("cd here && dibs doctor").returncode == 0
    assert "refs/heads/" in shop.type("git -C hub.git for-each-ref").stdout
