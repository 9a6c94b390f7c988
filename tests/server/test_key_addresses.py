"""Where a client sends its key: to the address for which it was kept, and over the network only if it is encrypted."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dibs import config
from dibs.board import connect
from dibs.config import DEFAULTS, ENV_INSECURE_HTTP
from dibs.errors import Invalid, StoreUnavailable
from dibs.store.http.store import HttpStore
from tests.server.attacking import heard
from tests.server.process import Serving, serving

KEY = "dibs_0123456789_secret"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("addresses")) as found:
        yield found


@pytest.fixture
def ipv6_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up as on most machines: localhost is [::1] before it is 127.0.0.1."""
    asked = socket.getaddrinfo

    def looked_up(host: Any, *more: Any, **named: Any) -> Any:
        return asked("::1", *more, **named) if host == "localhost" else asked(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "x.dibs.localhost"])
def test_a_key_does_not_go_to_who_listens_at_another_address_of_that_name(ipv6_first: None, name: str) -> None:
    with heard("::1", answer=b"") as (port, found):
        store = HttpStore(f"http://{name}:{port}", DEFAULTS.replace(lock_wait_seconds=0.1), KEY)
        with pytest.raises(StoreUnavailable):
            store.get("x")
        store.close()
        assert found == []
        literal = HttpStore(f"http://[::1]:{port}", DEFAULTS.replace(lock_wait_seconds=0.1), KEY)
        with pytest.raises(StoreUnavailable):
            literal.get("x")
        literal.close()
    assert KEY.encode() in found[0], "who names the address, means it"


def test_the_names_of_this_machine_lead_to_its_server(
    shop: Serving, ipv6_first: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(shop.folder))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name in ("localhost", "127.0.0.1", urlsplit(shop.told["pages"]).hostname):
        with connect(f"http://{name}:{urlsplit(shop.url).port}") as board:
            assert board.store.find_key("nobody") is None, "an admin's key was found, and sent"


@pytest.mark.parametrize("host", ["192.0.2.1", "127.example.org", "board.example.org", "[2001:db8::1]"])
def test_a_key_goes_to_another_machine_only_encrypted_or_if_that_is_said(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENV_INSECURE_HTTP, raising=False)
    with pytest.raises(Invalid, match=f"export {ENV_INSECURE_HTTP}=1"):
        HttpStore(f"http://{host}:8377", DEFAULTS, KEY)
    HttpStore(f"https://{host}:8377", DEFAULTS, KEY).close()
    HttpStore(f"http://{host}:8377", DEFAULTS, None).close()
    monkeypatch.setenv(ENV_INSECURE_HTTP, "1")
    HttpStore(f"http://{host}:8377", DEFAULTS, KEY).close()


def test_a_folder_does_not_say_that_a_key_may_be_read(tmp_path: Path, shop: Serving) -> None:
    refused = shop.dibs("who", DIBS_STORE="http://192.0.2.1:8377", DIBS_KEY=KEY)
    assert (refused.returncode, KEY in refused.stderr) == (1, False)
    assert f"export {ENV_INSECURE_HTTP}=1" in refused.stderr
    for table in ("board", "server"):
        for name in ("insecure_http", ENV_INSECURE_HTTP):
            path = tmp_path / config.FILE_NAME
            path.write_text(f"[{table}]\n{name} = true\n")
            with pytest.raises(Invalid, match="no setting"):
                config.load(str(path)) if table == "board" else config.load_server(str(path))
