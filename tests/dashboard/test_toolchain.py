"""How the dashboard is built: from pinned packages only, with nothing of theirs run, and offline from an sdist."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.spec import DEFAULT_METADATA_VERSION, get_core_metadata_constructors
from hatchling.plugin.manager import PluginManager
from packaging.metadata import Metadata

import dibs
from manual.package_page import package_page
from web.tools import build, npm_registry, packages
from web.tools.npm_registry import Unavailable
from web.tools.packages import Pin

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9"
#: Of the repository itself, and of no use to who has an sdist.
NOT_IN_AN_SDIST = {".ci/run"}


class Registry(ThreadingHTTPServer):
    """Gives one tarball for every path."""

    def __init__(self, tarball: bytes) -> None:
        paths: list[str] = []
        self.paths, self.tarball = paths, tarball

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                paths.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(tarball)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w:gz") as archive:
        for name, text in {
            "package/package.json": '{"scripts": {"install": "touch ran"}}',
            "package/dist/index.js": "export {}",
            "package/../../escaped": "",
            "/package/absolute": "",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("package/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with Registry(files.getvalue()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/npm/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield server
        server.shutdown()


def pin_of(registry: Registry) -> Pin:
    digest = hashlib.sha512(registry.tarball).digest()
    return Pin("@scope/name", "1.2.3", base64.b64encode(digest).decode())


def test_a_package_is_fetched_once_and_leaves_its_folder_with_nothing(registry: Registry, tmp_path: Path) -> None:
    for _ in range(2):
        modules = packages.node_modules([pin_of(registry)])
    assert registry.paths == ["/npm/@scope/name/-/name-1.2.3.tgz"]
    found = {str(path.relative_to(modules)) for path in modules.rglob("*") if not path.is_dir()}
    assert found == {f"@scope/name/{name}" for name in ("package.json", "dist/index.js", "package/absolute")}
    assert not list(tmp_path.rglob("escaped"))
    assert not list(tmp_path.rglob("ran"))


def test_a_package_with_another_digest_is_refused_and_not_kept(registry: Registry) -> None:
    pin = pin_of(registry)._replace(sha512=base64.b64encode(b"0" * 64).decode())
    for _ in range(2):
        with pytest.raises(Unavailable, match="digest differs"):
            packages.node_modules([pin])
    assert len(registry.paths) == 2


def test_the_registry_is_the_one_that_npm_is_configured_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, registry: Registry
) -> None:
    url = f"http://127.0.0.1:{registry.server_port}/npm/"
    monkeypatch.delenv("npm_config_registry")
    (tmp_path / "npmrc").write_text(f"; a comment\nregistry = {url}\n")
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
    assert npm_registry.Registry().tarball("name", "1.0.0") == registry.tarball


def test_without_a_registry_it_is_said_and_only_the_dashboard_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for words in ([], ["--check"]):
        assert build.main(words) == 0
        assert "does not give" in capsys.readouterr().out


def test_no_file_of_the_project_names_a_registry() -> None:
    pinned = json.loads(packages.PINS.read_text())
    assert {key for group in pinned.values() for pin in group.values() for key in pin} == {"version", "sha512"}
    for path in (ROOT / "web" / "tools").glob("*.py"):
        assert not re.search(r"https?://\w", path.read_text()), path


def test_no_source_has_more_than_300_lines() -> None:
    sources = [path for suffix in ("ts", "tsx", "css") for path in (ROOT / "web" / "src").rglob(f"*.{suffix}")]
    assert sources
    assert not [str(path) for path in sources if len(path.read_text().splitlines()) > 300]


def check_wheel(wheel: zipfile.ZipFile) -> None:
    """What a user needs is in it, and nothing else; the page of the package has no link that leads nowhere."""
    names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {
        "dibs",
        f"calldibs-{dibs.__version__}.dist-info",
        f"calldibs-{dibs.__version__}.data",
    }
    assert {name.partition("/share/")[2] for name in names if ".data/" in name} == {
        "man/man1/dibs.1",
        "man/man1/calldibs.1",
        "man/man5/dibs.toml.5",
    }
    (metadata,) = [wheel.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert not re.findall(r"\]\((?!https?://)[^)]*\)|src=\"(?!https?://)", metadata)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(re.findall(r"^Provides-Extra: (.+)$", metadata, re.MULTILINE)) == set(project["optional-dependencies"])
    (scripts,) = [wheel.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    assert set(re.findall(r"^(\w+) =", scripts, re.MULTILINE)) == {"dibs", "calldibs"}


def test_the_page_of_the_package_links_to_where_the_project_is() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = package_page(readme, "https://example.org/dibs/blob/", "https://example.org/dibs/raw/")
    assert "](https://example.org/dibs/blob/docs/protocol.md)" in text
    assert "](https://example.org/dibs/raw/docs/images/dashboard-now.png)\n" in text
    assert 'src="https://example.org/dibs/raw/docs/images/demo.svg"' in text
    assert "/dibs/blob/docs/images/" not in text, "a page around a picture is no picture"
    assert "](https://example.org/dibs/docs/images/dashboard-now.png)" in package_page(
        readme, "https://example.org/dibs"
    )
    assert not re.findall(r"\]\((?!https?://)|(?:src|srcset)=\"(?!https?://)", text)


@pytest.mark.parametrize(
    ("home", "files", "urls"),
    [
        ("", "", {}),
        (
            "https://example.org/dibs",
            "https://example.org/dibs/blob/main",
            {
                "Homepage": "https://example.org/dibs",
                "Documentation": "https://example.org/dibs/blob/main/docs/README.md",
                "Changelog": "https://example.org/dibs/blob/main/CHANGELOG.md",
            },
        ),
    ],
    ids=["not published", "published"],
)
def test_the_metadata_are_right_with_and_without_an_address(home: str, files: str, urls: dict[str, str]) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    assert hook == {"path": "manual/hatch_metadata.py", "home": "", "files": "", "pictures": ""}, "no address is known"
    hook |= {"home": home, "files": files}
    metadata = ProjectMetadata(str(ROOT), PluginManager(), settings)
    text = get_core_metadata_constructors()[DEFAULT_METADATA_VERSION](metadata)
    parsed = Metadata.from_email(text, validate=True)
    assert (parsed.name, str(parsed.version), parsed.project_urls or {}) == ("calldibs", dibs.__version__, urls)
    assert parsed.description_content_type == "text/markdown"
    page = parsed.description or ""
    assert page.startswith("# dibs")
    assert ("](https://example.org/dibs/blob/main/docs/protocol.md)" in page) == bool(files)
    assert ("are in the folder `docs` of the source distribution" in page) != bool(files)
    assert not re.findall(r"\]\((?!https?://)[^)]*\)|(?:src|srcset)=\"(?!https?://)", page)


def test_the_shipped_test_kit_is_what_a_store_of_others_needs() -> None:
    """Every module of `dibs.testing` is used by the suite, by its name in an import or in a scene."""
    kit = ROOT / "src" / "dibs" / "testing"
    modules = {path for path in kit.glob("*.py") if path.name != "__init__.py"}
    sources = {path: path.read_text(encoding="utf-8") for path in kit.rglob("*.py")}
    guide = (ROOT / "docs" / "guides" / "testing-a-store.md").read_text(encoding="utf-8")
    for module in modules:
        others = [text for path, text in sources.items() if path != module]
        used = re.compile(rf"dibs\.testing\.{module.stem}\b|from dibs\.testing import .*\b{module.stem}\b")
        assert any(used.search(text) for text in [*others, guide]), module


def test_a_wheel_builds_from_the_sdist_without_a_registry(tmp_path: Path) -> None:
    if not build.is_built():
        pytest.skip("the dashboard is not built here; python -m web.tools.build says why")
    hatch = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run([*hatch, "--target", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "node_modules" in name]
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        archive.extractall(tmp_path)
    offline = {**os.environ, "npm_config_registry": NOWHERE, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = sdist.with_suffix("").with_suffix("")
    subprocess.run([*hatch, "--target", "wheel"], cwd=folder, env=offline, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        names = {Path(name).name for name in found.namelist() if name.startswith("dibs/server/assets/")}
        licences = found.read("dibs/server/assets/LICENSES.txt").decode()
        assert not [name for name in found.namelist() if name.startswith("web")]
        assert "dibs/cli/top/top.tcss" in found.namelist()
        check_wheel(found)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    left_out = {name for name in tracked.split("\0") if name} - packed
    assert left_out <= NOT_IN_AN_SDIST
    assert names == {path.name for path in build.ASSETS.iterdir()}
    for package in packages.pins("bundled").values():
        assert f"{package.name} {package.version}" in licences


def test_a_wheel_without_assets_and_without_a_registry_is_not_made(tmp_path: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in tracked.split("\0"):
        if name.startswith(("src/dibs/__init__", "web/", "manual/", "pyproject.toml", "README.md", "LICENSE")):
            path = tmp_path / "copy" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((ROOT / name).read_bytes())
    offline = {**os.environ, "npm_config_registry": NOWHERE, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=tmp_path / "copy",
        env=offline,
        capture_output=True,
        text=True,
    )
    assert made.returncode != 0
    assert "the dashboard cannot be built" in made.stderr
    assert not list(tmp_path.rglob("*.whl"))
