"""Settings: the design's defaults, and a `dibs.toml` that may change each of them and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dibs import config
from dibs.config import DEFAULTS, SERVER_DEFAULTS, Settings
from dibs.errors import Invalid


def written(folder: Path, text: str) -> str:
    path = folder / config.FILE_NAME
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_defaults_are_the_designs() -> None:
    minute, hour = 60, 3600
    assert (DEFAULTS.ttl_seconds, DEFAULTS.ttl_seconds_min, DEFAULTS.ttl_seconds_max) == (30 * minute, minute, 2 * hour)
    assert (DEFAULTS.person_ttl_seconds, DEFAULTS.person_ttl_seconds_max) == (8 * hour, 7 * 24 * hour)
    assert (DEFAULTS.heartbeat_seconds, DEFAULTS.stale_seconds, DEFAULTS.orphan_seconds) == (60, 300, 600)
    assert (DEFAULTS.warning_seconds, DEFAULTS.expiring_seconds, DEFAULTS.max_strikes) == (300, 60, 5)
    assert DEFAULTS.request_kept_seconds == 24 * hour


def test_without_a_file_the_defaults_hold() -> None:
    assert config.load(None) == (DEFAULTS, {})


def test_the_values_of_a_file_hold(tmp_path: Path) -> None:
    text = '[board]\nttl_seconds = 900\nmax_strikes = 3\n[agents.coder]\ntypes = ["bug"]\n'
    settings, agents = config.load(written(tmp_path, text))
    assert settings == DEFAULTS.replace(ttl_seconds=900, max_strikes=3)
    assert agents == {"coder": {"types": ["bug"]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[board]\nttl = 5\n", "ttl"),
        ("[board]\nttl_seconds = '5m'\n", "number"),
        ("[board]\nttl_seconds = true\n", "number"),
        ("[board]\nmax_strikes = 2.5\n", "number"),
        ("[board]\nnetwork_filesystem = 1\n", "true or false"),
        ("[board]\nttl_seconds = -5\n", "above zero"),
        ("[board]\nttl_seconds = 1e12\n", "below"),
        ("[board]\nttl_seconds = 30\n", "between"),
        ("board = 5\n", "table"),
        ("agents = 5\n", "table"),
        ("not toml at all", "dibs.toml"),
    ],
)
def test_what_is_wrong_is_refused_with_the_file_and_the_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        config.load(written(tmp_path, text))
    assert config.FILE_NAME in caught.value.message


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / config.FILE_NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid):
        config.load(str(tmp_path / config.FILE_NAME))


def test_every_setting_can_be_given(tmp_path: Path) -> None:
    lines = [f"{name} = {str(getattr(DEFAULTS, name)).lower()}" for name in Settings._fields]
    assert config.load(written(tmp_path, "[board]\n" + "\n".join(lines)))[0] == DEFAULTS


def test_a_server_is_told_where_to_listen_and_finds_its_files_beside_the_configuration(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[server]\nport = 9000\nnames = ["a.example", "https://b.example"]\ntls_cert = "c.pem"\ntls_key = "/k.pem"\n',
    )
    settings = config.load_server(path)
    assert (settings.port, settings.names, settings.host) == (9000, ("a.example", "https://b.example"), "127.0.0.1")
    assert (settings.tls_cert, settings.tls_key) == (str(tmp_path / "c.pem"), "/k.pem")
    assert config.load(path) == (DEFAULTS, {}), "it is nobody else's business"
    assert config.load_server(None) == SERVER_DEFAULTS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nport = '8377'\n", "whole number"),
        ("[server]\nport = true\n", "whole number"),
        ("[server]\nport = 65536\n", "between 0 and 65535"),
        ("[server]\nhost = 5\n", "text"),
        ("[server]\nnames = 'a'\n", "list"),
        ("[server]\nnames = [1]\n", "list"),
        ("[server]\nlog_json = 'yes'\n", "true or false"),
        ("[server]\ninsecure = true\n", "dibs serve --insecure"),
        ("[server]\nworkers = 0\n", "between 1"),
        ("[server]\nsubscribers_max = -1\n", "negative"),
        ("[server]\ntls_cert = 'a'\n", "together"),
        ("[server]\nadmin = 1\n", "admin"),
        ("server = 5\n", "table"),
    ],
)
def test_what_is_wrong_about_a_server_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        config.load_server(written(tmp_path, text))
    assert config.FILE_NAME in caught.value.message


def test_a_user_has_a_plain_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert config.user_name() == "ann"
    for odd in ("", "a b", "../x", "ä", "-x"):
        monkeypatch.setenv("LOGNAME", odd)
        monkeypatch.setenv("USER", "bob")
        assert config.user_name() == "bob"
    monkeypatch.delenv("USER")
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999)
    assert config.user_name() == "uid-3999999"
