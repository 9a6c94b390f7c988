"""The hook of `hatchling`: a wheel, an sdist and an editable install contain the dashboard.

An sdist contains the built assets, so a wheel builds from it without a registry.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[2]))

from web.tools import build
from web.tools.npm_registry import Unavailable


class DashboardHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
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
