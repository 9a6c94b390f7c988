"""docs/guides/python.md: its programs run, and its figures are those of the code."""

from __future__ import annotations

import sys
from pathlib import Path

from dibs.sdk import claim_handle, claim_keeper, heartbeat, session
from tests.docs.markdown import blocks, prose, read, section
from tests.docs.shop import Shop

GUIDE = read("docs/guides/python.md")
(ITEMS,) = blocks(GUIDE, "sh")


def ran(tmp_path: Path, heading: str) -> dict[str, str]:
    """Run the program under this heading; what became of the items."""
    (program,) = blocks(section(GUIDE, heading), "python")
    shop = Shop(tmp_path)
    shop.type(f"set -e\ndibs init\n{ITEMS}")
    (shop.folder / "program.py").write_text(program)
    done = shop.type(f"{sys.executable} -W error program.py")
    assert done.returncode == 0, done.stdout
    assert shop.answer("dibs sessions")["sessions"] == []
    return {item["id"]: item["status"] for item in shop.answer("dibs list --all")["items"]}


def test_a_session_does_what_there_is_to_do(tmp_path: Path) -> None:
    found = ran(tmp_path, "## A session")
    assert (found["fix-logout"], found["migrate"]) == ("done", "ready")


def test_a_claim_ends_as_it_is_told(tmp_path: Path) -> None:
    found = ran(tmp_path, "## A claim")
    assert (found["fix-login"], found["write-mail"], found["design-logo"]) == ("done", "pending_approval", "ready")


def test_a_loss_is_looked_for(tmp_path: Path) -> None:
    assert ran(tmp_path, "## Lost")["migrate"] == "done"


def test_the_same_is_awaited(tmp_path: Path) -> None:
    found = ran(tmp_path, "## With asyncio")
    assert (found["fix-logout"], found["migrate"]) == ("done", "ready")


def test_the_figures_are_those_of_the_code() -> None:
    said = " ".join(prose(GUIDE).split())
    for words, true in (
        ("at least three times in the TTL", claim_keeper.HEARTBEATS_A_CLAIM == 3),
        ("ten seconds, or `patience_seconds=`", session.PATIENCE_SECONDS == 10),
        (
            "a tenth of the TTL, ten seconds at most",
            (claim_handle.MARGIN_SHARE, claim_handle.MARGIN_SECONDS_MAX) == (0.1, 10),
        ),
        ("for which three seconds are given", heartbeat.GRACE_SECONDS == 3),
        ("for up to twenty seconds", session.WAIT_SECONDS == 20),
    ):
        assert words in said, words
        assert true, words
