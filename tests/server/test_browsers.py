"""Browsers that sign in: what is in their cookie opens this server's pages, and nothing else on the machine sees it."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from http.cookiejar import Cookie, CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request

import pytest
from starlette.requests import Request as ServerRequest

from dibs import api_keys
from dibs.board import connect
from dibs.config import ServerSettings
from dibs.errors import Invalid
from dibs.model import LOGIN
from dibs.server.auth.callers import COOKIE, COOKIES_MAX, SECURE_COOKIE, Callers, cookie_name
from dibs.server.auth.callers import Caller as AuthenticatedCaller
from dibs.server.ops.address import ipv6_loopback_reserved, pages_of
from dibs.system import keyring
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.attacking import Answer, Caller, heard
from tests.server.process import Serving, serving


class Browser:
    """Keeps cookies by the rules that browsers share, and takes names under localhost for this machine, as they do."""

    def __init__(self) -> None:
        self.jar = CookieJar()

    def get(self, url: str) -> Answer:
        parts, request = urlsplit(url), Request(url)
        self.jar.add_cookie_header(request)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE_SECONDS)
        try:
            headers = {"Host": parts.netloc, **dict(request.header_items())}
            connection.request("GET", f"{parts.path or '/'}?{parts.query}", headers=headers)
            answer = connection.getresponse()
            self.jar.extract_cookies(answer, request)
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def follow(self, url: str) -> Answer:
        answer = self.get(url)
        for _ in range(5):
            if answer.status != 303:
                return answer
            place = answer.headers["Location"]
            url = place if "://" in place else "http://" + urlsplit(url).netloc + place
            answer = self.get(url)
        raise AssertionError("it leads nowhere")

    @property
    def cookie(self) -> Cookie:
        (found,) = self.jar
        return found

    @property
    def secret(self) -> str:
        return self.cookie.value or ""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("browsers")) as found:
        yield found


@pytest.fixture
def browser(shop: Serving) -> Browser:
    found = Browser()
    with connect(shop.told["store"]) as board:
        _, code = board.create_key(LOGIN, agent="ann", seconds=api_keys.LOGIN_SECONDS)
    found.follow(f"{shop.told['pages']}/login?code={code}")
    assert found.secret, "it is signed in"
    return found


def test_a_cookie_is_sent_to_no_other_program_of_the_machine(shop: Serving, browser: Browser) -> None:
    with heard("127.0.0.1") as (port, found):
        for host in ("127.0.0.1", "localhost", "dibs.localhost", "other.dibs.localhost"):
            assert browser.get(f"http://{host}:{port}/").status == 200
    assert len(found) == 4
    assert not [request for request in found if b"ookie" in request]
    cookie = browser.cookie
    assert (cookie.name[: len(COOKIE)], cookie.domain_specified, cookie.path) == (COOKIE, False, "/")
    name = urlsplit(shop.told["pages"]).hostname or ""
    assert cookie.domain == name
    assert len(name.removesuffix(keyring.PAGES_DOMAIN)) == 16, "64 random bits"


def test_what_is_in_a_cookie_is_no_key(shop: Serving, browser: Browser) -> None:
    ours = browser.secret
    assert browser.get(f"{shop.told['pages']}/v1/me").status == 200
    as_key = ours.replace(api_keys.BROWSER_PREFIX, api_keys.PREFIX, 1)
    for secret in (ours, as_key):
        assert Caller(shop.url, secret)("GET", "/v1/me").code == "UNAUTHENTICATED"
        assert Caller(shop.url, secret)("POST", "/v1/keys", {"role": "admin"}).code == "UNAUTHENTICATED"
    nobody = Caller(shop.url)
    for cookie in (as_key, shop.admin().key):
        assert nobody("GET", "/v1/me", headers={"Cookie": f"{browser.cookie.name}={cookie}"}).code == "UNAUTHENTICATED"
    with connect(shop.told["store"]) as board:
        assert ours not in str(board.keys()), "only its digest is kept"
    assert api_keys.without_secrets(f"Cookie: {ours}").endswith("_***")


def test_a_second_cookie_does_not_sign_a_browser_out(shop: Serving, browser: Browser) -> None:
    url, name = urlsplit(shop.told["pages"]), browser.cookie.name
    ours, secure = f"{name}={browser.secret}", name.replace(COOKIE, SECURE_COOKIE)
    bogus = api_keys.new_for_browser("admin", None)[1]

    def status(cookies: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/v1/me", headers={"Host": url.netloc, "Cookie": cookies})
            answer = connection.getresponse()
            renewed = answer.headers["Set-Cookie"]
            assert renewed is None or browser.secret in renewed, "its own cookie is renewed"
            return answer.status
        finally:
            connection.close()

    for other in (f"{name}={bogus}", f"{secure}={bogus}", f"{name}=", f"{name}=dibsweb_x_y"):
        assert (status(f"{ours}; {other}"), status(f"{other}; {ours}"), status(other)) == (200, 200, 401), other
    flood = "; ".join(f"{name}={bogus}" for _ in range(COOKIES_MAX))
    assert status(f"{flood}; {ours}") == 200, "its own has the shortest path, and so comes last"
    assert status(f"{ours}; {flood}") == 401, "a bounded number is searched"


def test_a_cookie_of_a_host_beside_this_one_signs_nobody_in(shop: Serving, browser: Browser) -> None:
    """A page of any program may set one for the domain of all pages, with a valid key of its own, and with a longer
    path: browsers send it first. It cannot have the name, which contains a mark of this host."""
    pages = shop.told["pages"]
    other = signed_in(shop, "login-viewer")
    for name in ("dibs_session", COOKIE, "__Host-dibs_session", other.cookie.name[:-1]):
        mine = Browser()
        mine.jar.set_cookie(browser.cookie)
        mine.jar.set_cookie(of_the_domain(name, other.secret))
        assert mine.get(f"{pages}/v1/me").json["role"] == "admin", name
        alone = Browser()
        alone.jar.set_cookie(of_the_domain(name, other.secret))
        assert alone.get(f"{pages}/v1/me").status == 401, name


def of_the_domain(name: str, secret: str) -> Cookie:
    """A cookie for every host of the pages' domain, and for the paths below /v1."""
    domain = "." + keyring.PAGES_DOMAIN.strip(".")
    return Cookie(0, name, secret, None, False, domain, True, True, "/v1", True, False, None, False, None, None, {})


def signed_in(shop: Serving, role: str, browser: Browser | None = None) -> Browser:
    found = browser or Browser()
    with connect(shop.told["store"]) as board:
        _, code = board.create_key(role, agent="ann", seconds=api_keys.LOGIN_SECONDS)
    found.follow(f"{shop.told['pages']}/login?code={code}")
    return found


def test_who_signs_in_again_leaves_no_valid_key_behind(shop: Serving, browser: Browser) -> None:
    pages, cookie = shop.told["pages"], browser.cookie
    signed_in(shop, "login-viewer", browser)
    assert browser.get(f"{pages}/v1/me").json["role"] == "viewer"
    former = Browser()
    former.jar.set_cookie(cookie)
    assert former.get(f"{pages}/v1/me").status == 401


def test_a_browser_is_signed_out_by_revoking_its_key(shop: Serving, browser: Browser) -> None:
    me = browser.get(f"{shop.told['pages']}/v1/me").json["key"]
    assert me.startswith("web")
    shop.admin().ok("POST", f"/v1/keys/{me}/revoke")
    assert browser.get(f"{shop.told['pages']}/v1/me").status == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_link_to_a_host_that_is_shared_leads_to_the_servers_own(shop: Serving, host: str) -> None:
    browser = Browser()
    with connect(shop.told["store"]) as board:
        _, code = board.create_key(LOGIN, agent="ann", seconds=api_keys.LOGIN_SECONDS)
    first = browser.get(f"http://{host}:{urlsplit(shop.url).port}/login?code={code}")
    assert (first.status, first.headers["Location"]) == (303, f"{shop.told['pages']}/login?code={code}")
    assert not list(browser.jar)
    browser.follow(first.headers["Location"])
    assert browser.get(f"{shop.told['pages']}/v1/me").status == 200


def test_the_name_stays_and_is_the_boards_own(shop: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    names = []
    for folder, port in ((tmp_path / "a", 1), (tmp_path / "a", 2), (tmp_path / "b", 1)):
        folder.mkdir(exist_ok=True)
        keyring.keep(f"http://127.0.0.1:{port}", "secret", str(folder))
        names.append(urlsplit(keyring.pages(f"http://127.0.0.1:{port}") or "").hostname)
    assert names[0] == names[1] != names[2]
    keyring.keep("https://127.0.0.1:1", "secret", str(tmp_path / "a"))
    assert keyring.pages("https://127.0.0.1:1") is None


def test_a_folder_does_not_choose_the_name() -> None:
    known, own = f"http://known{keyring.PAGES_DOMAIN}:1", f"http://0123456789abcdef{keyring.PAGES_DOMAIN}:1"
    assert pages_of(ServerSettings(names=(known, own))) == own
    assert pages_of(ServerSettings(host="0.0.0.0", names=(known,))) is None


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
def test_nobody_else_listens_where_browsers_look_first(shop: Serving) -> None:
    port = urlsplit(shop.url).port or 0
    with pytest.raises(OSError, match="in use"), heard("::1", port):
        pass
    with (
        heard("::1") as (taken, _),
        pytest.raises(Invalid, match="another program listens"),
        ipv6_loopback_reserved(ServerSettings(), taken),
    ):
        pass


def test_the_name_of_the_pages_is_told_to_nobody_without_a_link(tmp_path: Path) -> None:
    """Another program that knew the name could have itself visited under it, and be sent the cookie."""
    with serving(tmp_path) as server, connect(server.told["store"]) as board:
        stranger = Caller(server.url)
        for code in ("", "dibs_0123456789_wrong", (server.admin().key or "")):
            answer = stranger("GET", f"/login?code={code}")
            assert (answer.status, answer.headers["Location"]) == (401, None)
            assert b".dibs.localhost" not in answer.body
        code = board.create_key(LOGIN)[1]
        for _ in range(2):
            assert stranger("GET", f"/login?code={code}").status == 303, "to be sent there does not use it up"


def test_a_link_for_a_viewer_signs_in_a_viewer(shop: Serving) -> None:
    browser, pages = Browser(), shop.told["pages"]
    with connect(shop.told["store"]) as board:
        key, code = board.create_key("login-viewer", agent="ann", seconds=10**6)
        assert key.expires_at == key.created_at + api_keys.LOGIN_SECONDS * 1000, "a link is good for minutes"
        browser.follow(f"{pages}/login?code={code}")
        assert browser.get(f"{pages}/v1/view").json["me"] == {"role": "viewer", "actor": "ann"}
        assert browser.get(f"{pages}/v1/keys").status == 403
        assert Browser().get(f"{pages}/login?code={code}").status == 401, "it is good once"
        with pytest.raises(Invalid, match="unknown role"):
            board.create_key("login-nobody")


def test_a_cookie_is_renewed_also_in_the_first_hour_after_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(str(tmp_path / "board.db"), create=True) as board:
        key, secret = api_keys.new_for_browser("admin", "ann", "")
        host = (b"host", b"127.0.0.1")
        name = cookie_name(host[1].decode(), is_secure=False)
        request = ServerRequest({"type": "http", "headers": [host, (b"cookie", f"{name}={secret}".encode())]})
        caller = AuthenticatedCaller.of_key(key)
        monkeypatch.setattr(time, "monotonic", lambda: 1.0)  # the machine was started a second ago
        callers = Callers(board)
        assert callers.cookie_to_renew(request, caller) == (name, secret)
        assert callers.cookie_to_renew(request, caller) is None


def test_a_browser_stays_signed_in_while_it_is_used(shop: Serving, browser: Browser) -> None:
    url = f"{shop.told['pages']}/v1/me"
    with connect(shop.told["store"]) as board:
        id = api_keys.id_of(browser.secret) or ""
        before = board.store.find_key(id)
        assert before is not None
        answer = browser.get(url)
        after = board.store.find_key(id)
        assert after is not None
        assert (after.expires_at or 0) > (before.expires_at or 0)
        said = answer.headers["Set-Cookie"]
        assert browser.secret in said
        assert all(word in said for word in ("HttpOnly", "SameSite=strict", "Max-Age=43200", "Path=/"))
        assert browser.get(url).headers["Set-Cookie"] is None, "not with each request"
        late = board.store.renew_key(id, seconds=10**9, seconds_max=60 * 86400)
        assert late is not None
        assert late.expires_at == late.created_at + 60 * 86400 * 1000, "not for ever"
        again = board.store.renew_key(id, seconds=1, seconds_max=1)
        assert again is not None
        assert again.expires_at == late.expires_at, "never for less"
        shop.admin().ok("POST", f"/v1/keys/{id}/revoke")
        assert board.store.renew_key(id, seconds=60, seconds_max=60) is None
    assert browser.get(url).status == 401
