"""`dibs open`: one server in the background for a board, for its user alone, and a browser that is signed in."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dibs.server.auth.callers import COOKIE
from tests.e2e.conftest import Dibs
from tests.e2e.users import MALLORY, needs_root
from tests.kit.waiting import PATIENCE_SECONDS, until

#: A browser as far as a link goes: it notes its arguments, and what it was answered, for another user before its own.
BROWSER = """
import encodings.idna, http.client, json, os, sys  # nothing may be left to import for another user
from urllib.parse import urlsplit

def fetch(link):
    where = urlsplit(link)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    try:
        connection.request("GET", where.path)
        return connection.getresponse().headers["Location"]
    except (OSError, http.client.HTTPException):
        return "refused"

notes, other, link = sys.argv[1:]
theirs = None
if int(other):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setgroups([]), os.setgid(int(other)), os.setuid(int(other))
        os.write(writing, str(fetch(link)).encode())
        os._exit(0)
    os.close(writing)
    theirs = os.read(reading, 4096).decode()
with open(notes + ".half", "w") as file:
    json.dump({"arguments": sys.argv, "link": fetch(link), "theirs": theirs}, file)
os.rename(notes + ".half", notes)
"""


@pytest.fixture
def shop(dibs: Dibs) -> Iterator[Dibs]:
    """A board whose user has a state folder of their own, and whose server does not outlive the test."""
    found = Dibs(dibs.folder, dibs.environment | {"XDG_STATE_HOME": str(dibs.folder / "state")})
    yield found
    found("open", "--stop")
    for record in _records(found):
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)


def _records(shop: Dibs) -> list[Path]:
    return list((shop.folder / "state" / "dibs" / "background").glob("*.json"))


def _record(shop: Dibs) -> dict[str, Any]:
    (record,) = _records(shop)
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def asked(link: str, host: str = "", **headers: str) -> http.client.HTTPResponse:
    """What the server at the port of this link answers; by default, under the host name of the link."""
    where = urlsplit(link)
    connection = http.client.HTTPConnection("127.0.0.1", where.port or 0, timeout=PATIENCE_SECONDS)
    path = link.partition(where.netloc)[2]
    connection.request("GET", path, headers={"Host": host or where.netloc, **headers})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_all_who_open_a_board_at_once_share_one_server_and_no_other_command_finds_it(shop: Dibs) -> None:
    openers = [shop.start("open", "--print", "--json") for _ in range(3)]
    answers = [json.loads(opener.communicate(timeout=PATIENCE_SECONDS)[0]) for opener in openers]
    assert len({answer["url"] for answer in answers}) == 1
    server = _record(shop)
    assert server["url"].startswith("http://127.0.0.1:")
    signed_in = [asked(answer["login"]) for answer in answers]
    assert [answer.status for answer in signed_in] == [303] * 3
    cookie = signed_in[0].headers["Set-Cookie"].partition(";")[0]
    assert cookie.startswith(COOKIE)
    items = f"{answers[0]['url']}/v1/items"
    assert asked(items, Cookie=cookie).status == 200
    assert asked(items).status == 401, "a key is needed"
    assert asked(answers[0]["login"]).status == 401, "a link is valid once"
    assert asked(f"{server['url']}/", host="evil.example.org").status == 421
    # Nothing tells other commands of it, or gives them a key.
    assert not (shop.folder / ".dibs" / "server-key.json").exists()
    assert not (shop.folder / "state" / "dibs" / "servers").exists()
    assert shop.refused("key", "link")[1]["code"] == "STORE_UNAVAILABLE"
    assert shop("who", environment={"DIBS_STORE": server["url"]}).returncode == 6
    assert shop.json("open", "--stop") == {"stopped": True}
    assert _records(shop) == []
    until(lambda: _has_ended(server["pid"]))
    browsers = [key for key in shop.json("key", "list", "--all")["keys"] if key["id"].startswith("web")]
    assert [key["revoked_at"] is None for key in browsers] == [False] * 3, "a page left open sends its cookie on"
    assert shop.json("open", "--stop") == {"stopped": False}


def test_a_dead_server_is_replaced_and_a_board_made_anew_has_its_own(shop: Dibs) -> None:
    shop.ok("open", "--print")
    dead = _record(shop)
    _kill(dead["pid"])
    link = shop.ok("open", "--print").strip()
    former = _record(shop)
    assert former["pid"] != dead["pid"]
    assert asked(link).status == 303
    (shop.folder / ".dibs").rename(shop.folder / "former")
    shop.ok("init")
    link = shop.ok("open", "--print").strip()
    assert asked(link).status == 303, "the link is one of the new board, and so is its server"
    until(lambda: _has_ended(former["pid"]))
    until(lambda: len(_records(shop)) == 1)


def test_the_browsers_of_a_killed_server_are_signed_out_by_the_next_one_or_by_stop(shop: Dibs) -> None:
    def kill_with_a_browser() -> str:
        signed_in = asked(shop.ok("open", "--print").strip())
        assert signed_in.status == 303
        _kill(_record(shop)["pid"])
        return str(signed_in.headers["Set-Cookie"].partition(";")[0])

    def browser_keys() -> list[bool]:
        keys = shop.json("key", "list", "--all")["keys"]
        return [key["revoked_at"] is None for key in keys if key["id"].startswith("web")]

    cookie = kill_with_a_browser()
    assert browser_keys() == [True]
    link = shop.ok("open", "--print").strip()
    assert asked(f"{link.partition('/login')[0]}/v1/me", Cookie=cookie).status == 401
    assert browser_keys() == [False]
    kill_with_a_browser()
    shop.ok("open", "--stop")
    assert browser_keys() == [False, False]


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: _has_ended(pid))


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_server_that_nobody_uses_ends_by_itself_although_a_program_without_a_key_asks_on(shop: Dibs) -> None:
    start = "import sys; from dibs.server import background; print(background.ensure(sys.argv[1], '', 0.5).url)"
    board = str(shop.folder / ".dibs" / "board.db")
    started = subprocess.run(
        [sys.executable, "-c", start, board], env=shop.environment, capture_output=True, text=True, check=True
    )
    url = started.stdout.strip()

    def is_refused() -> bool:
        try:
            return {asked(url + path).status for path in ("/", "/livez")} != {200}
        except ConnectionError:
            return True

    until(is_refused)
    until(lambda: _records(shop) == [])


def _opened(shop: Dibs, other: int = 0) -> tuple[str, dict[str, Any]]:
    """What `dibs open` says, and what the browser notes."""
    script, notes = shop.folder / "browser.py", shop.folder / "notes"
    script.write_text(BROWSER)
    command = f"{sys.executable} {script} {notes} {other} %s"
    said = shop.ok("open", environment={"BROWSER": command})
    return said, json.loads(until(lambda: notes.exists() and notes.read_text()))


@needs_root
def test_the_browser_of_another_user_is_not_told_the_link(shop: Dibs) -> None:
    _, noted = _opened(shop, MALLORY)
    assert noted["theirs"] == "refused"
    assert asked(noted["link"]).status == 303


def test_the_browser_is_told_the_link_and_without_one_it_is_printed(shop: Dibs) -> None:
    said, noted = _opened(shop)
    assert said.startswith("opened http://")
    assert "10 minutes" in said
    assert said.count("\n") == 1
    assert "code=" not in " ".join([said, *noted["arguments"]]), "other users can read the arguments of a process"
    assert asked(noted["link"]).status == 303
    for environment in ({}, {"BROWSER": "false"}):
        done = shop("open", environment=environment)
        assert (done.returncode, done.stderr.count("\n")) == (0, 1)
        assert "10 minutes" in done.stderr
        assert asked(done.stdout.strip()).status == 303


def test_what_cannot_be_opened_is_refused_and_starts_nothing(shop: Dibs) -> None:
    assert "dibs init" in shop.refused("open", folder=Path("/"))[1]["message"]
    assert shop.refused("open", "--stop", "--store", "http://127.0.0.1:1")[1]["code"] == "INVALID"
    assert shop.refused("open", "--print", "--store", str(shop.folder / "none.db"))[0] != 0
    assert _records(shop) == []
