"""Programs for node, with packages that the tests keep in a cache of the user's: pinned, and fetched once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit import npm
from tests.kit.waiting import PATIENCE_SECONDS

HERE = Path(__file__).parent
#: The newest that run on node 20.
PACKAGES = {"@supabase/supabase-js": "2.100.0", "amaro": "0.1.9", "eventsource": "4.1.0"}


class Programs:
    """The programs of one document, in a folder of their own; beside the packages, unless they need none."""

    def __init__(self, document: str, folder: Path, *, need_packages: bool = True) -> None:
        if not shutil.which("node"):
            pytest.skip("there is no node on this machine")
        self.folder = shutil.copytree(HERE / document, folder / document)
        (self.folder / "package.json").write_text('{"type": "module"}')
        if need_packages:
            packages, why_not = _packages()
            if why_not:
                pytest.skip(why_not)
            (self.folder / "node_modules").symlink_to(packages)
        if typed := [path.name for path in self.folder.glob("*.ts")]:
            shutil.copy(HERE / "strip.mjs", self.folder)
            self.run("strip.mjs", *typed)

    def start(self, program: str, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["node", program, *words],
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "NODE_NO_WARNINGS": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def running(self, program: str, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """For as long as it is needed."""
        with self.start(program, *words, **environment) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, program: str, *words: str, **environment: str) -> str:
        with self.running(program, *words, **environment) as process:
            said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said
        return said


def _packages() -> tuple[Path, str]:
    words = [f"{name}@{version}" for name, version in PACKAGES.items()]
    return npm.packages(f"node-{hashlib.sha256(json.dumps(PACKAGES).encode()).hexdigest()[:12]}", *words)
