"""Which npm registry to ask, and how: from the environment and the `.npmrc` files that npm itself reads."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

TIMEOUT_SECONDS = 60
NPM_SECONDS_MAX = 20
#: The largest package of the pins has 75 MB.
TARBALL_BYTES_MAX = 200_000_000
NO_REGISTRY = "no npm registry is known: set npm_config_registry to its URL, or install npm"


class Unavailable(Exception):
    """What is needed cannot be fetched here; the message says why and what would help."""


class Registry:
    def __init__(self) -> None:
        self._settings = _settings()
        self._url = self._settings.get("registry") or _asked_of_npm()
        self._tls = ssl.create_default_context()
        if cafile := self._settings.get("cafile"):
            self._tls.load_verify_locations(cafile)

    def tarball(self, name: str, version: str) -> bytes:
        url = f"{self._url.rstrip('/')}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        request = Request(url)
        host_and_path = self._url.partition(":")[2].rstrip("/")
        if token := self._settings.get(f"{host_and_path}/:_authToken"):
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS, context=self._tls) as answer:
                found: bytes = answer.read(TARBALL_BYTES_MAX + 1)
        except OSError as error:
            raise Unavailable(f"the npm registry does not give {name}@{version}: {error}") from error
        if len(found) > TARBALL_BYTES_MAX:
            raise Unavailable(f"{name}@{version} is larger than {TARBALL_BYTES_MAX} bytes")
        return found


def _settings() -> dict[str, str]:
    """Later sources win, as with npm."""
    found: dict[str, str] = {}
    prefixes = [Path(os.environ.get("PREFIX") or "/usr"), Path("/usr/local")]
    files = [prefix / "etc" / "npmrc" for prefix in prefixes]
    files.append(Path(_environment("userconfig") or Path.home() / ".npmrc"))
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        for line in lines:
            name, equals, value = line.partition("=")
            if equals and not name.lstrip().startswith(("#", ";")):
                found[name.strip()] = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match[1], ""), value.strip())
    for name in ("registry", "cafile"):
        if given := _environment(name):
            found[name] = given
    return found


def _environment(name: str) -> str | None:
    return os.environ.get(f"npm_config_{name}") or os.environ.get(f"NPM_CONFIG_{name.upper()}")


def _asked_of_npm() -> str:
    """The registry that npm has built in, if nothing else is configured."""
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(NO_REGISTRY)
    command = [npm, "config", "get", "registry"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=NPM_SECONDS_MAX)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(NO_REGISTRY) from error
    return done.stdout.strip()
