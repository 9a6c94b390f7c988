"""`dibs config`: every setting in force, and where it comes from; and keys on the board itself."""

from __future__ import annotations

from dibs.config import ServerSettings, Settings
from tests.e2e.conftest import Dibs


def test_config_tells_every_setting_and_where_it_is_from(dibs: Dibs) -> None:
    path = dibs.folder / "dibs.toml"
    path.write_text('[board]\nmax_strikes = 3\n[server]\nport = 9000\n[agents.reviewer]\ntypes = ["review"]\n')
    own = {"DIBS_KEY": "dibs_0123456789_secret"}
    found = {one["name"]: (one["value"], one["source"]) for one in dibs.json("config", environment=own)["settings"]}
    assert {f"board.{name}" for name in Settings._fields} <= found.keys()
    assert {f"server.{name}" for name in ServerSettings._fields} <= found.keys()
    assert found["board.max_strikes"] == (3, str(path))
    assert found["server.port"] == (9000, str(path))
    assert found["server.host"] == ("127.0.0.1", "default")
    assert found["agents.reviewer"] == ({"types": ["review"]}, str(path))
    assert found["DIBS_SESSION"] == ("s1", "environment")
    assert found["DIBS_KEY"] == ("***", "environment")
    assert found["store"] == (str(dibs.folder / ".dibs" / "board.db"), "the nearest board")
    said = dibs.ok("config", environment=own)
    assert "secret" not in said
    assert f"board.max_strikes                3                     {path}".split() in [
        line.split() for line in said.splitlines()
    ]


def test_config_tells_which_store_without_its_password(bare: Dibs) -> None:
    def store(*words: str, **environment: str) -> dict[str, object]:
        found: list[dict[str, object]] = bare.json("config", *words, environment=environment)["settings"]
        return found[0]

    assert store() == {"name": "store", "value": None, "source": "no board here or above"}
    named = store(DIBS_STORE="postgresql://me:secret@db/work")
    assert named == {"name": "store", "value": "postgresql://me:***@db/work", "source": "environment DIBS_STORE"}
    assert store("--store", "x.db")["source"] == "option --store"


def test_a_key_is_made_on_the_board_and_its_secret_told_once(dibs: Dibs) -> None:
    made = dibs.json("key", "create", "--role", "agent", "--agent", "coder", "--expires", "2h")["key"]
    assert (made["role"], made["agent"], made["revoked_at"]) == ("agent", "coder", None)
    assert "digest" not in made
    said = dibs.ok("key", "create", "--role", "viewer")
    assert "dibs_" in said
    listed = dibs.ok("key", "list")
    assert made["id"] in listed
    assert "valid for 2h more" in listed or "valid for 1h" in listed
    assert made["secret"] not in listed + dibs.ok("key", "list", "--json") + dibs.ok("export")
    assert "revoked" in dibs.ok("key", "revoke", made["id"])
    code, error = dibs.refused("key", "revoke", made["id"])
    assert (code, "already" in error["message"]) == (1, True)
    assert dibs.refused("key", "revoke", "nobody")[0] == 1


def test_only_a_role_that_there_is_makes_a_key(dibs: Dibs) -> None:
    for role in ("owner", "login", ""):
        code, error = dibs.refused("key", "create", "--role", role)
        assert (code, error["field"]) == (1, "role")
    assert dibs("key", "create").returncode == 2


def test_a_link_without_a_server_says_what_to_do(dibs: Dibs) -> None:
    code, error = dibs.refused("key", "link")
    assert (code, "dibs serve" in error["message"]) == (75, True)
    code, error = dibs.refused("key", "link", "--url", "http://127.0.0.1:1")
    assert (code, "no server answers" in error["message"]) == (75, True)
