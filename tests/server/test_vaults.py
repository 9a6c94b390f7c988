"""A vault behind a server: its files are looked at for every reader, and no reader holds up a write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import connect, make
from dibs.store.sql.transaction import Transaction
from dibs.store.vault.layout import HIDDEN, INDEX
from dibs.store.vault.store import VaultStore
from tests.kit import vault
from tests.server.attacking import Caller
from tests.server.process import Background, Serving, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    folder = tmp_path / "vault"
    make(f"vault:{folder}", folder=str(folder))
    drop(folder, "by-hand")
    with serving(tmp_path, "--quiet", store=f"vault:{folder}") as found:
        yield found


def drop(folder: Path, name: str) -> None:
    (folder / "Needs_Action" / f"{name}.md").write_text("# A task\n")


def test_a_vault_is_worked_on_over_http(server: Serving, tmp_path: Path) -> None:
    folder, admin = tmp_path / "vault", server.admin()
    assert [item["id"] for item in admin.ok("GET", "/v1/items")] == ["by-hand"]
    admin.ok("POST", "/v1/sessions", {"agent": "coder", "id": "s"})
    token = admin.ok("POST", "/v1/items/by-hand/claim", {"session": "s"})["claim"]["token"]
    assert not (folder / "Needs_Action" / "by-hand.md").exists()
    admin.ok("POST", "/v1/items/by-hand/done", {"session": "s", "token": token})
    assert (folder / "Done" / "by-hand.md").exists()
    drop(folder, "later")
    assert admin.ok("GET", "/v1/items?statuses=ready")[0]["id"] == "later"


def test_readers_follow_an_index_that_was_made_anew(server: Serving, tmp_path: Path) -> None:
    folder, admin = tmp_path / "vault", server.admin()
    admin.ok("GET", "/v1/items")
    for suffix in ("", "-wal", "-shm"):
        (folder / HIDDEN / f"{INDEX}{suffix}").unlink(missing_ok=True)
    drop(folder, "later")
    with connect(f"vault:{folder}") as board:
        viewer = Caller(server.url, board.create_key("viewer")[1])
    assert [item["id"] for item in viewer.ok("GET", "/v1/items")] == ["by-hand", "later"]


def test_no_reader_holds_up_a_write_to_a_vault(tmp_path: Path) -> None:
    with vault.harness(tmp_path) as harness:
        board = harness.board()
        assert isinstance(board.store, VaultStore)
        board.store.separate_readers()
        board.add("A task", id="one")

        def read(t: Transaction) -> object:
            assert t.one("item_by_id", id="one") is not None
            assert Background(lambda: board.add("A task", id="two")).result() is not None
            return t.one("item_by_id", id="two")

        # Who reads has one snapshot, whatever is written meanwhile.
        assert board.store.read(read) is None
        assert [item.id for item in board.list()] == ["one", "two"]
