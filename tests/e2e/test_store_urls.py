"""The URL of a database: what is wrong with it is said in one line, and the password in it is never said at all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.conftest import Dibs

SECRET = "xyzzy"
NO_SUCH_SERVER = f"postgresql://me:{SECRET}@127.0.0.1:1/work"
#: A machine on which nobody installed psycopg.
WITHOUT_PSYCOPG = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("psycopg"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from dibs.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("words", [("list",), ("init",), ("migrate",), ("doctor",), ("claim", "x")], ids=" ".join)
def test_without_psycopg_it_says_the_line_to_type(dibs: Dibs, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", WITHOUT_PSYCOPG, *words, "--store", NO_SUCH_SERVER]
    done = subprocess.run(
        command, cwd=dibs.folder, env=dibs.environment, capture_output=True, text=True, start_new_session=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "dibs: a board on PostgreSQL needs psycopg; get it with: pip install 'calldibs[postgres]'\n"


WRONG = {
    "no port": f"postgresql://me:{SECRET}@host:port/work",
    "no host": f"postgresql://me:{SECRET}/work",
    "a broken address": f"postgresql://me:{SECRET}@[::1/work",
    "no such setting": f"postgresql://me:{SECRET}@host/work?nonsense=1",
    "a percent sign": f"postgresql://me:{SECRET}%@host/work",
    "no slashes": f"postgresql:me:{SECRET}@host/work",
    "a password with @": f"postgresql://me:a@{SECRET}@host/work",
    "a password with /": f"postgresql://me:1/{SECRET}@host/work",
    "no UTF-8": f"postgresql://me:{SECRET}@host/caf\udce9",
}


@pytest.mark.parametrize("url", WRONG.values(), ids=WRONG.keys())
def test_a_url_that_is_none_is_refused_without_repeating_it(dibs: Dibs, url: str) -> None:
    code, error = dibs.refused("list", "--store", url)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "store")
    assert "postgresql://USER@HOST:5432/DATABASE" in error["message"]
    plain = dibs("list", environment={"DIBS_STORE": url})
    assert (plain.returncode, plain.stdout, plain.stderr.count("\n")) == (1, "", 1)
    assert SECRET not in f"{error} {plain.stderr}"


LINES = {
    "where an item belongs": ("claim", NO_SUCH_SERVER),
    "one word too many": ("list", NO_SUCH_SERVER),
    "where a command belongs": (NO_SUCH_SERVER,),
    "where a number belongs": ("list", "--limit", NO_SUCH_SERVER),
    "where a duration belongs": ("claim", "x", "--ttl", NO_SUCH_SERVER),
    "a misspelt kind": ("list", "--store", f"postgrsql://me:{SECRET}@host/work"),
    "a misspelt option": ("list", f"--stor={NO_SUCH_SERVER}"),
    "a server that is not there": ("list", "--store", NO_SUCH_SERVER),
    "a board made there": ("init", "--store", NO_SUCH_SERVER),
    "a password among the settings": ("list", "--store", f"postgresql://127.0.0.1:1/work?password={SECRET}"),
    "a copy to where nothing is": ("copy", ".", NO_SUCH_SERVER),
    "a copy to itself": ("copy", NO_SUCH_SERVER, NO_SUCH_SERVER),
    "a file to read": ("import", NO_SUCH_SERVER),
    "a file to back up to": ("backup", NO_SUCH_SERVER),
    "a file to bring back": ("restore", NO_SUCH_SERVER, "--yes"),
    "a file to export to": ("export", NO_SUCH_SERVER),
}


@pytest.fixture(scope="module")
def impatient(shared: Dibs) -> Dibs:
    """A board whose clients do not wait long for a server to come back."""
    (shared.folder / "dibs.toml").write_text("[board]\nlock_wait_seconds = 0.1\n")
    return shared


@pytest.mark.parametrize("words", LINES.values(), ids=LINES.keys())
def test_no_refusal_tells_a_password(impatient: Dibs, words: tuple[str, ...]) -> None:
    for line in (words, (*words, "--json")):
        done = impatient(*line)
        assert done.returncode != 0
        assert SECRET not in done.stdout + done.stderr


WRONG_SERVERS = {
    "no port": f"http://me:{SECRET}@host:port",
    "a port beyond all": f"http://me:{SECRET}@host:99999",
    "a broken address": f"http://me:{SECRET}@[::1",
    "no slashes": "http:127.0.0.1:8377",
    "no host": "http://",
    "a host with a space": "http://a b:8377",
    "a host that is too long": f"https://{'a' * 64}.example.org",
}


@pytest.mark.parametrize("url", WRONG_SERVERS.values(), ids=WRONG_SERVERS.keys())
def test_a_url_of_a_server_that_is_none_is_refused_without_repeating_it(dibs: Dibs, url: str) -> None:
    code, error = dibs.refused("list", "--store", url)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "store")
    assert "an example is http://127.0.0.1:8377" in error["message"]
    assert SECRET not in f"{error}"


@pytest.mark.parametrize("tail", ["/board", "/v1/", "?a=b", "/#x"])
def test_what_follows_the_name_of_a_server_is_not_dropped_without_a_word(dibs: Dibs, tail: str) -> None:
    code, error = dibs.refused("list", "--store", f"http://me:{SECRET}@127.0.0.1:1{tail}")
    assert (code, error["code"], error["field"]) == (1, "INVALID", "store")
    assert "as in http://127.0.0.1:1" in error["message"]
    assert SECRET not in f"{error}"


def test_a_database_does_not_know_who_serves_it(dibs: Dibs) -> None:
    code, error = dibs.refused("key", "link", "--store", NO_SUCH_SERVER)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "url")
    assert "--url" in error["message"]
    assert SECRET not in f"{error}"


def test_a_link_to_what_is_no_server_is_refused(dibs: Dibs) -> None:
    code, error = dibs.refused("key", "link", "--url", "http://host:port")
    assert (code, error["code"], error["field"]) == (1, "INVALID", "url")
