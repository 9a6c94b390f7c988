"""How every snippet of every document is tested: one entry for each fenced block, in the order of the page.

`Run` names the test that runs the block. `Checked` names the test that reads it without running it, and says why it is
not run. `NotRun` says why no test reads it, beyond what `test_snippets.py` does: every call of dibs in it can be typed.
"""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    test: str


class Checked(NamedTuple):
    test: str
    reason: str


class NotRun(NamedTuple):
    reason: str


Entry = tuple[str, Run | Checked | NotRun]
#: Blocks in these languages are snippets. Others (`text`, `diff`, `markdown`) show output or the content of a file.
LANGUAGES = {"sh", "shell", "bash", "console", "python", "sql", "toml", "json", "yaml", "ini", "http", "nginx", "caddy"}

PIP = NotRun("it installs a published package, and tests use no package index")
MAKE = Checked("test_references.check_make_targets", "these targets run the tests themselves, or run for minutes")
TRANSCRIPT = Run("test_readme.test_the_transcript_is_what_happens")
ENGINE = "it needs a container engine or a cluster"
OTHER_MACHINES = "it serves other machines, or needs certificates of a domain"
PROXIES = Run("test_proxies.test_the_block_of_a_proxy_passes_host_bodies_and_events")
CONTRACTS = Run("test_server_contracts.test_every_request_is_answered_as_it_stands_there")
SMALL_STORE = Checked(
    "test_testing_a_store.test_the_code_that_is_shown_is_that_of_the_small_store",
    "a part of examples/small_store",
)
FLEET = Run("test_fleet_guides.test_a_fleet_of_claude_code")
QUERY = Run("test_sql.test_each_query_gives_the_result_that_is_shown")
ROLES = Run("test_operations.test_the_app_does_everything_but_change_the_schema_or_replace_the_board")
ACCEPTED = Run("test_operations.test_every_line_of_sql_is_accepted")
POSTGRES = Run("tests/e2e/test_postgres_cli.test_the_guide_works_as_it_stands")
ORCHESTRATORS = Run("test_orchestrators_guide.test_of_three_hooks_for_one_issue_one_lets_its_agent_start")
SERVER = Run("test_server.test_what_the_guide_types_works")
MEASUREMENTS = Checked(
    "test_other_snippets.test_the_parts_of_the_measurements_are_listed",
    "the first line is run; the others measure for minutes",
)

LEDGER: dict[str, tuple[Entry, ...]] = {
    "AGENTS.md": (("shell", MAKE),),
    "CONTRIBUTING.md": (("python", NotRun("a part of a test, whose fixtures are those of tests/agents")),),
    "README.md": (
        ("shell", MAKE),
        ("shell", PIP),
        ("console", TRANSCRIPT),
        ("shell", Run("test_other_snippets.test_a_client_is_set_up")),
    ),
    "docs/guides/agents.md": (
        ("shell", Run("test_other_snippets.test_a_client_is_set_up")),
        ("shell", Run("test_other_snippets.test_tasks_are_linked")),
    ),
    "docs/guides/approvals.md": (("console", TRANSCRIPT),),
    "docs/guides/claude-code.md": (("shell", FLEET),) * 5,
    "docs/guides/codex.md": (("shell", Run("test_fleet_guides.test_codex")),) * 2,
    "docs/guides/commands.md": (
        ("sh", Run("test_commands_guide.test_what_the_guide_types_works")),
        (
            "ini",
            Checked("test_other_snippets.test_the_service_of_a_worker_starts_what_there_is", "it is a unit of systemd"),
        ),
    ),
    "docs/guides/github.md": (
        ("sh", Run("test_github_guide.test_a_watcher_reads_and_writes")),
        ("toml", Run("test_github_guide.test_a_watcher_reads_and_writes")),
        ("sh", Run("test_github_guide.test_a_server_takes_a_delivery_that_is_signed")),
        ("sh", Run("test_github_guide.test_an_import_brings_what_gh_lists")),
        ("toml", Run("test_github_guide.test_a_policy_is_accepted")),
        ("toml", Run("test_github_guide.test_a_payload_can_be_tried")),
        ("sh", Run("test_github_guide.test_a_payload_can_be_tried")),
    ),
    "docs/guides/guard.md": (("sh", Run("test_guard.test_what_the_guide_types_works")),),
    "docs/guides/mcp.md": (
        ("json", Run("test_other_snippets.test_a_client_starts_the_server_on_its_streams")),
        ("toml", Run("test_other_snippets.test_a_client_starts_the_server_on_its_streams")),
        ("json", Run("test_other_snippets.test_a_client_reaches_the_server_over_http")),
        ("json", Run("test_other_snippets.test_a_model_reads_the_answers_that_are_shown")),
        ("json", Run("test_other_snippets.test_a_model_reads_the_answers_that_are_shown")),
        ("console", TRANSCRIPT),
    ),
    "docs/guides/orchestrators.md": (
        ("sh", ORCHESTRATORS),
        ("sh", ORCHESTRATORS),
        ("sh", ORCHESTRATORS),
        ("yaml", ORCHESTRATORS),
        (
            "sh",
            Run(
                "test_orchestrators_guide.test_a_wrapped_program_runs_while_its_item_is_held_and_its_exit_ends_the_item"
            ),
        ),
        ("sh", Run("test_orchestrators_guide.test_a_dispatcher_hands_over_what_it_claimed")),
    ),
    "docs/guides/postgresql.md": (("shell", PIP), ("sh", POSTGRES), ("sh", POSTGRES), ("sh", POSTGRES)),
    "docs/guides/python.md": (
        ("sh", Run("test_python.test_a_session_does_what_there_is_to_do")),
        ("python", Run("test_python.test_a_session_does_what_there_is_to_do")),
        ("python", Run("test_python.test_a_claim_ends_as_it_is_told")),
        ("python", Run("test_python.test_a_loss_is_looked_for")),
        ("python", Run("test_python.test_the_same_is_awaited")),
    ),
    "docs/guides/server-contracts.md": (("http", CONTRACTS),) * 11,
    "docs/guides/server.md": (
        ("shell", PIP),
        ("console", SERVER),
        ("sh", SERVER),
        ("sh", SERVER),
        ("sh", SERVER),
        ("sh", Run("tests/server/test_key_rotation.test_the_command_names_replaces_and_lists_keys")),
        ("sh", Checked("test_server.test_every_line_that_serves_can_be_typed", OTHER_MACHINES)),
        ("sh", Checked("test_server.test_every_line_that_serves_can_be_typed", OTHER_MACHINES)),
        ("nginx", PROXIES),
        ("caddy", PROXIES),
    ),
    "docs/guides/testing-a-store.md": (
        ("sh", PIP),
        *(("python", SMALL_STORE),) * 4,
        ("sh", Run("test_testing_a_store.test_the_command_passes_on_the_small_store")),
        ("sh", Run("test_testing_a_store.test_the_whole_suite_passes_on_the_small_store")),
        ("sh", Run("test_testing_a_store.test_the_mistake_is_found_as_it_is_shown")),
    ),
    "docs/guides/vault.md": (("sh", Run("test_fleet_guides.test_a_vault_and_its_clones")),) * 2,
    "docs/guides/waiting.md": (("console", TRANSCRIPT),) * 2,
    "docs/guides/webhooks.md": (
        ("shell", Run("test_other_snippets.test_webhooks_are_added")),
        ("python", Run("test_webhooks.test_the_receiver_of_the_guide_verifies")),
        ("shell", Run("test_other_snippets.test_webhooks_are_added")),
        ("shell", Run("test_other_snippets.test_webhooks_are_added")),
    ),
    "docs/guides/workers.md": (
        ("python", Run("test_workers.test_the_first_program_works")),
        ("python", Run("test_other_snippets.test_a_claim_is_verified_before_what_cannot_be_undone")),
        ("sh", Run("test_workers.test_the_pair_is_made_as_it_is_typed")),
        ("sh", Run("test_workers.test_the_pair_is_made_as_it_is_typed")),
    ),
    "docs/guides/worktrees.md": (("sh", Run("test_worktrees_guide.test_what_the_guide_types_works")),),
    "docs/install.md": (
        ("shell", PIP),
        ("shell", NotRun("uvx downloads a published package, and tests use no package index")),
        ("shell", Run("test_other_snippets.test_completion_is_loaded_by_a_shell")),
        ("shell", MAKE),
    ),
    "docs/operations/backup.md": (("shell", Run("test_fleet_guides.test_backing_up_and_upgrading")),) * 2,
    "docs/operations/containers.md": (
        ("shell", Checked("test_other_snippets.test_the_names_in_lines_for_containers_are_those_of_the_files", ENGINE)),
    )
    * 3,
    "docs/operations/leaving.md": (("shell", Run("test_fleet_guides.test_leaving_without_a_trace")),),
    "docs/operations/metrics.md": (
        ("yaml", Checked("test_other_snippets.test_prometheus_asks_where_the_server_is", "it is for Prometheus")),
    ),
    "docs/operations/performance.md": (("sh", MEASUREMENTS),),
    "docs/operations/postgresql.md": (
        ("sql", ROLES),
        ("sql", ROLES),
        ("sh", Run("test_operations.test_a_board_is_made_as_it_is_told")),
        ("sql", ROLES),
        ("sh", Run("test_operations.test_a_board_that_went_back_gives_no_token_again")),
        ("sh", Run("test_operations.test_a_dump_is_the_same_board")),
        ("sql", ACCEPTED),
        ("sql", ACCEPTED),
        ("sql", ACCEPTED),
    ),
    "docs/operations/scaling.md": (("sh", MEASUREMENTS),),
    "docs/operations/server.md": (
        ("toml", Run("test_server.test_the_configuration_is_accepted")),
        ("ini", Checked("test_server.test_the_unit_starts_what_there_is", "it is a unit of systemd")),
        ("sh", Checked("test_server.test_every_line_that_serves_can_be_typed", OTHER_MACHINES)),
    ),
    "docs/operations/sql.md": (
        ("sql", Run("test_sql.test_the_example_is_what_happens")),
        ("sql", Run("test_sql.test_the_lines_for_cron_schedule_what_can_be_run")),
        ("sql", Run("test_sql.test_the_lines_for_cron_schedule_what_can_be_run")),
        ("ini", NotRun("it is for PostgREST, which tests do not install")),
        ("sql", Run("tests/sources/test_story_011_clients.py")),
        *(("sql", QUERY),) * 12,
    ),
    "docs/operations/trust.md": (("shell", Run("test_other_snippets.test_a_group_shares_a_board")),),
    "docs/operations/upgrade.md": (("shell", Run("test_fleet_guides.test_backing_up_and_upgrading")),),
    "docs/protocol.md": (
        ("json", Checked("test_protocol.check_example", "it is an answer, not a call")),
        ("json", Checked("test_protocol.check_vitals", "it is a message, not a call")),
    ),
    "docs/reference/settings.md": (("toml", Run("test_reference.test_the_configuration_is_accepted")),),
    "docs/start.md": (
        ("console", TRANSCRIPT),
        ("sh", Run("test_readme.test_the_agents_lines_work_as_they_stand")),
        ("python", Run("test_readme.test_the_python_snippet_runs")),
    ),
}
