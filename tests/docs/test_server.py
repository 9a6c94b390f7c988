"""docs/guides/server.md and docs/operations/server.md: what is typed there works, their tables are true."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from dibs import api_keys, config, location
from dibs.board import connect, make
from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.cli.server import keep_key
from dibs.model import ROLES
from dibs.server import STOP_SECONDS
from dibs.server.api.bodies import VALUES_MAX
from dibs.server.api.verb_routes import PAGE_RECORDS, WHOLE_RECORDS
from dibs.server.auth import guard
from dibs.server.ops import workers
from dibs.server.ops.accepting import HANDSHAKE_SECONDS, SILENT_SECONDS
from dibs.server.ops.connection import HEAD_BYTES_MAX, HEAD_SECONDS
from dibs.server.ops.run import KEEP_ALIVE_SECONDS
from dibs.server.service import WAIT_SECONDS_MAX, WAITS
from dibs.system import keyring
from tests.docs.markdown import blocks, code, prose, read, section, table
from tests.docs.shop import CALLED, Shop
from tests.server.process import Serving

GUIDE = read("docs/guides/server.md")
OPERATIONS = read("docs/operations/server.md")


def typed_options(line: str) -> dict[str, str | bool | list[str]]:
    """The options of a `dibs serve` as the command line reads them."""
    words = shlex.split(line)
    assert words[:2] == ["dibs", "serve"], line
    parser, _ = build("serve", COMMANDS["serve"])
    return vars(parser.parse(words[2:]))


def test_what_the_guide_types_works(tmp_path: Path) -> None:
    """Its own lines and those with curl, in one shell, on one server."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    shop = Shop(tmp_path)
    shop.type("dibs init")
    with Serving(shop.folder, "--quiet") as server:
        (announced,) = blocks(section(GUIDE, "## On your own machine"), "console")
        assert announced.splitlines()[1].replace(CALLED, str(shop.folder)) == (
            f"serving {server.told['store']} at http://127.0.0.1:8377"
        )
        own, keys, curl = (
            blocks(section(GUIDE, heading), "sh")[0]
            for heading in ("## On your own machine", "## Keys", "## With curl")
        )
        curl = curl.replace("curl -s ", "curl -s --fail-with-body ")
        typed = shop.type(f"set -e\n{own}\n{keys}\n{curl}".replace("http://127.0.0.1:8377", server.url))
        assert typed.returncode == 0, typed.stdout
        assert '"token":1' in typed.stdout
        assert shop.answer("dibs show fix-login")["item"]["status"] == "done"


def test_every_line_that_serves_can_be_typed() -> None:
    lines = [line for text in (GUIDE, OPERATIONS) for block in blocks(text, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(dibs serve [^`]+)`", GUIDE)
    found = [line for line in lines if line.startswith("dibs serve")]
    assert len(found) == 4
    for line in found:
        typed_options(line)


def test_the_roles_are_those_there_are() -> None:
    assert [code(role)[0] for role, _ in table(GUIDE, "role", "may")] == list(ROLES)


def test_every_setting_of_the_server_is_in_the_table_with_its_default() -> None:
    rows = table(OPERATIONS, "`[server]`", "default")
    told = {
        code(name)[0]: tomllib.loads(f"value = {code(default)[0]}")["value"] if default else None
        for name, default, _ in rows
    }
    assert told == {
        name: list(v) if isinstance(v, tuple) else v for name, v in config.SERVER_DEFAULTS.as_dict().items()
    }
    assert list(told) == list(config.ServerSettings._fields), "in the order of the code"


def test_the_configuration_is_accepted() -> None:
    (example,) = blocks(OPERATIONS, "toml")
    settings = config.server_from_table(tomllib.loads(example)["server"], "/srv/dibs.toml")
    assert settings.names == ("board.example.org",)


def leaves_a_key(unit: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the unit's environment and a home that is out of reach, as under ProtectHome."""
    assert unit["ProtectHome"] == "true"
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    for setting in unit["Environment"].split():
        name, _, value = setting.partition("=")
        assert value.startswith(f"/var/lib/{unit['StateDirectory']}/")
        monkeypatch.setenv(name, str(folder) + value)
    make(os.environ["DIBS_STORE"])
    with connect() as board:
        keep_key(board, "http://127.0.0.1:8377", location.folder_of(os.environ["DIBS_STORE"]))
    assert keyring.find("http://127.0.0.1:8377")


def test_the_unit_starts_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (unit,) = blocks(OPERATIONS, "ini")
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(unit)
    service = parsed["Service"]
    program, *rest = service["ExecStart"].split()
    typed_options(" ".join([os.path.basename(program), *rest]))
    assert int(service["TimeoutStopSec"]) > STOP_SECONDS
    leaves_a_key(service, tmp_path, monkeypatch)


def test_the_figures_are_those_of_the_code() -> None:
    limits = " ".join(cell for _, cell in table(OPERATIONS, "what", "limit"))
    for words in (
        f"{guard.BODY_BYTES_MAX:,} bytes, within {guard.BODY_SECONDS:.0f} seconds, with {VALUES_MAX:,} values",
        f"{HEAD_BYTES_MAX:,} bytes, within {HEAD_SECONDS:.0f} seconds",
        f"{WAIT_SECONDS_MAX:.0f} seconds",
        f"{WAITS.limit}, and {WAITS.limit_per_key} with one key; the next gets 503",
        f"closed after {KEEP_ALIVE_SECONDS} seconds",
        f"{WHOLE_RECORDS:,}, except for the `newest` events; a page has at most {PAGE_RECORDS:,} entries",
    ):
        assert words in limits, words
    assert SILENT_SECONDS == HANDSHAKE_SECONDS
    assert f"closed after {SILENT_SECONDS:.0f} seconds" in limits
    said = " ".join(prose(OPERATIONS).split())
    assert f"still going on after {STOP_SECONDS} seconds" in said
    assert f"up to {workers.PAUSE_SECONDS_MAX:.0f} seconds if it keeps dying" in said
    assert f"valid once, for {api_keys.LOGIN_SECONDS / 60:.0f} minutes" in GUIDE
