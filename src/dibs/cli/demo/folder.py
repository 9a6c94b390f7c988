"""The temporary folder of a demo, made and removed by a process that outlives it: `python -m dibs.cli.demo.folder`.

It prints the path of the folder, and removes the folder when its stdin is closed: also after `kill -9` of the demo.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from dibs.system import durable

#: What a server leaves for its user, innermost first.
INNER = ("dibs/servers", "dibs")
#: How long the other processes of a killed demo may still write into the folder.
REMOVE_SECONDS = 15.0
LOOK_SECONDS = 0.05


class DemoFolder:
    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C, and a signal to the demo's process group, do not reach it.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        path = self._process.stdout.readline().rstrip("\n")
        if not path:
            self._process.communicate()
            raise OSError("a temporary folder cannot be made")
        return path

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = durable.TemporaryFolder("dibs-demo-", inner=INNER)
    try:
        print(folder.path, flush=True)
        sys.stdin.read()
    finally:
        end = time.monotonic() + REMOVE_SECONDS
        while True:
            folder.remove()
            if not os.path.lexists(folder.path) or time.monotonic() >= end:
                break
            time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
