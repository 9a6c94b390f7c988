"""Nothing of the product removes a tree of folders; the test kit removes only what it made."""

from __future__ import annotations

import ast
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dibs
from dibs.system import durable
from tests.kit import keeper

PRODUCT = Path(dibs.__file__).parent
#: What removes more than one file, or a folder that is not empty.
TREES = {"rmtree", "removedirs", "TemporaryDirectory"}


def test_nothing_of_the_product_removes_a_tree() -> None:
    found = []
    for path in sorted(PRODUCT.rglob("*.py")):
        if (PRODUCT / "testing") in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if name in TREES or text.strip() in ("-rf", "-fr") or "rm -r" in text:
                found.append(f"{path.relative_to(PRODUCT)}: {name or text}")
    assert found == []


def test_a_folder_goes_with_its_files_and_with_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with durable.TemporaryFolder("a-") as folder:
        Path(folder, "file").write_text("x")
        Path(folder, "link").symlink_to(precious)
    assert [one.name for one in tmp_path.iterdir()] == ["precious"]
    with durable.TemporaryFolder("b-") as folder:
        Path(folder, "tree", "deep").mkdir(parents=True)
    assert Path(folder, "tree", "deep").is_dir()
    with durable.TemporaryFolder("c-") as folder:
        Path(folder).rename(tmp_path / "moved")
        Path(folder).mkdir()
        Path(folder, "theirs").write_text("x")
    assert Path(folder, "theirs").exists(), "another folder has its name by now"


def keep(folder: Path) -> None:
    """Run a keeper whose owner is gone, until it has ended; its command ends by itself or is ended."""
    command = [sys.executable, "-m", "tests.kit.keeper", str(folder), "sleep", "60"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 128 + signal.SIGQUIT


def test_a_keeper_removes_no_folder_that_it_did_not_make(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("owner", "kept", "only-copy"):
        (precious / name).touch()
    keep(precious)
    assert (precious / "only-copy").exists()

    place = keeper.Place.new()
    shutil.copy(Path(place.folder) / keeper.MARK, precious)
    keep(precious)
    assert (precious / "only-copy").exists(), "the mark is another folder's"
    (precious / keeper.MARK).write_text(keeper._mark(place.folder).replace(place.folder, str(precious)))
    keep(precious)
    assert (precious / "only-copy").exists(), "the mark has another folder's inode"

    place.close()
    assert not Path(place.folder).exists()
