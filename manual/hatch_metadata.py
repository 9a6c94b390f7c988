"""The hook of `hatchling` for metadata: the page of the package, and the project's addresses if it has any.

Both come from `[tool.hatch.metadata.hooks.custom]`: `home` is the address of the project, `files` the one under which
its files are shown, and `pictures` the one under which they are served as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parents[1]))

from manual.package_page import package_page, project_urls


class PackagePageHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home, files, pictures = (self.config.get(name, "") for name in ("home", "files", "pictures"))
        text = package_page(readme, files, pictures)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = project_urls(home, files)
