"""What stands between a clone and its hub, and fails: git runs it in the place of its receive-pack or upload-pack.

    python cutting.py receive-pack|upload-pack FAULTS HUB

Each time one of these happens, in FAULTS of a hundred: nothing gets through; the connection is cut in the middle of
what is sent, and the hub's side is killed; or all of it arrives and is done, and the answer is lost.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys

from tests.kit.waiting import PATIENCE_SECONDS

PIECE = 4096


def main(program: str, faults: int, hub: str) -> int:
    fault = random.choice(("away", "cut", "lost")) if random.randrange(100) < faults else "none"
    if fault == "away":
        return 1
    server = subprocess.Popen(["git", program, hub], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    told = asked = 0
    watched = [0, server.stdout.fileno()]
    while watched:
        ready = select.select(watched, [], [], PATIENCE_SECONDS)[0]
        if not ready:
            break
        if 0 in ready:
            data = os.read(0, PIECE)
            if fault == "cut" and asked + len(data) > 100:
                os.write(server.stdin.fileno(), data[:50])
                server.send_signal(signal.SIGKILL)
                server.wait()
                return 1
            asked += len(data)
            if not data:
                watched.remove(0)
                server.stdin.close()
            else:
                server.stdin.write(data)
                server.stdin.flush()
        if server.stdout.fileno() in ready:
            data = os.read(server.stdout.fileno(), PIECE)
            if not data:
                break
            if fault == "lost" and asked > 100:
                if program == "upload-pack":
                    # There is more to be said before it is done, and both would wait for the other.
                    server.send_signal(signal.SIGKILL)
                    server.wait()
                    return 1
                continue
            told += len(data)
            os.write(1, data)
    code = server.wait()
    return 1 if fault == "lost" else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
