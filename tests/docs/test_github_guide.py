"""docs/guides/github.md: what is typed there works, on stand-ins for GitHub's API and for `gh`, and its policies are
accepted."""

from __future__ import annotations

import hmac
import json
import shutil
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.markdown import blocks, read
from tests.docs.shop import Shop
from tests.github.fake_writes import WritableApi
from tests.github.payloads import issue
from tests.kit.waiting import PATIENCE_SECONDS

GUIDE = read("docs/guides/github.md")
WATCH, SERVE, IMPORT, TRY = blocks(GUIDE, "sh")
OUT, CONTRACT, POLICY = blocks(GUIDE, "toml")
#: Prints one issue with the fields that it is asked for, and refuses a field that the real program does not have.
GH = f"""#!{sys.executable}
import json, sys
has = dict(number=12, title="Login fails", body="", labels=[], state="OPEN", author={{"login": "ann"}},
           url="https://github.com/acme/shop/issues/12", updatedAt="2026-11-16T09:00:00Z")
assert sys.argv[1:3] == ["issue", "list"]
print(json.dumps([{{name: has[name] for name in sys.argv[sys.argv.index("--json") + 1].split(",")}}]))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A folder with a board, and a program called `gh`."""
    shop = Shop(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text(GH)
    (programs / "gh").chmod(0o755)
    shop.environment["PATH"] = f"{programs}:{shop.environment['PATH']}"
    assert shop.type("dibs init").returncode == 0
    return shop


def type_all(shop: Shop, block: str) -> str:
    done = shop.type(f"set -e\n{block}")
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_watcher_reads_and_writes(shop: Shop) -> None:
    with WritableApi() as api:
        api.put_issue(12, labels=["bug"])
        shop.environment["GITHUB_API_URL"] = api.url
        type_all(shop, WATCH.replace("acme/shop     # every minute, until interrupted", "acme/shop --once"))
        (item,) = shop.answer("dibs list --subject github:acme/shop#12")["items"]
        assert (item["type"], item["priority"]) == ("issue_triage", 8)
        assert api.bodies() == [], "nothing is written unless it is configured"
        (shop.folder / "dibs.toml").write_text(OUT)
        type_all(shop, "dibs claim --subject github:acme/shop#12 --agent claude-1 --session c-1")
        type_all(shop, WATCH.splitlines()[0] + "\n" + WATCH.splitlines()[-1])
        (comment,) = api.bodies()
        assert "claude-1" in comment
        assert "dibs: in progress" in api.labels()
        assert api.assignees() == ["octocat"]


def test_an_import_brings_what_gh_lists(shop: Shop) -> None:
    assert "would add 1 item" in type_all(shop, IMPORT)
    (item,) = shop.answer("dibs list --subject github:acme/shop#12")["items"]
    assert item["status"] == "pending_approval", "gh does not say whether the author is a member"


def test_a_server_takes_a_delivery_that_is_signed(shop: Shop) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on this machine")
    line = SERVE.replace("dibs serve ", 'echo "$DIBS_GITHUB_SECRET"\nexec dibs serve --port 0 --json ')
    command = ["sh", "-ec", line]
    environment = {**shop.environment, "LOGNAME": "you"}
    with subprocess.Popen(command, cwd=shop.folder, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            secret = server.stdout.readline().strip()
            url = urlsplit(json.loads(server.stdout.readline())["serving"]["url"])
            body = json.dumps(issue(12)).encode()
            headers = {
                "Host": "board.example.org",
                "Content-Type": "application/json",
                "X-GitHub-Event": "issues",
                "X-GitHub-Delivery": "d-1",
                "X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}",
            }
            connection = HTTPConnection(str(url.hostname), int(url.port or 0), timeout=PATIENCE_SECONDS)
            connection.request("POST", "/webhooks/github", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            connection.close()
        finally:
            server.terminate()
    (item,) = shop.answer("dibs list --subject github:acme/shop#12")["items"]
    assert item["type"] == "issue_triage"


@pytest.mark.parametrize("policy", [OUT, CONTRACT, POLICY], ids=["out", "contract", "policy"])
def test_a_policy_is_accepted(shop: Shop, policy: str) -> None:
    (shop.folder / "dibs.toml").write_text(policy)
    assert shop.answer("dibs config --check")["mistakes"] == []
    (shop.folder / "dibs.toml").write_text(policy.replace("[github", "[githob", 1))
    assert shop.answer("dibs config --check")["mistakes"] != []


def test_a_payload_can_be_tried(shop: Shop) -> None:
    (shop.folder / "dibs.toml").write_text(POLICY)
    for labels, steps in (["wontfix"], []), (["bug"], ["add"]):
        (shop.folder / "payload.json").write_text(json.dumps(issue(12, labels=labels)))
        found = shop.answer(TRY.strip())
        assert [step["verb"] for step in found["steps"]] == steps, found
    assert shop.answer("dibs list --all")["items"] == []
