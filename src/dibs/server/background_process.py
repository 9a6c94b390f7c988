"""The process of a background server: `python -m dibs.server.background_process LOCK RECORD IDLE_SECONDS`.

LOCK is the descriptor of the locked record, at the path RECORD; the board is that of `DIBS_STORE`. The server listens
on loopback, at a port that the system chooses, and nothing but the record tells of it.
"""

from __future__ import annotations

import os
import sys

from dibs import config, location
from dibs.board import open_board
from dibs.config import ServerSettings
from dibs.errors import DibsError
from dibs.server import background
from dibs.server.ops import address, run
from dibs.system import keyring


def main(lock: int, path: str, idle_seconds: float) -> int:
    # Programs that a store runs, such as git, must not hold the lock.
    os.set_inheritable(lock, False)
    try:
        serve(os.environ[config.ENV_STORE], lock, idle_seconds)
    except DibsError as error:
        print(error.message, file=sys.stderr)
        return 1
    finally:
        background.remove(lock, path)
    return 0


def serve(url: str, lock: int, idle_seconds: float) -> None:
    settings = ServerSettings(port=0)
    listener = address.listen(settings)
    port = listener.getsockname()[1]
    pages = f"http://{keyring.new_pages_name()}:{port}"
    settings = settings.replace(names=(pages,))
    running = background.Running(url=address.url_of(settings, port), pages=pages, pid=os.getpid())

    def announce() -> None:
        background.publish(lock, running)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nothing, stream)

    with address.ipv6_loopback_reserved(settings, port):
        board, file = open_board(location.look(".", url)), background.board_file(url)

        def is_gone() -> bool:
            try:
                return background.board_file(url) != file
            except OSError:
                return True

        use = run.Background(idle_seconds=idle_seconds, browser_mark=background.browser_mark(), is_gone=is_gone)
        server = run.make_server(board, settings, listener, None, announce, use)
        server.run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
