"""The security checklist of a service on localhost, each point as an attack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from typing import Any

import pytest

from dibs import api_keys
from dibs.config import ServerSettings
from dibs.errors import Invalid
from dibs.model import AGENT, LOGIN, VIEWER
from dibs.server.api.board_routes import ARCHIVE_PATHS, IMPORT, RESTORE
from dibs.server.auth import callers
from dibs.server.auth.callers import CACHE_SECONDS, COOKIE
from dibs.server.auth.guard import BODY_BYTES_MAX
from dibs.server.ops.address import hosts_and_origins, listen, secure_hosts, url_of
from tests.kit.http import Host
from tests.server.attacking import Answer, Caller, Served, served

ROUTES = (
    "/",
    "/v1/items",
    "/v1/who",
    "/api/events",
    "/health",
    "/livez",
    "/readyz",
    "/openapi.json",
    "/nowhere",
    "/login",
)


@pytest.fixture(scope="module")
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(http_host, tmp_path_factory.mktemp("security")) as found:
        yield found


def login_code(shop: Served, seconds: float | None = None) -> str:
    return shop.board.create_key(LOGIN, agent="ann", seconds=seconds)[1]


def signed_in(shop: Served) -> str:
    """The cookie of a browser."""
    answer = shop.nobody("GET", f"/login?code={login_code(shop)}")
    assert answer.status == 303
    (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert cookie.key.startswith(COOKIE)
    return f"{cookie.key}={cookie.value}"


# 1. Host


@pytest.mark.parametrize("path", ROUTES)
def test_a_name_that_is_not_ours_is_refused_before_anything_else(shop: Served, path: str) -> None:
    port = shop.admin.port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        "",
        f"localhost.:{port}",
    ):
        for method in ("GET", "POST", "DELETE"):
            answer = shop.admin(method, path, headers={"Host": host})
            assert (answer.status, answer.code) == (421, "WRONG_HOST"), (host, method)


def test_a_request_has_one_host(shop: Served) -> None:
    head = b"GET /livez HTTP/1.1\r\nConnection: close\r\n"
    own = f"Host: 127.0.0.1:{shop.admin.port}\r\n".encode()
    assert shop.nobody.bytes(head + own + b"\r\n").startswith(b"HTTP/1.1 200")
    assert not shop.nobody.bytes(head + b"\r\n").startswith(b"HTTP/1.1 200")
    for two in (b"Host: evil.example\r\n" + own, own + b"Host: evil.example\r\n", own + own):
        assert not shop.nobody.bytes(head + two + b"\r\n").startswith(b"HTTP/1.1 200"), two


def test_a_target_in_absolute_form_names_the_same_host(shop: Served) -> None:
    own = f"127.0.0.1:{shop.admin.port}"
    for target, host, status in (
        ("evil.example", "evil.example", 421),
        ("evil.example", own, 421),
        (own, "evil.example", 421),
        (f"user@{own}", own, 421),
        (own, own, 200),
    ):
        for path in ("/livez", "/livez?x=//y"):
            head = f"GET http://{target}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            answer = shop.nobody.bytes(head.encode())
            assert answer.startswith(f"HTTP/1.1 {status}".encode()), (target, host, path, answer)


def test_a_request_has_one_authorization(shop: Served) -> None:
    mine, other = f"Authorization: Bearer {shop.admin.key}\r\n", "Authorization: Bearer dibs_nobody_nothing\r\n"
    for headers, status in ((mine, 200), (mine + other, 401), (other + mine, 401), (mine + mine, 401)):
        for method, path in (("GET", "/v1/me"), ("POST", "/v1/sweep")):
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{shop.admin.port}\r\nConnection: close\r\n{headers}\r\n"
            )
            answer = shop.nobody.bytes(head.encode())
            assert answer.startswith(f"HTTP/1.1 {status}".encode()), (headers, answer)


def test_what_is_not_http_does_not_take_the_answer_of_the_request_before_it(shop: Served) -> None:
    """The verb took effect: 400 in its place would say that it did not."""
    for number, (key, status) in enumerate(((shop.admin.key, b"200"), ("dibs_nobody_nothing", b"401"))):
        shop.board.add("t", id=f"garbage-{number}")
        for path, body in ((f"/v1/items/garbage-{number}/park", "{}"), ("/v1/heartbeat", '{"session": "x"}')):
            head = (
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{shop.admin.port}\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
            answer = shop.nobody.bytes(head + b"\0garbage\r\n\r\n")
            expected = status if status == b"401" or path.endswith("park") else b"404"
            assert answer.startswith(b"HTTP/1.1 " + expected), (path, answer)
            assert answer.count(b"HTTP/1.1") == 1
    assert shop.board.get("garbage-0").item.status == "parked"
    assert shop.nobody.bytes(b"\0garbage\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_our_own_names_are_known(shop: Served) -> None:
    for name in ("127.0.0.1", "localhost", "LocalHost", "[::1]"):
        assert shop.nobody("GET", "/livez", headers={"Host": f"{name}:{shop.admin.port}"}).status == 200


# 2. Cookies, origins, content types


def test_a_page_of_another_origin_changes_nothing(shop: Served) -> None:
    cookie = signed_in(shop)
    own = f"http://127.0.0.1:{shop.admin.port}"
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", own + ".evil.example", f"https{own[4:]}", ""):
        for headers in ({"Cookie": cookie}, {"Authorization": f"Bearer {shop.admin.key}"}):
            answer = shop.nobody("POST", "/v1/items", {"title": "t"}, headers={**headers, "Origin": origin})
            assert (answer.status, answer.code) == (403, "FORBIDDEN"), (origin, answer.body)
    assert shop.nobody("POST", "/v1/items", {"title": "t"}, headers={"Cookie": cookie, "Origin": own}).status == 200


def test_a_change_by_cookie_alone_says_where_it_comes_from(shop: Served) -> None:
    cookie = signed_in(shop)
    assert shop.nobody("POST", "/v1/items", {"title": "t"}, headers={"Cookie": cookie}).status == 403
    assert shop.nobody("GET", "/v1/items", headers={"Cookie": cookie}).status == 200
    assert shop.admin("POST", "/v1/items", {"title": "t"}, headers={"Cookie": cookie}).status == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "nonsense"])
def test_next_to_an_authorization_header_no_cookie_counts(shop: Served, header: str) -> None:
    """The guard asks for an Origin only where a cookie is all there is."""
    cookie = signed_in(shop)
    for method, path in (("POST", "/v1/sweep"), ("GET", "/v1/who")):
        answer = shop.nobody(method, path, headers={"Cookie": cookie, "Authorization": header})
        assert (answer.status, answer.code) == (401, "UNAUTHENTICATED"), (method, answer.body)


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/x-ndjson", "", "json"],
)
def test_a_body_is_json_and_says_so(shop: Served, kind: str) -> None:
    for path in ("/v1/items", "/v1/keys", "/v1/items/x/claim", "/logout", "/nowhere"):
        answer = shop.admin("POST", path, raw=b'{"title": "t"}', headers={"Content-Type": kind})
        assert (answer.status, answer.code) == (415, "NOT_JSON"), path
    if kind != "application/x-ndjson":
        for path in ("/v1/import", "/v1/restore"):
            answer = shop.admin("POST", path, raw=b"[]", headers={"Content-Type": kind})
            assert (answer.status, answer.code) == (415, "NOT_A_BOARD"), path


def test_nothing_is_allowed_to_other_origins(shop: Served) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/v1/items"), ("GET", "/v1/items"), ("GET", "/livez"), ("OPTIONS", "/api/events")):
        answer = shop.admin(method, path, headers=asked)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_every_answer_is_kept_out_of_caches_frames_and_guesses(shop: Served) -> None:
    for path in ROUTES:
        headers = shop.admin("GET", path).headers
        # The page of the dashboard has nothing of the board, and browsers may keep it.
        assert headers["Cache-Control"] == "no-store" or path == "/", path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


# 3. Where it listens


def test_beyond_this_machine_only_with_tls_or_said_aloud() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "board.example.org"):
        with pytest.raises(Invalid, match="--insecure"):
            listen(ServerSettings(host=host, port=0))
    with pytest.raises(Invalid, match="--name"):
        listen(ServerSettings(host="0.0.0.0", port=0, insecure=True))
    with pytest.raises(Invalid, match="certificate"):
        listen(ServerSettings(port=0, tls_cert="/nowhere/cert.pem", tls_key="/nowhere/key.pem"))
    listen(ServerSettings(host="0.0.0.0", port=0, insecure=True, names=("board.example.org",))).close()


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "*.example.org",
        "board.example.org/dibs",
        "ftp://board.example.org",
        "https://",
        "board.example.org:port",
        "board.example.org:99999",
        "me@board.example.org",
        "[::1",
        "bücher.example",
        "a\n",
    ],
)
def test_a_name_that_no_caller_could_use_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="not a host name") as caught:
        listen(ServerSettings(port=0, names=(name,)))
    assert caught.value.facts["field"] == "names"


@pytest.mark.parametrize(
    "name", ["Board.example.org", "board:8443", "https://board.example.org/", "::1", "[::1]:80", "10.0.0.1"]
)
def test_a_name_that_callers_use_is_taken(name: str) -> None:
    listen(ServerSettings(port=0, names=(name,))).close()


def test_a_port_in_use_is_told_in_one_line(shop: Served) -> None:
    with pytest.raises(Invalid) as caught:
        listen(ServerSettings(port=shop.admin.port))
    assert caught.value.message == f"cannot listen on 127.0.0.1:{shop.admin.port}: Address already in use"


def test_the_names_that_are_given_are_its_own_and_no_others() -> None:
    hosts, origins = hosts_and_origins(ServerSettings(), 8377)
    assert hosts == ["127.0.0.1:8377", "[::1]:8377", "localhost:8377"]
    assert origins == [f"http://{host}" for host in hosts]
    assert secure_hosts(ServerSettings(), 8377) == []
    every = ServerSettings(host="0.0.0.0", insecure=True, names=("Board.example.org",))
    hosts, origins = hosts_and_origins(every, 8377)
    assert "board.example.org" in hosts
    assert "board.example.org:8377" in hosts
    assert not [host for host in hosts if host.startswith("0.0.0.0")]
    assert "https://board.example.org" in origins
    assert url_of(every, 8377) == "http://board.example.org:8377"


def test_behind_something_that_encrypts_cookies_never_travel_in_the_clear() -> None:
    front = ServerSettings(names=("https://board.example.org",))
    hosts, origins = hosts_and_origins(front, 8377)
    assert "board.example.org" in hosts
    assert "https://board.example.org" in origins
    assert "http://board.example.org" not in origins
    assert secure_hosts(front, 8377) == ["board.example.org"]
    tls = ServerSettings(tls_cert="c", tls_key="k")
    assert secure_hosts(tls, 443) == hosts_and_origins(tls, 443)[0]
    assert "localhost" in secure_hosts(tls, 443)
    assert hosts_and_origins(tls, 443)[1][0] == "https://127.0.0.1:443"


# 4. Keys


def test_a_secret_has_256_bits_and_only_its_digest_is_kept(shop: Served) -> None:
    key, secret = shop.board.create_key(AGENT, agent="coder")
    assert secret.startswith(f"dibs_{key.id}_")
    assert len(secret.removeprefix(f"dibs_{key.id}_")) == 43  # 32 bytes in base64
    known = shop.board.keys()
    kept = json.dumps([list(shop.board.export()), [one.as_dict() for one in known]])
    assert secret not in kept
    assert secret.removeprefix(f"dibs_{key.id}_") not in kept


def test_a_secret_is_told_once_and_a_digest_never(shop: Served) -> None:
    made = shop.admin.ok("POST", "/v1/keys", {"role": "agent", "agent": "coder"})
    assert Caller(shop.url, made["secret"]).ok("GET", "/v1/me") == {"key": made["id"], "role": AGENT, "agent": "coder"}
    listed = shop.admin("GET", "/v1/keys").body.decode()
    assert made["id"] in listed
    assert made["secret"] not in listed
    assert "digest" not in listed + json.dumps(made)


def test_what_is_no_key_of_ours_is_refused_alike(shop: Served) -> None:
    key, secret = shop.board.create_key(VIEWER)
    wrong = [
        "",
        "x",
        key.id,
        secret[:-1],
        secret + "x",
        secret.swapcase(),
        f"dibs_{key.id}_",
        f"dibs_{'0' * 10}_{secret[-43:]}",
        "dibs__x",
        "dibs_ä_x",
        "é" * 50,
        "x" * 10_000,
        key.digest,
    ]
    told = set()
    for one in wrong:
        answer = Caller(shop.url)(
            "GET", "/v1/me", headers={"Authorization": f"Bearer {one}".encode().decode("latin-1")}
        )
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="dibs"'), one
        told.add(answer.body)
    assert len(told) == 1, "what was wrong with it is not told"
    for scheme in ("Basic", "Token", secret):
        assert Caller(shop.url)("GET", "/v1/me", headers={"Authorization": f"{scheme} {secret}"}).status == 401
    assert Caller(shop.url, secret).ok("GET", "/v1/me")["role"] == VIEWER


def test_a_key_in_the_address_is_no_key(shop: Served) -> None:
    for query in (f"key={shop.admin.key}", f"access_token={shop.admin.key}", f"code={shop.admin.key}"):
        assert shop.nobody("GET", f"/v1/who?{query}").status == 401
    assert shop.nobody("GET", f"/login?code={shop.admin.key}").status == 401


def test_digests_are_compared_in_constant_time() -> None:
    assert "compare_digest" in api_keys.matches.__code__.co_names


def test_what_is_remembered_of_good_keys_has_its_bound(shop: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "CACHE_KEYS_MAX", 3)
    known = callers.Callers(shop.board)
    for _ in range(10):
        _, secret = shop.board.create_key(VIEWER)
        assert known._valid_key(secret) is not None
        assert len(known._cache) <= 3


def test_a_revoked_key_is_refused(shop: Served) -> None:
    caller = shop.caller(AGENT, "coder")
    id = caller.ok("GET", "/v1/me")["key"]
    shop.admin.ok("POST", f"/v1/keys/{id}/revoke")
    assert caller("GET", "/v1/me").status == 401
    assert CACHE_SECONDS <= 1.0, "so long another server of the board may still take it"
    again = shop.admin("POST", f"/v1/keys/{id}/revoke")
    assert (again.status, again.code) == (422, "INVALID")


def test_a_key_that_expired_is_refused(shop: Served) -> None:
    caller = shop.caller(VIEWER, seconds=60)
    shop.harness.clock.advance(61)
    assert caller("GET", "/v1/me").status == 401


def test_no_error_page_repeats_a_secret(shop: Served) -> None:
    secret = shop.admin.key or ""
    for answer in (
        shop.nobody("GET", f"/{secret}"),
        shop.nobody("GET", f"/login?code={secret}"),
        shop.admin("GET", f"/v1/items/{secret}"),
        shop.admin("POST", "/v1/items", {"title": "t", secret: 1}),
        shop.admin("POST", "/v1/items", {"title": "t", "id": secret + "/"}),
        shop.nobody("GET", "/v1/me", headers={"Authorization": f"Bearer {secret}x"}),
        shop.admin("POST", f"/api/tasks/{secret}/claim", {"sessionId": secret}),
        shop.admin("POST", "/api/tasks/t/claim", {"sessionId": secret + "?"}),
        shop.admin("POST", "/api/sessions", {"agent": secret + "?"}),
        shop.admin("GET", f"/api/sessions/{secret}/current-task"),
        shop.admin("GET", f"/api/tasks/in-flight?sessionId={secret}%3F&includeExpired={secret}"),
        shop.admin(
            "POST",
            "/functions/v1/agent-claim",
            {"workItemId": secret + "?", "agentType": "a", "agentInstanceId": "i"},
        ),
    ):
        assert answer.status >= 400
        assert secret not in answer.body.decode(), answer.body


# Signing in


def test_a_login_link_is_good_once_and_gives_a_cookie_that_no_script_reads(shop: Served) -> None:
    code = login_code(shop)
    answer = shop.nobody("GET", f"/login?code={code}")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    said = answer.headers["Set-Cookie"]
    (cookie,) = SimpleCookie(said).values()
    assert (cookie["httponly"], cookie["samesite"].lower(), cookie["path"]) == (True, "strict", "/")
    assert 0 < int(cookie["max-age"]) <= 86400
    assert "domain" not in said.lower()
    assert cookie.value != code
    again = shop.nobody("GET", f"/login?code={code}")
    assert (again.status, again.headers["Set-Cookie"]) == (401, None)
    me = shop.nobody("GET", "/v1/me", headers={"Cookie": f"{cookie.key}={cookie.value}"})
    assert (me.status, me.json["agent"], me.json["role"]) == (200, "ann", "admin")


def test_of_two_who_use_a_login_link_one_gets_in(shop: Served) -> None:
    for _ in range(5):
        code = login_code(shop)
        with ThreadPoolExecutor(4) as many:
            answers: list[Answer] = list(
                many.map(lambda _, code=code: shop.nobody("GET", f"/login?code={code}"), range(4))
            )
        assert sorted(answer.status for answer in answers) == [303, 401, 401, 401]


def test_a_login_code_is_no_key_and_does_not_last(shop: Served) -> None:
    code = login_code(shop)
    assert Caller(shop.url, code)("GET", "/v1/me").status == 401
    name, _, _ = signed_in(shop).partition("=")
    assert shop.nobody("GET", "/v1/me", headers={"Cookie": f"{name}={code}"}).status == 401
    old = login_code(shop, seconds=1e6)
    shop.harness.clock.advance(api_keys.LOGIN_SECONDS + 1)
    assert shop.nobody("GET", f"/login?code={old}").status == 401
    for wrong in ("", "x", "dibs_0000000000_x", "%00", "a" * 5000):
        assert shop.nobody("GET", f"/login?code={wrong}").status == 401


def test_who_signs_out_is_out(shop: Served) -> None:
    cookie = signed_in(shop)
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{shop.admin.port}"}
    assert shop.nobody("POST", "/logout", headers={"Cookie": cookie}).status == 403, "not by another page"
    answer = shop.nobody("POST", "/logout", headers=own)
    assert (answer.status, f'{cookie.partition("=")[0]}="";' in answer.headers["Set-Cookie"]) == (204, True)
    assert shop.nobody("GET", "/v1/me", headers={"Cookie": cookie}).status == 401


# 13. Sizes and shapes


def test_a_body_has_its_size_and_no_more(shop: Served) -> None:
    """At the edge, with a length and without one."""
    frame = len(json.dumps({"title": "t", "x": ""}))
    fits = json.dumps({"title": "t", "x": "a" * (BODY_BYTES_MAX - frame)}).encode()
    assert len(fits) == BODY_BYTES_MAX
    assert shop.admin("POST", "/v1/items", raw=fits).status == 422, "read, and found wrong"
    answer = shop.admin("POST", "/v1/items", raw=fits + b" ")
    assert (answer.status, answer.code) == (413, "TOO_LARGE")
    head = (
        f"POST /v1/items HTTP/1.1\r\nHost: 127.0.0.1:{shop.admin.port}\r\nAuthorization: Bearer {shop.admin.key}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()
    chunk = b"%x\r\n" % (BODY_BYTES_MAX + 1) + b" " * (BODY_BYTES_MAX + 1) + b"\r\n0\r\n\r\n"
    assert b" 413 " in shop.nobody.bytes(head + chunk).splitlines()[0]


def test_nothing_of_a_body_is_read_before_the_key_is_known(shop: Served) -> None:
    """Only heads are sent here: who would read the body first waited for it in vain."""
    paths = shop.nobody.ok("GET", "/openapi.json")["paths"]
    asked = [
        (method, path) for path, methods in paths.items() for method, told in methods.items() if "requestBody" in told
    ]
    assert {path for _, path in asked} >= {"/v1/next", "/v1/keys", "/api/sessions", "/functions/v1/agent-claim"}
    for method, path in (*asked, ("post", IMPORT), ("post", RESTORE)):
        kind = "application/octet-stream" if path in ARCHIVE_PATHS else "application/json"
        for key in ("", "Authorization: Bearer dibs_nobody_nothing\r\n", "Authorization: Basic YTpi\r\n"):
            head = (
                f"{method.upper()} {path.translate({123: None, 125: None})} HTTP/1.1\r\nConnection: close"
                f"\r\nHost: 127.0.0.1:{shop.admin.port}\r\nContent-Type: {kind}"
                f"\r\nContent-Length: {BODY_BYTES_MAX}\r\n{key}\r\n"
            )
            answer = shop.nobody.bytes(head.encode())
            assert answer.startswith(b"HTTP/1.1 401"), (method, path, key, answer[:200])
            if path.startswith("/v1/"):
                own = b'"code": "UNAUTHENTICATED"'
            else:
                # In the words of the contract, which is not ours.
                own = b'"error": "UNAUTHENTICATED"' if path.startswith("/api/") else b'"success": false, "error": "'
            assert own in answer, (path, answer)


def test_a_length_that_is_a_lie_or_two_are_refused(shop: Served) -> None:
    for lengths in (
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 1e9\r\n",
    ):
        head = f"POST /v1/items HTTP/1.1\r\nHost: 127.0.0.1:{shop.admin.port}\r\n".encode()
        said = shop.nobody.bytes(head + b"Content-Type: application/json\r\n" + lengths + b"\r\n{}")
        assert said.startswith(b"HTTP/1.1 400"), lengths
        assert b"application/problem+json" in said


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"title": ' * 50_000,
        b'{"title": "t", "payload": ' + b'{"a":' * 2000 + b"1" + b"}" * 2001,
        b'{"title": "t", "payload": {"x": NaN}}',
        b'{"title": "t", "retries": NaN}',
        b'{"title": "t", "timeout_seconds": Infinity}',
        b'{"title": "t", "priority": 1e999}',
        b'{"title": "t", "priority": ' + b"9" * 5000 + b"}",
        b'{"title": "\\ud800"}',
        b'{"title": "a\\u0000b"}',
        b'{"title": "\xff\xfe"}',
        b'{"title": "t", "payload": {"\\ud800": 1}}',
        b"\xef\xbb\xbf{}",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"",
        b'{"title": null}',
        b'{"title": 5}',
        b'{"title": "t", "labels": "abc"}',
        b'{"title": "t", "id": "../../etc/passwd"}',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_odd_json_is_refused_and_breaks_nothing(shop: Served, body: bytes) -> None:
    answer = shop.admin("POST", "/v1/items", raw=body)
    assert answer.status in (400, 422), answer.body[:200]
    assert answer.code in ("INVALID", "NOT_JSON")


@pytest.mark.parametrize(
    "wrong", [{"pid": 2**40}, {"pid": -1}, {"start_time": 2**70}, {"pid_namespace": -(2**70)}, {"boot_id": "a\0b"}]
)
def test_an_owner_that_cannot_be_is_refused(shop: Served, wrong: dict[str, Any]) -> None:
    owner = {"boot_id": "b", "pid_namespace": 1, "pid": 1, "start_time": 1}
    answer = shop.admin("POST", "/v1/sessions", {"agent": "coder", "owner": {**owner, **wrong}})
    assert (answer.status, answer.code, answer.json["facts"]["field"]) == (422, "INVALID", "owner")
    assert shop.admin("POST", "/v1/sessions", {"agent": "coder", "owner": owner}).status == 200


def test_what_is_too_much_to_hold_is_refused_at_once(shop: Served) -> None:
    shop.board.start_session("coder", id="greedy")
    holding = {f"item-{number}": None for number in range(10_001)}
    for path in ("/v1/heartbeat", "/v1/done_many"):
        answer = shop.admin("POST", path, {"session": "greedy", "holding": holding})
        assert (answer.status, answer.code, answer.json["facts"]["field"]) == (422, "INVALID", "holding")


def test_half_a_key_is_none(shop: Served) -> None:
    for half, missing in (({"id": "0123456789"}, "digest"), ({"digest": "0" * 64}, "id")):
        answer = shop.admin("POST", "/v1/keys", {"role": "viewer", **half})
        assert (answer.status, answer.code, answer.json["facts"]["field"]) == (422, "INVALID", missing)


def test_odd_ids_in_a_query_are_no_ids(shop: Served) -> None:
    for id in ("%00", "a%20b", "a" * 5000, ""):
        answer = shop.admin("GET", f"/v1/due?item={id}")
        assert (answer.status, answer.code, answer.json["facts"]["field"]) == (422, "INVALID", "item"), id
    assert shop.admin("GET", "/v1/due?item=unknown").status == 200


def test_the_machine_of_a_session_is_the_callers_to_say(shop: Served) -> None:
    silent = shop.admin.ok("POST", "/v1/sessions", {"agent": "coder", "id": "silent"})
    assert silent["host"] == "", "where the server runs says nothing of its callers"
    assert shop.admin.ok("POST", "/v1/sessions", {"agent": "coder", "id": "told", "host": "there"})["host"] == "there"


def test_of_a_field_said_twice_the_one_that_is_checked_is_the_one_that_counts(shop: Served) -> None:
    mine, other = shop.caller(AGENT, "ann"), shop.caller(AGENT, "bob")
    mine.ok("POST", "/v1/sessions", {"agent": "ann", "id": "ann-7"})
    other.ok("POST", "/v1/sessions", {"agent": "bob", "id": "bob-7"})
    shop.board.add("T", id="twice")
    both = (b'{"session": "ann-7", "session": "bob-7"}', b'{"session": "bob-7", "session": "ann-7"}')
    answers = [mine("POST", "/v1/items/twice/claim", raw=body) for body in both]
    assert [answer.status for answer in answers] == [403, 200]
    assert answers[1].json["claim"]["session"] == "ann-7"


@pytest.mark.parametrize(
    "id",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "%2Fetc",
        "a%00b",
        "%00",
        "%ff%fe",
        "a" * 5000,
        "%0d%0aX:%20y",
        "a%20b",
        "%c3%a9",
    ],
)
def test_odd_ids_in_a_path_are_no_ids(shop: Served, id: str) -> None:
    for method, path in (
        ("GET", f"/v1/items/{id}"),
        ("POST", f"/v1/items/{id}/claim"),
        ("GET", f"/v1/sessions/{id}"),
        ("POST", f"/v1/sessions/{id}/end"),
        ("POST", f"/v1/keys/{id}/revoke"),
        ("PUT", f"/v1/agents/{id}"),
    ):
        body = {"session": "s"} if path.endswith("claim") else {} if method == "PUT" else None
        answer = shop.admin(method, path, body)
        assert answer.status in (400, 404, 405, 422), (method, path, answer.status, answer.body)
        assert answer.code in ("INVALID", "NO_SUCH_ROUTE", "SESSION_NOT_FOUND", "TASK_NOT_FOUND", "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("query", ["limit=-1", "limit=1e9", "limit=" + "9" * 5000, "after=-1", "limit=%00", "%ff=%ff"])
def test_odd_queries_are_refused_or_ignored(shop: Served, query: str) -> None:
    assert shop.admin("GET", f"/v1/events?{query}").status in (200, 422)


def test_odd_request_ids_are_refused(shop: Served) -> None:
    for one in ("é", "a b", "x" * 5000, "a;b"):
        answer = shop.admin("POST", "/v1/items", {"title": "t"}, headers={"Idempotency-Key": one})
        assert (answer.status, answer.code) == (422, "INVALID")
