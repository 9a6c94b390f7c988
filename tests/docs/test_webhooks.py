"""docs/guides/webhooks.md: its receiver runs, verifies what dibs sends, and refuses what dibs has not sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from socket import create_server
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from dibs.board import connect
from dibs.cli.commands import COMMANDS
from dibs.webhooks.deliverer import Deliverer
from tests.docs.markdown import blocks, read
from tests.kit.waiting import PATIENCE_SECONDS

GUIDE = read("docs/guides/webhooks.md")


def test_the_receiver_of_the_guide_verifies(tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with connect(str(tmp_path / "board.db"), create=True, folder=str(tmp_path)) as board:
        secret = board.add_webhook(url, kinds=["claimable"], allow_private=True).secret
        board.add("Fix the login")
        (script,) = blocks(GUIDE, "python")
        changed = script.replace("whsec_...", secret).replace("9000", str(port))
        assert changed.count(secret) == changed.count(str(port)) == 1
        announced = changed.replace("    HTTPServer((", "    server = HTTPServer((").replace(
            ".serve_forever()", "\n    print('listening', flush=True)\n    server.serve_forever()"
        )
        command = [sys.executable, "-c", announced]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as receiver:
            try:
                assert receiver.stdout is not None
                assert receiver.stdout.readline() == "listening\n"
                assert Deliverer(board).run_once()
                assert receiver.stdout.readline() == "claimable Fix the login\n"
                forged = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
                with pytest.raises(HTTPError, match="401"):
                    urlopen(Request(url, b"{}", forged), timeout=PATIENCE_SECONDS)
            finally:
                receiver.kill()


def test_every_command_about_webhooks_is_in_the_guide() -> None:
    for name in COMMANDS:
        if name.startswith("webhook ") or name == "deliver":
            assert name.removeprefix("webhook ") in GUIDE, name
