"""docs/guides/guard.md: what is typed there works, and the hooks and variables in it are those of the code."""

from __future__ import annotations

from pathlib import Path

from dibs import config
from dibs.cli.guard import HOOKS
from dibs.guard import hooks, scripts
from tests.docs.markdown import blocks, code, read, section, table
from tests.docs.shop import Shop

GUIDE = read("docs/guides/guard.md")
REPOSITORY = """
set -e
rmdir .git/refs 2>/dev/null || true
git init --quiet --initial-branch=main
git init --quiet --bare ../hub.git
git remote add origin ../hub.git
git config user.name you
git config user.email you@example.org
dibs init
"""


def test_what_the_guide_types_works(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    typed = shop.type(f"{REPOSITORY}\n{blocks(GUIDE, 'sh')[0]}")
    assert typed.returncode == 0, typed.stdout
    assert "Dibs-Claim: fix-login/1\n" in typed.stdout
    assert "was force-released: its machine is gone" in typed.stdout
    assert typed.stdout.endswith("refused\n")


def test_the_hooks_are_those_of_the_code() -> None:
    told = {word for names, _ in table(GUIDE, "hook", "what it does") for word in code(names) if " " not in word}
    assert told == set(HOOKS) == {*scripts.CLIENT, *scripts.HUB, scripts.COMMIT}


def test_a_pass_is_asked_for_as_the_code_reads_it() -> None:
    said = section(GUIDE, "## Letting a push pass")
    assert f"{config.ENV_GUARD_PASS}=" in said
    assert f"-o {hooks.PUSH_OPTION}" in said
    assert f"`{hooks.CHECK.format(commit='COMMIT')}`" in said
