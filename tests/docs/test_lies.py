"""The checks of this folder can fail: each document with one lie in it is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import test_guarantees as guarantees
from tests.docs import test_operations as operations
from tests.docs import test_protocol as protocol
from tests.docs import test_readme as readme
from tests.docs import test_reference as reference
from tests.docs import test_references as references
from tests.docs.board import Led
from tests.docs.markdown import ROOT, read
from tests.docs.shop import Shop

Check = Callable[[str], None]


def links_of_readme(text: str) -> None:
    references.check_links(text, ROOT)


def names_of_guarantees(text: str) -> None:
    guarantees.check_named_tests(text, ROOT / "docs")


LIES: tuple[tuple[str, Check, str, str], ...] = (
    ("docs/reference/settings.md", reference.check_settings, "| `max_strikes` | `5` |", "| `max_strikes` | `3` |"),
    ("docs/reference/settings.md", reference.check_settings, "| `max_strikes` |", "| `most_strikes` |"),
    ("docs/reference/settings.md", reference.check_agents, "`claims_burst`", "`burst`"),
    ("docs/reference/environment.md", reference.check_environment, "| `DIBS_STORE` |", "| `DIBS_BOARD` |"),
    ("docs/reference/exit-codes.md", reference.check_exit_codes, "| 75 |", "| 74 |"),
    ("README.md", links_of_readme, "#s1-exclusion", "#s1-inclusion"),
    ("README.md", links_of_readme, "(docs/protocol.md)", "(docs/protocols.md)"),
    ("README.md", references.check_make_targets, "make run ", "make walk "),
    ("README.md", references.check_commands_exist, "`dibs log ITEM`", "`dibs diary ITEM`"),
    ("README.md", references.check_commands_exist, "`dibs work --agent coder", "`dibs work --agents coder"),
    ("docs/start.md", references.check_commands_exist, "dibs next --wait 10m --json", "dibs next --waits 10m --json"),
    ("docs/operations/server.md", references.check_numbers_at_line_starts, "\n2. Verbs", "\n299. Verbs"),
    ("docs/protocol.md", protocol.check_transitions, "| `retry` | `failed` |", "| `retry` | `done` |"),
    (
        "docs/protocol.md",
        protocol.check_transitions,
        "| `park` | `pending_approval`, `blocked`, `scheduled`, `ready` |",
        "| `park` | `pending_approval`, `blocked`, `scheduled` |",
    ),
    ("docs/protocol.md", protocol.check_picture, " retry ", " again "),
    ("docs/protocol.md", protocol.check_picture, "│  blocked ", "│  stopped "),
    ("docs/protocol.md", protocol.check_refusals, "| `CLAIM_EXPIRED` | 410 | 4 |", "| `CLAIM_EXPIRED` | 404 | 4 |"),
    ("docs/protocol.md", protocol.check_verbs, "### force_release", "### forced_release"),
    ("docs/protocol.md", protocol.check_verbs, "- `watch()`", "- `look()`"),
    ("docs/protocol.md", protocol.check_signatures, "`claim(item, session, [agent, ", "`claim(item, session, ["),
    (
        "docs/protocol.md",
        protocol.check_every_verb_says_how_it_is_refused,
        "Refused: `TASK_NOT_FOUND`, `TASK_NOT_CLAIMABLE` (it is not parked).",
        "",
    ),
    ("docs/protocol.md", protocol.check_signatures, "-> Heartbeat`", "-> Renewal`"),
    ("docs/protocol.md", protocol.check_values, "`heartbeat_count` |\n| Grant", "`beats` |\n| Grant"),
    ("docs/protocol.md", protocol.check_example, '"renewed_at"', '"renewed"'),
    ("docs/protocol.md", protocol.check_commands, "| `sweep` | `--limit` |", "| `sweep` | `--most` |"),
    ("docs/protocol.md", protocol.check_commands, "| `show ITEM` |", "| `show` |"),
    ("docs/protocol.md", protocol.check_times, "`8h`, up to `7d`", "`8h`, up to `8d`"),
    ("docs/protocol.md", protocol.check_limits, "1 to 500 characters", "1 to 400 characters"),
    ("docs/protocol.md", protocol.check_priorities, "`security_issue` 9", "`security_issue` 8"),
    (
        "docs/protocol.md",
        protocol.check_resources,
        "| `src/api` | `src/apis` | no |",
        "| `src/api` | `src/apis` | yes |",
    ),
    ("docs/protocol.md", protocol.check_resources, "| `src/api*` | `src` |", "| `src/api*` | `src/api` |"),
    ("docs/protocol.md", protocol.check_approved_content, "payload, type, action", "payload, type, priority"),
    ("docs/protocol.md", protocol.check_identity, "`CODEX_THREAD_ID`", "`CODEX_SESSION_ID`"),
    ("docs/protocol.md", protocol.check_identity, "`GEMINI_CLI`, ", ""),
    ("docs/guarantees.md", guarantees.check_promises, "### S8 history", "### S18 history"),
    ("docs/guarantees.md", names_of_guarantees, "`test_a_run_ends_once`", "`test_a_run_ends_twice`"),
    (
        "docs/guarantees.md",
        names_of_guarantees,
        "(../src/dibs/testing/conformance/states.py)",
        "(../tests/__init__.py)",
    ),
    ("ARCHITECTURE.md", references.check_layers, "`dibs.worker`, ", "`dibs.nurse`, "),
    ("ARCHITECTURE.md", references.check_paths, "`verbs.py`", "`nouns.py`"),
    ("ARCHITECTURE.md", references.check_names, "`TRANSITIONS` in", "`STATES` in"),
    ("ARCHITECTURE.md", references.check_names, "(`feed_enter` in", "(`feed_entry` in"),
    ("ARCHITECTURE.md", references.check_rooms, "    broken/  ", "    sound/   "),
    ("ARCHITECTURE.md", references.check_rooms, "    machine/ reference/", "    machine/           "),
    ("CONTRIBUTING.md", references.check_test_variables, "| `DIBS_TEST_POSTGRES` |", "| `DIBS_POSTGRES` |"),
    (
        "docs/operations/postgresql.md",
        operations.check_url,
        "| `connect_timeout` | `5` |",
        "| `connect_timeout` | `9` |",
    ),
    ("docs/operations/postgresql.md", operations.check_locks, "| (25697, 0) |", "| (25696, 0) |"),
    ("docs/operations/postgresql.md", operations.check_channels, "| `dibs_` and", "| `session_` and"),
    ("docs/operations/postgresql.md", operations.check_figures, "up to **32**", "up to **64**"),
    ("docs/operations/postgresql.md", operations.check_repeatable, "(`next`, `progress`, ", "(`next`, "),
    ("docs/operations/postgresql.md", operations.check_repeatable, "`fail` and `submit` can", "`fail` can"),
    ("docs/operations/postgresql.md", operations.check_bench, "`python -m bench postgres`", "`python -m bench pg`"),
    ("CONTRIBUTING.md", references.check_modules, "`dibs.testing.conformance`", "`dibs.testing.whole`"),
)


@pytest.mark.parametrize(
    ("document", "check", "truth", "lie"), LIES, ids=[f"{check.__name__}:{lie[:30]}" for _, check, _, lie in LIES]
)
def test_a_lie_is_found_out(document: str, check: Check, truth: str, lie: str) -> None:
    check(_doctored(document, truth, truth))
    with pytest.raises(AssertionError):
        check(_doctored(document, truth, lie))


LIES_OF_TRANSCRIPTS = (
    ("README.md", 'echo "exit $?"', "true"),
    ("README.md", "exit 4", "exit 0"),
    ("README.md", "token 1", "token 2"),
    ("docs/guides/waiting.md", "1st in line", "2nd in line"),
    ("docs/guides/waiting.md", "waits for build", "waits for nothing"),
    ("docs/guides/approvals.md", "exit 6", "exit 0"),
)


@pytest.mark.parametrize(("document", "truth", "lie"), LIES_OF_TRANSCRIPTS)
def test_a_lie_in_the_transcript_is_found_out(tmp_path: Path, document: str, truth: str, lie: str) -> None:
    with pytest.raises(AssertionError):
        readme.check_transcript(_doctored(document, truth, lie), Shop(tmp_path))


@pytest.mark.parametrize(
    ("truth", "lie"),
    [
        ("the item is not the caller's | `item`, `holder`,", "the item is not the caller's | `item`,"),
        ("| `agent`, `held`, `max_claims` (", "| `agent`, `held`, `limit` ("),
        ("`item`, `resource`, `held_for`", "`item`, `resource`"),
    ],
)
def test_a_lie_about_facts_is_found_out(led: Led, truth: str, lie: str) -> None:
    protocol.check_facts(read("docs/protocol.md"), led.refusals)
    with pytest.raises(AssertionError):
        protocol.check_facts(_doctored("docs/protocol.md", truth, lie), led.refusals)


@pytest.mark.parametrize(
    ("truth", "lie"),
    [
        ("| `ttl_seconds`, `deadline_at` |", "| `ttl_seconds` |"),
        ("| `retried` |", "| `tried` |"),
        (
            "| `offer_lapsed` | `claim`, `next`, `wait`, `sweep` | `ready` | the waiter |",
            "| `offer_lapsed` | | `ready` | |",
        ),
        ("| `due` |", "| `came_due` |"),
        ("`failures`, [`not_before`, `links`, `cost`]", "`failures`, `not_before`, [`links`, `cost`]"),
        ("`draft`, `needs_approval`, `approved`, [", "`draft`, `needs_approval`, ["),
        ("| `done` | `done` | `done` |", "| `done` | `done` | `failed` |"),
    ],
)
def test_a_lie_about_events_is_found_out(led: Led, truth: str, lie: str) -> None:
    with pytest.raises(AssertionError):
        protocol.check_events(_doctored("docs/protocol.md", truth, lie), led)


@pytest.mark.parametrize(
    ("check", "truth", "lie"),
    [
        (protocol.check_tickets, "| `it was given up` |", "| `it was left` |"),
        (protocol.check_tickets, "could not accept: CODE` |", "could not accept: MESSAGE` |"),
        (protocol.check_activity, "the `status` of the item then", "the `message`"),
        (protocol.check_reasons, "| `BEHIND` | true |", "| `BEHIND` | false |"),
        (protocol.check_reasons, "| `TYPE` |", "| `KIND` |"),
        (protocol.check_records, "| `bucket` | `name`, `bucket`, `bucket_at`", "| `bucket` | `name`, `bucket`"),
        (protocol.check_records, "| `soft_claim` | a SoftClaim |\n", ""),
        (protocol.check_outcomes, "`submitted`, `rejected`, `cancelled`", "`submitted`, `cancelled`"),
    ],
    ids=lambda what: getattr(what, "__name__", str(what)[:30]),
)
def test_a_lie_about_what_was_seen_is_found_out(
    led: Led, check: Callable[[str, Led], None], truth: str, lie: str
) -> None:
    check(_doctored("docs/protocol.md", truth, truth), led)
    with pytest.raises(AssertionError):
        check(_doctored("docs/protocol.md", truth, lie), led)


def _doctored(document: str, truth: str, lie: str) -> str:
    text = read(document)
    assert truth in text, f"{truth!r} does not stand in {document}: the lie is about nothing"
    return text.replace(truth, lie)
