"""The hook of `hatchling` for metadata: the page of the package, and the project's addresses if it has any.

Both come from `[tool.hatch.metadata.hooks.custom]`: `home` is the address of the project, `files` that of its files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parents[1]))

from manual.package_page import package_page


class PackagePageHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = package_page(readme, self.config.get("files", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        home = self.config.get("home", "")
        metadata["urls"] = {"Homepage": home} if home else {}
