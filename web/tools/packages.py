"""The npm packages of `pins.json`: fetched by version, checked by digest, unpacked once. No script of theirs is run."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from web.tools import cache
from web.tools.npm_registry import Registry, Unavailable

PINS = Path(__file__).parent.parent / "pins.json"
MACHINES = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Pin(NamedTuple):
    name: str
    version: str
    sha512: str


def pins(group: str) -> dict[str, Pin]:
    found = json.loads(PINS.read_text(encoding="utf-8"))[group]
    return {name: Pin(name, **pin) for name, pin in found.items()}


def node_modules(wanted: list[Pin]) -> Path:
    """A folder with these packages, in the layout of npm."""
    digest = hashlib.sha256(json.dumps(sorted(wanted)).encode()).hexdigest()[:16]
    folder = cache.user_cache("dibs-web") / digest

    def fill() -> None:
        registry = Registry()
        for pin in wanted:
            _unpack(_checked(pin, registry.tarball(pin.name, pin.version)), folder / "node_modules" / pin.name)

    return cache.filled(folder, fill) / "node_modules"


def one_file(pin: Pin, path: str) -> Path:
    """One file of a package that is too large to be kept as a whole."""
    folder = cache.user_cache("dibs-web") / hashlib.sha256(json.dumps([pin, path]).encode()).hexdigest()[:16]
    target = folder / "node_modules" / pin.name

    def fill() -> None:
        _unpack(_checked(pin, Registry().tarball(pin.name, pin.version)), target, only=path)

    cache.filled(folder, fill)
    return target / path


def this_platform() -> str:
    """The platform as names of npm packages have it, such as `linux-x64`."""
    return f"{sys.platform}-{MACHINES.get(platform.machine(), platform.machine())}"


def compiler(pinned: dict[str, Pin], prefix: str) -> Pin:
    name = f"{prefix}{this_platform()}"
    if name not in pinned:
        raise Unavailable(f"{name} is not among the pins: there are compilers for Linux and macOS on x64 and arm64")
    return pinned[name]


def _checked(pin: Pin, tarball: bytes) -> bytes:
    if base64.b64encode(hashlib.sha512(tarball).digest()).decode() != pin.sha512:
        raise Unavailable(f"{pin.name}@{pin.version} is not the package that was pinned: its digest differs")
    return tarball


def _unpack(tarball: bytes, target: Path, only: str | None = None) -> None:
    """The first folder of a path is the package itself, whatever its name. `only`: one file of it."""
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts[1:]
            data = archive.extractfile(member) if member.isfile() else None
            if data is None or not parts or ".." in parts or only not in (None, "/".join(parts)):
                continue
            path = target.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.read())
            os.chmod(path, 0o755 if member.mode & 0o111 else 0o644)
