"""`dibs serve` as a process: it needs no set-up, tells no secrets, stops gracefully, and complains in one line."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from operator import attrgetter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dibs.board import connect, make
from dibs.cli.server import access_lines, keep_key, prepare_access, streams_line
from dibs.config import ENV_INSECURE_HTTP, SERVER_DEFAULTS, ServerSettings
from dibs.model import ADMIN, AGENT, LOGIN, VIEWER
from dibs.server.ops.address import listen
from dibs.server.ops.connection import HEAD_BYTES_MAX
from dibs.server.ops.open_files import FileLimit
from dibs.system import keyring
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.server.process import Background, Serving, serving
from tests.server.test_streams import room_for


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "dibs.toml").write_text("[server]\nsubscribers_max = 1\n")
    with serving(folder) as found:
        yield found


def test_the_command_line_of_the_same_user_needs_no_set_up(shop: Serving) -> None:
    added = shop.dibs("add", "Fix login", "--id", "fix-login", "--json")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["item"]["created_by"] == "alice"
    assert shop.dibs("who").returncode == 0
    key_file = Path(shop.told["key_file"])
    assert key_file == shop.folder / ".dibs" / "server-key.json"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    stranger = shop.dibs("who", HOME="/nowhere", XDG_STATE_HOME="/nowhere")
    assert (stranger.returncode, "key" in stranger.stderr) == (6, True), stranger.stderr


def test_the_browser_is_signed_in_by_the_link_it_prints(shop: Serving) -> None:
    pages = shop.told["pages"]
    assert urlsplit(pages).port == urlsplit(shop.url).port

    def opened(link: str) -> int:
        assert link.startswith(f"{pages}/login?code=dibs_"), link
        return shop.admin()("GET", link.removeprefix(pages), headers={"Host": urlsplit(pages).netloc}).status

    assert opened(shop.told["login"]) == 303
    assert opened(shop.told["login"]) == 401
    assert opened(shop.dibs("key", "link").stdout.strip()) == 303
    assert opened(shop.dibs("key", "link", "--store", shop.told["store"]).stdout.strip()) == 303
    told = json.loads(shop.dibs("open", "--print", "--json").stdout)
    assert (opened(told["login"]), told["background"]) == (303, False)


def test_keys_are_made_listed_and_revoked_over_http(shop: Serving) -> None:
    made = json.loads(
        shop.dibs("key", "create", "--role", "agent", "--agent", "coder", "--expires", "30d", "--json").stdout
    )
    key = made["key"]
    assert {"id", "secret", "role"} <= key.keys()
    assert key["role"] == AGENT
    own = {"DIBS_KEY": key["secret"], "DIBS_SESSION": "coder-1", "DIBS_AGENT": "coder"}
    assert shop.dibs("add", "x", "--id", "x", **own).returncode == 0
    assert shop.dibs("claim", "x", **own).returncode == 0
    assert shop.dibs("cancel", "x", **own).returncode == 6, "for admins"
    listed = shop.dibs("key", "list", "--json").stdout
    assert key["id"] in listed
    assert key["secret"] not in listed
    assert shop.dibs("key", "list", **own).returncode == 6
    assert shop.dibs("key", "revoke", key["id"]).returncode == 0
    assert shop.dibs("heartbeat", **own).returncode == 6
    assert key["id"] not in shop.dibs("key", "list").stdout
    assert key["id"] in shop.dibs("key", "list", "--all").stdout


def test_a_head_that_does_not_end_is_refused(shop: Serving) -> None:
    caller, start = shop.admin(), b"GET /livez HTTP/1.1\r\n"
    for endless in (
        b"X: " + b"a" * HEAD_BYTES_MAX,
        b"X: a\r\n" * (HEAD_BYTES_MAX // 4),
        b"GET /" + b"a" * HEAD_BYTES_MAX,
    ):
        data = endless if endless.startswith(b"GET") else start + endless
        answer = caller.bytes(data + b"\r\n" * 2)
        assert answer.startswith(b"HTTP/1.1 400"), answer[:100]
        assert b"application/problem+json" in answer
    assert caller.bytes(b"\x16\x03\x01\x00nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert caller.ok("GET", "/livez") == {"live": True}


def test_the_log_has_one_line_a_request_and_no_secrets(tmp_path: Path) -> None:
    with serving(tmp_path) as shop:
        caller, code = shop.admin(), shop.told["login"].rpartition("=")[2]
        caller("GET", f"/login?code={code}")
        caller("GET", f"/{code}")
        caller("GET", f"/v1/items/{caller.key}")
        caller("GET", "/v1/items/a%0a2026-01-01%20forged")
        made = caller.ok("POST", "/v1/keys", {"role": "agent", "agent": "coder"})
        caller.bytes(b"nonsense\r\n\r\n")
        assert shop.stop(signal.SIGINT) == 0
        log = shop.log()
    for secret in (caller.key or "", code, made["secret"]):
        assert secret.split("_", 2)[2] not in log
    lines = log.splitlines()
    requests = [line for line in lines if re.search(r" (GET|POST) ", line)]
    assert len(requests) == 5, lines
    form = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (GET|POST) /\S* \d{3} [\d.]+ms 127\.0\.0\.1 ([0-9a-f]{10}|-)")
    assert all(form.fullmatch(line) for line in requests), requests
    (other,) = [line for line in lines if line not in requests]
    assert re.fullmatch(r"\S+Z warning Invalid HTTP request received\.", other)


def test_no_more_listen_than_it_was_told(shop: Serving) -> None:
    caller = shop.admin()
    first = http.client.HTTPConnection(caller.host, caller.port, timeout=PATIENCE_SECONDS)
    first.request("GET", "/api/events", headers={"Authorization": f"Bearer {caller.key}"})
    assert first.getresponse().readline().startswith(b"retry:")
    answer = caller("GET", "/api/events")
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "STORE_UNAVAILABLE", "5")
    assert answer.headers["Server"] is None, "what it is made of is nobody's business"
    first.close()


def test_it_raises_its_limit_of_open_files_and_says_how_many_streams_that_allows(tmp_path: Path) -> None:
    with serving(tmp_path, files=(64, 256)) as shop:
        assert shop.told["streams"] == 128
        limits = Path(f"/proc/{shop.process.pid}/limits")
        if not limits.exists():
            pytest.skip("this system does not tell the limits of a process")
        (line,) = [line for line in limits.read_text().splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["256", "256"]


def test_what_it_says_of_live_events() -> None:
    settings = SERVER_DEFAULTS
    assert streams_line(2000, FileLimit(files=20_000), settings) == "  live events:   2000 streams at once"
    assert streams_line(512, FileLimit(files=1024), settings.replace(workers=3)) == (
        "  live events:   512 streams at once in each of 3 processes, limited by 1024 open files (ulimit -Hn)"
    )


def test_more_connections_than_it_has_files_are_refused(tmp_path: Path) -> None:
    room = FileLimit(files=256)
    streams = room.streams_max(SERVER_DEFAULTS.subscribers_max)
    room_for(2 * room.files + 100)
    (tmp_path / "dibs.toml").write_text(f"[server]\nsubscribers_per_key = {SERVER_DEFAULTS.subscribers_max}\n")
    with serving(tmp_path, files=(room.files, room.files)) as shop, ExitStack() as stack:
        caller = shop.admin()

        def connected() -> http.client.HTTPConnection:
            made = http.client.HTTPConnection(caller.host, caller.port, timeout=PATIENCE_SECONDS)
            stack.callback(made.close)
            return made

        def asked(path: str, by: http.client.HTTPConnection, key: str | None = caller.key) -> http.client.HTTPResponse:
            by.request("GET", path, headers={} if key is None else {"Authorization": f"Bearer {key}"})
            answer = by.getresponse()
            stack.callback(answer.close)
            return answer

        def refused(answer: http.client.HTTPResponse) -> tuple[int, str]:
            return answer.status, json.loads(answer.read())["detail"]

        listening = [asked("/api/events", connected()) for _ in range(streams)]
        assert {one.status for one in listening} == {200}
        full = f"the server already has {streams} listening requests"
        assert refused(asked("/api/events", connected())) == (503, full)
        with connect(shop.told["store"]) as board:
            neighbour = board.create_key(VIEWER)[1]
        others = [connected() for _ in range(room.connections_max - streams)]
        for one in others:
            one.connect()
        share = room.connections_max // 2
        full = f"the server has too many connections, and this key more than its {share}"
        assert refused(asked("/livez", others[-1], None)) == (503, "the server has too many connections")
        assert refused(asked("/v1/me", connected())) == (503, full)
        assert asked("/v1/me", connected(), neighbour).status == 200, "a key with less than its share"
        for _ in range(room.files):
            with suppress(ConnectionResetError):  # cut off
                connected().connect()
        assert asked("/v1/me", connected(), neighbour).status == 200, "those who say nothing make room"
        with connect(shop.told["store"]) as board:
            board.add("heard of", id="x")
        assert any(line == b"event: added\n" for line in iter(listening[0].readline, b""))
        stack.close()
        until(lambda: caller("GET", "/v1/me").status != 503, "it notices that they are gone")
        log = shop.log()
    assert "Too many open files" not in log
    assert log.count("are in use; more are refused or wait") == 1, "a line for a change, not for a connection"


def test_a_stop_answers_what_is_going_on_and_sends_home_who_waits(tmp_path: Path) -> None:
    with serving(tmp_path, "--quiet") as shop:
        caller = shop.admin()
        for session in ("s", "t", "holder"):
            caller.ok("POST", "/v1/sessions", {"agent": "coder", "id": session})
        caller.ok("POST", "/v1/items", {"title": "held", "id": "held"})
        caller.ok("POST", "/v1/items/held/claim", {"session": "holder"})
        stream = http.client.HTTPConnection(caller.host, caller.port, timeout=PATIENCE_SECONDS)
        stream.request("GET", "/api/events", headers={"Authorization": f"Bearer {caller.key}"})
        events = stream.getresponse()
        assert events.readline().startswith(b"retry:")
        waiting = Background(lambda: caller("POST", "/v1/items/held/claim?wait=60", {"session": "s"}))
        # A body that is not all there when the stop comes.
        begun = socket.create_connection((caller.host, caller.port), PATIENCE_SECONDS)
        begun.sendall(
            f"POST /v1/items HTTP/1.1\r\nHost: {caller.host}:{caller.port}\r\nAuthorization: Bearer {caller.key}\r\n"
            'Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{"title":'.encode()
        )
        after = 0
        while not caller.ok("GET", "/v1/items/held")["waiters"]:
            after = caller.ok("GET", f"/v1/watch?after={after}&wait=5")["event"]
        shop.process.send_signal(signal.SIGTERM)
        answer = waiting.result()
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "STORE_UNAVAILABLE", "1")
        begun.sendall(b' "abc"}')
        assert begun.recv(65536).startswith(b"HTTP/1.1 200")
        rest = events.read()
        assert b"event: stopping\nretry: " in rest
        assert shop.process.wait(PATIENCE_SECONDS) == 0
        begun.close()
        stream.close()
        assert shop.log() == ""
        with connect(shop.told["store"]) as board:
            assert "abc" in [item.title for item in board.list()], "what was answered is there"


def test_a_key_that_is_left_is_used_again_while_it_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DIBS_KEY", raising=False)
    here, there = "http://127.0.0.1:8377", "http://127.0.0.1:8378"
    with connect(str(tmp_path / "board.db"), create=True) as board:
        for folder in (str(tmp_path), None):
            path = keep_key(board, here, folder)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            first = keyring.find(here)
            assert first is not None
            keep_key(board, here, folder)
            assert keyring.find(here) == keyring.find("http://localhost:8377/") == first
            assert keyring.find(there) is None, "it is sent nowhere else"
            for mode in (0o640, 0o604, 0o620):
                os.chmod(path, mode)
                assert keyring.find(here) is None, "others may have read it, or written it"
            os.chmod(path, 0o600)
            board.revoke_key(first.split("_")[1])
            keep_key(board, here, folder)
            assert keyring.find(here) not in (None, first)


def test_a_link_is_made_only_for_somebody_who_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url, here, role = str(tmp_path / "board.db"), "http://127.0.0.1:8377", attrgetter("role")
    with connect(url, create=True) as board:
        unseen = prepare_access(board, url, ServerSettings(), here, with_link=False)
        assert "code=" not in "".join(access_lines(unseen))
        assert sorted(map(role, board.keys())) == [ADMIN]
        seen = prepare_access(board, url, ServerSettings(), here, with_link=True)
        assert f"{keyring.pages(here)}/login?code=dibs_" in "".join(access_lines(seen))
        beyond = prepare_access(board, url, ServerSettings(host="192.0.2.1"), "http://192.0.2.1:8377", with_link=True)
        assert (beyond["key_file"], beyond["login"]) == (None, None)
        assert "dibs key create" in "".join(access_lines(beyond))
        assert f"export DIBS_STORE=http://192.0.2.1:8377 {ENV_INSECURE_HTTP}=1" in access_lines(beyond)[0]
        assert sorted(map(role, board.keys())) == [ADMIN, LOGIN]


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    taken = listen(ServerSettings(port=0))
    port = taken.getsockname()[1]
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LOGNAME": "alice"}

    def typed(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "dibs.cli.main", "serve", *words],
            cwd=tmp_path,
            env=own,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr

    try:
        assert "dibs init" in typed()[1]
        connect(str(tmp_path / ".dibs" / "board.db"), create=True).close()
        assert typed("--port", str(port)) == (1, f"dibs: cannot listen on 127.0.0.1:{port}: Address already in use\n")
        assert "--insecure" in typed("--host", "0.0.0.0")[1]
        assert "PostgreSQL" in typed("--workers", "2")[1]
        assert "certificate" in typed("--tls-cert", "no.pem", "--tls-key", "no.pem")[1]
        assert "together" in typed("--tls-cert", "no.pem")[1]
        assert "server already" in typed("--store", "http://127.0.0.1:1")[1]
        (tmp_path / "dibs.toml").write_text("[board]\nlock_wait_seconds = 0.1\n")
        assert typed("--store", "postgresql://127.0.0.1:1/none")[0] == 75
        (tmp_path / "dibs.toml").write_text('[server]\nport = "x"\n')
        assert "port must be a whole number" in typed()[1]
    finally:
        taken.close()


def test_what_a_server_says_when_it_has_started_is_json_in_a_journal(tmp_path: Path) -> None:
    make(str(tmp_path / "board.db"))
    command = [sys.executable, "-m", "dibs.cli.main", "serve", "--port", "0", "--log-json", "--store", "board.db"]
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LOGNAME": "alice"}
    with subprocess.Popen(command, cwd=tmp_path, env=home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["level"], told["serving"]["login"]) == ("info", None)
        assert told["message"].startswith("serving ")
        process.terminate()
        assert process.stdout.read() == ""
