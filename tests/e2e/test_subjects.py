"""Subjects and hand-overs on the command line, in Python and over MCP: options, lines, exit codes."""

from __future__ import annotations

import json
import subprocess

import pytest

from dibs.board import Board, connect
from dibs.errors import NotClaimOwner, SessionNotFound
from tests.e2e.conftest import Dibs

ISSUE = "github:acme/shop#12"


def test_a_subject_is_claimed_shown_listed_and_refused(dibs: Dibs, other: Dibs) -> None:
    told = dibs.ok("claim", "--subject", ISSUE, "--title", "Fix login", "--type", "bug", "--label", "ui", "--ttl", "5m")
    assert "claimed" in told
    assert "Fix login" in told
    (item,) = dibs.json("list", "--subject", ISSUE)["items"]
    assert (item["subject"], item["type"], item["labels"], item["assignee"]) == (ISSUE, "bug", ["ui"], "coder")
    assert f"subject {ISSUE}" in dibs.ok("show", item["id"])
    refused = other("claim", "--subject", ISSUE)
    assert refused.returncode == 4
    assert f"{item['id']} is already claimed by coder" in refused.stderr
    dibs.ok("done", item["id"])
    assert "is already done" in other("claim", "--subject", ISSUE).stderr
    assert item["id"] in dibs.ok("list", "--subject", ISSUE), "it is listed in any status"
    assert f"{item['id']} has this subject already" in dibs.ok("add", "Again", "--subject", ISSUE)


def test_a_line_that_makes_no_sense_is_refused_and_changes_nothing(dibs: Dibs) -> None:
    dibs.ok("add", "X", "--id", "x")
    for line in (
        ["claim"],
        ["claim", "x", "--subject", "y"],
        ["claim", "--subject", "y", "--soft"],
        ["claim", "x", "--title", "T"],
        ["claim", "x", "--label", "l"],
        ["hand", "x"],
    ):
        assert dibs(*line).returncode == 2, line
    assert len(dibs.json("events")["events"]) == 2


@pytest.mark.soak
def test_a_subject_moves_with_the_board(dibs: Dibs) -> None:
    dibs.ok("add", "X", "--id", "x", "--subject", ISSUE)
    dibs.ok("copy", ".", "copy.db")
    assert dibs.json("list", "--subject", ISSUE, "--store", "copy.db")["items"][0]["id"] == "x"
    dibs.ok("backup", "monday.db")
    dibs.ok("edit", "x", "--subject", "")
    assert dibs.json("show", "x")["item"]["subject"] is None
    dibs.ok("restore", "monday.db", "--yes")
    assert dibs.json("show", "x")["item"]["subject"] == ISSUE


def test_a_claim_is_handed_over(dibs: Dibs, other: Dibs) -> None:
    dibs.ok("add", "X", "--id", "x")
    other.ok("session", "start", "--id", "s2", "--agent", "reviewer")
    dibs.ok("claim", "x")
    assert "handed x to reviewer (session s2)" in dibs.ok("hand", "x", "--to", "s2", "--reason", "yours")
    assert dibs("done", "x").returncode == 4
    assert "handed" in dibs.ok("log", "x")
    assert "to session s2 · yours" in dibs.ok("log", "x")
    assert dibs("hand", "x", "--to", "nobody", "--session", "s2").returncode == 5
    other.ok("done", "x")


def test_nothing_is_handed_to_a_session_whose_owner_is_dead_and_what_was_comes_back(dibs: Dibs) -> None:
    owner = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    dibs.ok("session", "start", "--id", "gone", "--agent", "worker", "--owner-pid", str(owner.pid))
    dibs.ok("add", "X", "--id", "x")
    dibs.ok("claim", "x")
    told = dibs.ok("hand", "x", "--to", "gone", "--brief")
    assert json.loads(told) == {"handed": "x", "to": "gone", "agent": "worker"}
    owner.kill()
    owner.communicate()
    assert dibs.json("claim", "x")["claim"]["token"] == 3
    assert [run["outcome"] for run in dibs.json("runs")["runs"]] == [None, "owner_died", "handed"]
    refused = dibs("hand", "x", "--to", "gone")
    assert refused.returncode == 5
    assert "its owner process died" in refused.stderr
    dibs.ok("done", "x")


def test_a_program_claims_a_subject_and_hands_it_over(dibs: Dibs) -> None:
    with connect(folder=str(dibs.folder)) as board:
        other = board.start_session("reviewer").id
        with board.session(agent="coder") as me:
            claim = me.claim_subject(ISSUE, title="Fix login", priority="high")
            assert (claim.item.subject, claim.item.priority) == (ISSUE, 8)
            assert claim.hand(other, "yours").claim.session == other
            assert (claim.outcome, me.claims) == ("handed", ())
            with pytest.raises(SessionNotFound):
                me.claim_subject("another").hand("nobody")
        assert _holder(board, claim.item.id) == other
        with pytest.raises(NotClaimOwner):
            board.done(claim.item.id, session=me.id, token=claim.token)


def _holder(board: Board, item: str) -> str | None:
    claim = board.get(item).claim
    return None if claim is None else claim.session
