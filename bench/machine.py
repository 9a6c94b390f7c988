"""What a run was made on, and how durable each store was in it: without that, no figure says anything."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata

import apsw

from bench import servers
from dibs.config import DEFAULTS
from dibs.store.sqlite.database import open_database
from dibs.store.sqlite.lock import FairLock

#: PostgreSQL's settings that durability and speed depend on.
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")
SYNCHRONOUS = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}
PACKAGES = ("psycopg", "uvicorn", "fastapi", "starlette", "pgqueuer", "procrastinate", "huey", "litequeue")


def facts() -> dict[str, str]:
    busy = f"{os.getloadavg()[0]:.1f} runnable processes in the last minute"
    return {
        "machine": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}",
        "load before the run": busy,
        "Python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "SQLite": f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()}), {_sqlite_settings()}",
        "PostgreSQL": _postgres() if servers.is_there() else servers.MISSING,
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _sqlite_settings() -> str:
    """Read from a board's own connection."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "board.db")
        lock = FairLock(path, DEFAULTS.lock_wait_seconds)
        connection = open_database(path, DEFAULTS, lock, create=True)
        ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
        ((level,),) = connection.execute("PRAGMA synchronous").fetchall()
        connection.close()
        lock.forget()
    return f"journal_mode {mode}, synchronous {SYNCHRONOUS[str(level)]}"


def _postgres() -> str:
    with servers.durable_server() as server, server.connect() as connection:
        ((version,),) = connection.execute("SHOW server_version").fetchall()
        told = [f"{name} {connection.execute(f'SHOW {name}'.encode()).fetchall()[0][0]}" for name in SETTINGS]
    return f"{version}, {', '.join(told)}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(not installed)"
