"""The hook of `hatchling`: a wheel, an sdist and an editable install contain the dashboard, a wheel also man pages.

An sdist contains the built assets, so a wheel builds from it without a registry.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from web.tools import build
from web.tools.npm_registry import Unavailable


class DashboardHook(BuildHookInterface[Any]):
    _man: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._build_dashboard(version)
        if self.target_name == "wheel" and version != "editable":
            self._write_man_pages(build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._man is not None:
            shutil.rmtree(self._man)

    def _build_dashboard(self, version: str) -> None:
        is_from_sdist = (Path(self.root) / "PKG-INFO").exists()
        if is_from_sdist and build.is_built():
            return
        try:
            build.build()
        except Unavailable as error:
            if version == "editable":
                self.app.display_warning(f"the dashboard is not built: {error}")
            else:
                raise SystemExit(f"the dashboard cannot be built: {error}") from error

    def _write_man_pages(self, build_data: dict[str, Any]) -> None:
        # Imported late: it imports dibs, which an editable install need not have yet.
        from manual import man

        self._man = tempfile.mkdtemp(prefix="dibs-man-")
        folder = Path(self._man)
        for path in man.write(folder):
            build_data["shared_data"][str(path)] = f"share/man/{path.relative_to(folder).as_posix()}"
