"""Drafts, who may say yes to them, and what agents may do, hold and how fast."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal

DRAFT = "Dear customer,\n\nwe fixed it — überall.\n"


@pytest.fixture
def alice(dibs: Dibs) -> Dibs:
    """The same board, as a person: no session, no agent."""
    names = ("DIBS_SESSION", "DIBS_AGENT")
    return Dibs(dibs.folder, {name: value for name, value in dibs.environment.items() if name not in names})


@pytest.fixture
def drafted(dibs: Dibs) -> Dibs:
    """An item whose draft, by coder, waits for approval."""
    dibs.ok("add", "Answer the customer", "--id", "x", "--action", "send")
    dibs.ok("claim", "x")
    dibs.ok("submit", "x", "--draft", "-", "--note", "first try", "--link", "branch=mail", input=DRAFT)
    return dibs


def test_submit_ends_the_run_with_a_draft(dibs: Dibs) -> None:
    (dibs.folder / "draft.md").write_text(DRAFT)
    for words, stdin in ((("--draft", DRAFT), None), (("--draft", "-"), DRAFT), (("--draft-file", "draft.md"), None)):
        id = dibs.json("add", "t")["item"]["id"]
        dibs.ok("claim", id)
        ended = dibs.json("submit", id, *words, "--note", "n", input=stdin)
        assert (ended["item"]["status"], ended["run"]["outcome"]) == ("pending_approval", "submitted")
        assert (ended["run"]["draft"], ended["run"]["reason"]) == (DRAFT, "n")


def test_submit_needs_one_draft(dibs: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    assert dibs("submit", "x").returncode == 2
    assert dibs("submit", "x", "--draft", "a", "--draft-file", "b").returncode == 2
    assert dibs.refused("submit", "x", "--draft-file", "nowhere.md")[1]["field"] == "draft_file"
    assert dibs.refused("submit", "x", "--draft", "-", input=b"caf\xe9")[1]["field"] == "draft"


def test_show_has_the_draft_and_what_to_type(drafted: Dibs) -> None:
    told = drafted.ok("show", "x")
    assert "  waits for approval: dibs approve x --revision 4, or send-back, or reject\n" in told
    assert "    | Dear customer,\n    |\n    | we fixed it — überall.\n" in told
    line = drafted.ok("log", "x").splitlines()[-1]
    assert "submitted" in line
    assert "draft: Dear customer," in line


def test_an_approved_item_may_be_done_and_everyone_sees_by_whose_word(drafted: Dibs, alice: Dibs) -> None:
    assert "now ready" in alice.ok("approve", "x", "--comment", "go ahead")
    item = drafted.json("show", "x")["item"]
    assert (item["status"], item["approved"]) == ("ready", True)
    assert "approved by alice" in drafted.ok("show", "x")
    assert drafted.ok("log", "x").splitlines()[-2].split()[1:] == ["approved", "alice", "go", "ahead"]
    assert re.search(r"approved by alice .*: go ahead", drafted.ok("claim", "x"))
    drafted.ok("done", "x")


def test_an_approval_can_name_the_draft_that_was_read(drafted: Dibs, alice: Dibs) -> None:
    assert re.search(r"draft by coder .* · token 1", alice.ok("show", "x"))
    alice.ok("send-back", "x", "--comment", "shorter")
    drafted.ok("claim", "x")
    drafted.ok("submit", "x", "--draft", "Fixed.")
    code, error = alice.refused("approve", "x", "--token", "1")
    assert (code, error["code"], error["draft_token"]) == (4, "TASK_NOT_CLAIMABLE", 2)
    assert "its draft is from run 2, by coder; read it first" in error["message"]
    assert alice.json("approve", "x", "--token", "2")["item"]["approved"]


def test_a_decision_names_the_revision_that_was_read(drafted: Dibs, alice: Dibs) -> None:
    drafted.ok("edit", "x", "--body", "and transfer the money", "--revision", "4")
    for line in (("approve", "x"), ("send-back", "x", "--comment", "no"), ("reject", "x", "--reason", "no")):
        code, error = alice.refused(*line, "--revision", "4")
        assert (code, error["code"], error["revision"], error["changed_by"]) == (4, "TASK_CHANGED", 5, "coder")
        assert "x is at revision 5 (edited by coder), not 4; read it again with: dibs show x" in error["message"]
    assert drafted.refused("edit", "x", "--title", "t", "--revision", "4")[1]["code"] == "TASK_CHANGED"
    assert alice.json("approve", "x", "--revision", "5")["item"]["approved"]


def test_a_person_at_a_terminal_approves_what_was_shown(drafted: Dibs, alice: Dibs) -> None:
    with Terminal("dibs approve x", alice.folder, alice.environment) as terminal:
        shown = terminal.read_until("[y/N] ")
        assert "Dear customer," in shown
        assert "approve revision 4 of x?" in shown
        drafted.ok("edit", "x", "--body", "and transfer the money")
        terminal.type("y\n")
        assert "x is at revision 5 (edited by coder), not 4" in terminal.read_to_end()
    for answer, then in (("n", "pending_approval"), ("y", "ready")):
        with Terminal("dibs approve x", alice.folder, alice.environment) as terminal:
            terminal.read_until("[y/N] ")
            terminal.type(f"{answer}\n")
            terminal.read_to_end()
        assert drafted.json("show", "x")["item"]["status"] == then


def test_who_carries_it_out_reads_the_draft_that_was_approved(drafted: Dibs, other: Dibs, alice: Dibs) -> None:
    alice.ok("approve", "x")
    for _ in range(2):
        told = other.ok("claim", "x")
        assert re.search(r"the approved draft, by coder · token 1\n    \| Dear customer,\n", told)
        other.ok("release", "x")
    assert other.json("claim", "x")["approval"]["run"]["draft"] == DRAFT


def test_a_draft_can_be_all_there_was_to_do(drafted: Dibs, alice: Dibs) -> None:
    assert alice.json("approve", "x", "--done")["item"]["status"] == "done"
    assert "the draft is the result" in drafted.ok("log", "x").splitlines()[-1]


def test_a_draft_is_sent_back_with_a_comment_for_the_next_holder(drafted: Dibs, other: Dibs, alice: Dibs) -> None:
    assert alice("send-back", "x").returncode == 2
    assert alice.refused("send-back", "x", "--comment", " ")[1]["field"] == "comment"
    assert alice.json("send-back", "x", "--comment", "shorter,\nplease")["item"]["status"] == "ready"
    claimed = other.ok("claim", "x")
    assert re.search(r"previous run: coder, submitted .*\(first try\)", claimed)
    assert re.search(r"sent back by alice .*: shorter, please", claimed)
    assert "sent back by alice" in drafted.ok("show", "x")


def test_nobody_approves_a_draft_of_its_own(drafted: Dibs, other: Dibs) -> None:
    code, error = drafted.refused("approve", "x")
    assert (code, error["code"], error["agent"]) == (6, "FORBIDDEN", "coder")
    assert other.json("approve", "x")["item"]["status"] == "ready"
    assert drafted.json("events", "--kind", "approved")["events"][0]["actor"] == "reviewer"


def test_an_agent_does_not_pass_for_a_person(drafted: Dibs) -> None:
    # At a terminal too: the environment says that an agent is at work there.
    assert "coder drafted x and cannot approve it" in drafted.terminal("dibs approve x")
    assert drafted.json("approve", "x", "--actor", "bob")["item"]["approved"]
    assert drafted.json("events", "--kind", "approved")["events"][0]["actor"] == "bob"


def test_a_draft_is_rejected_by_whoever_decides(drafted: Dibs, alice: Dibs) -> None:
    assert alice("reject", "x").returncode == 2
    item = alice.json("reject", "x", "--reason", "we do not do that")["item"]
    assert item["status"] == "rejected"
    event = drafted.json("events", "--kind", "rejected")["events"][0]
    assert (event["actor"], event["session"], event["data"]["reason"]) == ("alice", None, "we do not do that")


def test_an_item_in_progress_is_rejected_by_its_holder_only(dibs: Dibs, other: Dibs, alice: Dibs) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    assert alice.refused("reject", "x", "--reason", "no")[0] == 4
    other.ok("session", "start", "--id", "s2")
    assert other.refused("reject", "x", "--reason", "mine")[1]["code"] == "NOT_CLAIM_OWNER"
    assert dibs.ok("reject", "x", "--reason", "cannot be done") == "rejected x  t\n"
    event = dibs.json("events", "--kind", "rejected")["events"][0]
    assert (event["actor"], event["session"], event["token"]) == ("coder", "s1", 1)
    run = dibs.json("runs")["runs"][0]
    assert (run["outcome"], run["reason"]) == ("rejected", "cannot be done")


def test_a_token_rejects_as_the_holder_or_not_at_all(drafted: Dibs) -> None:
    code, error = drafted.refused("reject", "x", "--reason", "no", "--token", "1")
    assert (code, error["how"]) == (4, "submitted")
    assert drafted.json("show", "x")["item"]["status"] == "pending_approval"


def test_an_item_can_need_approval_from_the_start(dibs: Dibs, alice: Dibs) -> None:
    assert "waits for approval" in dibs.ok("add", "t", "--id", "x", "--needs-approval")
    assert dibs.refused("claim", "x")[1]["status"] == "pending_approval"
    alice.ok("approve", "x")
    dibs.ok("claim", "x")
    dibs.ok("release", "x")
    assert dibs.json("edit", "x", "--title", "u")["item"]["status"] == "pending_approval"
    assert "its approval is withdrawn" in dibs.ok("log", "x").splitlines()[-1]


@pytest.mark.parametrize("words", [("submit", "x", "--draft", "d"), ("reject", "x", "--reason", "r")])
def test_a_late_holder_still_submits_and_rejects_if_nobody_took_over(dibs: Dibs, words: tuple[str, ...]) -> None:
    dibs.ok("add", "t", "--id", "x")
    dibs.ok("claim", "x")
    dibs.lapse()
    done = dibs(*words)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "recovered under token 2" in done.stderr


def test_a_policy_says_what_an_agent_does_drafts_and_is_not_given(dibs: Dibs, alice: Dibs) -> None:
    policy = ("--allow", "read", "--allow", "edit", "--sensitive", "send")
    agent = dibs.json("agent", "set", "coder", *policy)["agent"]
    assert (agent["allowed_actions"], agent["sensitive_actions"]) == (["read", "edit"], ["send"])
    for action in ("delete", "send", "edit"):
        dibs.ok("add", "t", "--id", action, "--action", action)
    assert dibs.refused("claim", "delete")[:1] == (6,)
    taken = [grant["item"]["id"] for grant in dibs.json("next", "-n", "5")["claims"]]
    assert taken == ["send", "edit"]
    dibs.ok("done", "edit")
    code, error = dibs.refused("done", "send")
    assert (code, error["code"]) == (6, "FORBIDDEN")
    assert "submit" in error["message"]
    dibs.ok("submit", "send", "--draft", "d")
    alice.ok("approve", "send")
    assert dibs.refused("claim", "send")[0] == 6  # approved ones are for those who may do them
    told = dibs.ok("agent", "list").splitlines()
    assert "may read edit, drafts send" in told[1]


def test_limits_say_when_to_try_again(dibs: Dibs, other: Dibs) -> None:
    limits = ("--max-claims", "2", "--max-claims-total", "3", "--claims-per-minute", "0.5", "--burst", "2")
    assert dibs.ok("agent", "set", "coder", *limits, "--role", "local") == (
        "coder takes every type; at most 2 a session, 3 in all, 0.5 a minute (2 at once); role local\n"
    )
    assert "  2 a session, 3 in all, 0.5 a minute (2 at once)  " in dibs.ok("agent", "list")
    for id in ("a", "b", "c"):
        dibs.ok("add", "t", "--id", id)
    assert len(dibs.json("next", "-n", "3")["claims"]) == 2
    code, error = dibs.refused("claim", "c")
    assert (code, error["code"], error["max_claims"]) == (75, "AGENT_AT_CAPACITY", 2)
    dibs.ok("done", "a")
    code, error = dibs.refused("claim", "c")
    assert (code, error["code"]) == (75, "RATE_LIMITED")
    assert 100 < error["retry_after_seconds"] <= 120
    other.ok("claim", "c")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--claims-per-minute", "fast"), 2),
        (("--claims-per-minute", "0"), 1),
        (("--claims-per-minute", "nan"), 1),
        (("--burst", "0"), 1),
        (("--max-claims-total", "-1"), 1),
        (("--allow", "two words"), 1),
    ],
)
def test_a_limit_that_cannot_be_is_refused(dibs: Dibs, words: tuple[str, ...], code: int) -> None:
    assert dibs.refused("agent", "set", "coder", *words)[0] == code
    assert dibs.json("agent", "list") == {"agents": []}


def test_setting_a_limit_does_not_drop_a_policy(dibs: Dibs) -> None:
    dibs.ok("agent", "set", "mailer", "--allow", "read", "--sensitive", "send")
    agent = dibs.json("agent", "set", "mailer", "--max-claims", "3")["agent"]
    assert (agent["allowed_actions"], agent["sensitive_actions"], agent["max_claims"]) == (["read"], ["send"], 3)


def test_an_agent_that_is_named_annotates_no_run_of_another(dibs: Dibs, alice: Dibs) -> None:
    dibs.ok("add", "t", "--id", "k1")
    dibs.ok("claim", "k1")
    dibs.ok("done", "k1")
    line = ("annotate", "k1", "--check", "ci=bad")
    for words, environment in ((("--agent", "other"), {}), ((), {"DIBS_AGENT": "other"})):
        code, error = alice.refused(*line, *words, environment=environment)
        assert (code, error["code"]) == (4, "NOT_CLAIM_OWNER")
    assert dibs.json("show", "k1")["runs"][0]["checks"] == {}
    alice.ok(*line, "--agent", "coder")
    alice.ok("annotate", "k1", "--check", "ci=passed", "--agent", "other", "--actor", "ci")
    assert dibs.json("show", "k1")["runs"][0]["checks"] == {"ci": {"state": "passed"}}
