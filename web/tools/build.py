"""Builds the dashboard into the assets of the server: `python -m web.tools.build`; with `--check`, only checks types.

The names of scripts and styles have a digest of their content, so that browsers may keep them for ever; `index.html`
names them. A compressed copy stands beside each file, so that the server compresses nothing.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from web.tools import packages
from web.tools.npm_registry import Unavailable

WEB = Path(__file__).parent.parent
ASSETS = WEB.parent / "src" / "dibs" / "server" / "assets"
INDEX = "index.html"
LICENCES = "LICENSES.txt"
OPTIONS = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--charset=utf8", "--log-level=warning")
JSX = ("--jsx=automatic", "--jsx-import-source=preact")
#: The icon of the page has the number of items that need a person, up to this one.
ICON_NUMBER_MAX = 9
BUILD_SECONDS_MAX = 120

#: What esbuild tells of its outputs.
Meta = dict[str, dict[str, dict[str, Any]]]


class BuildFailed(Exception):
    """A compiler found a mistake in the sources."""


def build(assets: Path = ASSETS) -> None:
    """Replaces the assets, unless something fails."""
    modules = _modules()
    with tempfile.TemporaryDirectory(prefix="dibs-web-") as folder:
        out = Path(folder)
        _bundle(modules, out)
        (out / LICENCES).write_text(_licences(modules), encoding="utf-8")
        for path in sorted(out.iterdir()):
            # No time in the header: the same sources give the same bytes.
            (out / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        assets.mkdir(exist_ok=True)
        for path in out.iterdir():
            shutil.copyfile(path, assets / path.name)
        for path in assets.iterdir():
            if not (out / path.name).exists():
                path.unlink()


def check() -> None:
    modules = _modules()
    _run([str(_compiler(modules, "@typescript/typescript-", "lib/tsc")), "--project", str(WEB)])


def is_built(assets: Path = ASSETS) -> bool:
    return (assets / INDEX).exists()


def _modules() -> Path:
    """The packages, also as `node_modules` beside the sources, where compilers and editors look for them."""
    compilers = packages.pins("compilers")
    wanted = [packages.compiler(compilers, prefix) for prefix in ("@esbuild/", "@typescript/typescript-")]
    modules = packages.node_modules([*packages.pins("bundled").values(), *wanted])
    link = WEB / "node_modules"
    if link.is_symlink() and link.readlink() != modules:
        link.unlink()
    if not link.is_symlink():
        link.symlink_to(modules)
    return modules


def _compiler(modules: Path, prefix: str, program: str) -> Path:
    return modules / f"{prefix}{packages.this_platform()}" / program


def _bundle(modules: Path, out: Path) -> None:
    esbuild = str(_compiler(modules, "@esbuild/", "bin/esbuild"))
    source = WEB / "src"
    hashed = ("--entry-names=[name]-[hash]", f"--outdir={out}")
    early = (source / "worker.ts", source / "style" / "later.css")
    _run([esbuild, *map(str, early), *OPTIONS, *hashed])
    _flatten(out)
    urls = {"WORKER_URL": "worker-*.js", "STYLE_URL": "later-*.css"}
    defined = [f'--define:{name}="/assets/{next(out.glob(pattern)).name}"' for name, pattern in urls.items()]
    entries = (source / "main.tsx", source / "style" / "main.css")
    meta_file = out / "meta.json"
    _run(
        [
            *(esbuild, *map(str, entries), *OPTIONS, *JSX, *hashed, *defined),
            *("--splitting", "--chunk-names=[name]-[hash]", f"--outbase={source}", f"--metafile={meta_file}"),
        ]
    )
    meta = json.loads(meta_file.read_text(encoding="utf-8"))
    meta_file.unlink()
    _flatten(out)
    _write_page(meta, out)
    _write_icons(out)


def _write_page(meta: Meta, out: Path) -> None:
    entries = {Path(made["entryPoint"]).name: name for name, made in meta["outputs"].items() if "entryPoint" in made}
    script, style = (Path(entries[name]).name for name in ("main.tsx", "main.css"))
    links = "".join(f'<link rel="modulepreload" href="/assets/{name}">\n' for name in _eager(meta, entries["main.tsx"]))
    page = (WEB / INDEX).read_text(encoding="utf-8")
    page = page.replace("STYLE", f"/assets/{style}").replace("SCRIPT", f"/assets/{script}")
    (out / INDEX).write_text(page.replace("<!-- preloads -->\n", links), encoding="utf-8")


def _write_icons(out: Path) -> None:
    """Files instead of data URLs, which the policy of the page forbids."""
    icon = (WEB / "icon.svg").read_text(encoding="utf-8")
    for number in range(ICON_NUMBER_MAX + 1):
        badge = icon if number else re.sub(r"<g id=.badge.*?</g>", "", icon, flags=re.DOTALL)
        (out / f"icon-{number}.svg").write_text(badge.replace("NUMBER", str(number)), encoding="utf-8")


def _flatten(out: Path) -> None:
    """The style sheets are entries in a folder of their own."""
    for path in sorted(out.glob("*/*")):
        path.rename(out / path.name)
    for folder in [path for path in out.iterdir() if path.is_dir()]:
        folder.rmdir()


def _eager(meta: Meta, entry: str) -> list[str]:
    """The chunks that the page needs at once, so that the browser fetches them together."""
    found: list[str] = []
    todo = [entry]
    while todo:
        for one in meta["outputs"][todo.pop()]["imports"]:
            name = Path(one["path"]).name
            if one["kind"] == "import-statement" and name not in found:
                found.append(name)
                todo.append(one["path"])
    return sorted(found)


def _licences(modules: Path) -> str:
    parts = ["The dashboard contains these packages, under their licences.\n"]
    for pin in packages.pins("bundled").values():
        text = (modules / pin.name / "LICENSE").read_text(encoding="utf-8")
        parts.append(f"{pin.name} {pin.version}\n\n{text.strip()}\n")
    return ("\n" + "-" * 80 + "\n\n").join(parts)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    if done.returncode != 0:
        raise BuildFailed(done.stdout + done.stderr)
    sys.stderr.write(done.stderr)


def main(words: list[str]) -> int:
    """What cannot be fetched is said and is no failure: everything but the dashboard works without it."""
    try:
        if "--check" in words:
            check()
        else:
            build()
    except Unavailable as error:
        print(f"the dashboard is not {'checked' if '--check' in words else 'built'}: {error}")
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
