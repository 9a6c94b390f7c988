"""`dibs demo`: a server and a fleet of real worker processes on a temporary board.

Four workers share eight items, two of them over HTTP and two on the file. Two claim the same item, one is killed, one
is stopped until its claim has expired and continues too late. A fifth may only draft, you approve, and a sixth carries
out what was approved. The output comes from the board's own feed, and the statements at the end are checked against the
board: the demo succeeds only if all of them are true. Where no server can start, all workers use the file.
"""

from __future__ import annotations

import signal
import sys

from dibs.board import connect
from dibs.cli.context import Cli
from dibs.cli.demo_stage import Report, Stage
from dibs.cli.event_lines import item_lines
from dibs.cli.render import Paint, terminal_columns
from dibs.cli.wait import exit_on_termination
from dibs.errors import ClaimExpired, ItemAlreadyClaimed
from dibs.files import durable
from dibs.maintenance.doctor import examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Run

#: The exit code if a statement is false.
FAILED = 1
TTL_SECONDS = 2
ITEMS = (
    ("fix-login", "Login fails on Safari", "bug", "critical"),
    ("search-index", "Rebuild the search index", "feature", "high"),
    ("payment-retry", "Retry payments that time out", "bug", "high"),
    ("dark-mode", "Dark mode for the settings", "feature", "medium"),
    ("rate-limit", "Limit requests by key", "feature", "medium"),
    ("export-csv", "Export reports as CSV", "feature", "medium"),
    ("api-docs", "Document the webhooks", "docs", "docs"),
    ("drop-legacy", "Remove the old importer", "refactoring", "low"),
)
#: The item that needs approval.
LETTER = ("tell-them", "The login works again", "letter", "send")
#: Of each worker: the seconds that it takes for an item and for its first one, and whether it works over HTTP.
WORKERS = {
    "ada": (0.6, 0.0, False),
    "ben": (0.7, 0.0, False),
    "cleo": (0.6, 60.0, True),
    "dan": (0.6, 2.0 * TTL_SECONDS, True),
}


def demo(cli: Cli) -> int:
    exit_on_termination()
    with durable.OwnFolder("dibs-demo-", inner=("dibs/servers", "dibs")) as folder:
        with open(f"{folder}/dibs.toml", "w") as file:
            file.write(f"[board]\nttl_seconds = {TTL_SECONDS}\nttl_seconds_min = 1\n")
        with (
            connect(f"{folder}/board.db", folder=folder, create=True, actor="you") as board,
            Stage(folder, cli.paint, silent=cli.json) as stage,
        ):
            _play(stage, board, cli.paint)
            shown = all(stage.checks.values())
            if cli.json:
                cli.print_json({"shown": shown, "checks": stage.checks})
            return 0 if shown else FAILED


def _play(stage: Stage, board: Board, paint: Paint) -> None:
    url, server = stage.serve()
    stage.heading("A board is one file", stage.file)
    stage.line(_server_line(url, server, paint))
    id, title, type, action = LETTER
    for name in WORKERS:
        board.set_agent(name, types=sorted({type for _, _, type, _ in ITEMS}))
    board.set_agent("cloud", types=[type], sensitive_actions=[action])
    board.set_agent("local", types=[type], allowed_actions=[action], sensitive_actions=[action])
    for item, does, kind, priority in ITEMS:
        board.add(does, id=item, type=kind, priority=priority)
    board.add(title, id=id, type=type, action=action)
    stage.until("added", item=id)

    stage.heading("Two claim the same item", "one gets it, the other learns who holds it")
    for name, (seconds, first_seconds, over_http) in WORKERS.items():
        stage.start_worker(name, url if url and over_http else stage.file, seconds, first_seconds)
    for name in WORKERS:
        stage.until("hello", agent=name)
    stage.order("claim " + ITEMS[0][0], "ada", "ben")
    won = stage.until("claimed")
    conflict = stage.until("refused")

    stage.heading("The fleet takes the ready items", "the best first, under claims that expire")
    stage.order("work", *WORKERS)
    cleos = stage.until("working", agent="cleo")
    dans = stage.until("working", agent="dan")
    for taken in (cleos, dans):
        stage.until("claimed", item=taken.item, agent=taken.agent)

    stage.heading("One is killed", "its item becomes ready again, and another worker finishes it")
    stage.signal("cleo", signal.SIGKILL, "kill -9, holding " + cleos.item)

    stage.heading("One is stopped", f"after {TTL_SECONDS}s without a heartbeat its claim expires too")
    stage.signal("dan", signal.SIGSTOP, "stopped, holding " + dans.item)
    crash_done = stage.until("done", item=cleos.item)
    freeze_done = stage.until("done", item=dans.item)

    stage.heading("The stopped one continues", "it finishes its work and is refused: too late")
    stage.signal("dan", signal.SIGCONT, "continues with " + dans.item)
    zombie = stage.until("refused", agent="dan")
    for item, *_ in ITEMS:
        stage.until("done", item=item)

    stage.heading("One may only draft", "a person approves, and another carries out exactly that")
    for name, order, store in (("cloud", "draft", url or stage.file), ("local", "carry_out", stage.file)):
        stage.start_worker(name, store, seconds=0)
        stage.order(order, name)
    drafted = stage.until("submitted", item=id)
    board.approve(id, revision=board.get(id).item.revision)
    sent = stage.until("done", item=id)

    stage.heading(f"The history of {dans.item}", "every transition, and who caused it")
    for line in item_lines(board.log(dans.item), paint, terminal_columns(sys.stdout)):
        stage.line(line)
    _verdict(stage, board, won, conflict, cleos, crash_done, dans, freeze_done, zombie, drafted, sent)


def _server_line(url: str | None, server: str, paint: Paint) -> str:
    if url is None:
        return f"  {paint(f'no server: {server}', 'dim')}"
    callers = " and ".join(name for name, (_, _, over_http) in WORKERS.items() if over_http)
    return f"  with a server in front of it, for {callers}  {paint(server, 'dim')}"


def _verdict(
    stage: Stage,
    board: Board,
    won: Report,
    conflict: Report,
    cleos: Report,
    crash_done: Report,
    dans: Report,
    freeze_done: Report,
    zombie: Report,
    drafted: Report,
    sent: Report,
) -> None:
    """Print statements about the run, and check each against the board."""
    stage.heading("What the board recorded", "read from its history")
    ids = [id for id, *_ in ITEMS] + [LETTER[0]]
    events = board.events()
    runs = {id: sorted(board.runs(item=id), key=lambda run: run.token) for id in ids}
    ends = [event.item for event in events if event.kind == "done"]
    overlaps = [
        id
        for id in ids
        for before, after in zip(runs[id], runs[id][1:], strict=False)
        if before.ended_at is None or after.started_at < before.ended_at or after.token <= before.token
    ]
    outcomes = {(run.item, run.agent): run.outcome for id in ids for run in runs[id]}
    checks = {
        f"{len(ids)} items, each done once": sorted(ends) == sorted(ids),
        f"no item was held twice at a time in {sum(map(len, runs.values()))} runs": not overlaps,
        f"{conflict.agent} was refused {won.item} while {won.agent} had it": (
            conflict.code == ItemAlreadyClaimed.code and conflict.agent != won.agent and conflict.item == won.item
        ),
        f"{cleos.item} was released when cleo died, and {crash_done.agent} finished it": (
            outcomes.get((cleos.item, "cleo")) == "owner_died" and crash_done.agent != "cleo"
        ),
        f"{dans.item} expired, {freeze_done.agent} finished it, and dan's late result changed nothing": (
            outcomes.get((dans.item, "dan")) == "expired"
            and freeze_done.agent != "dan"
            and zombie.code == ClaimExpired.code
            and zombie.item == dans.item
        ),
        f"{drafted.agent} drafted {drafted.item}, you approved, and {sent.agent} carried it out unchanged": (
            _was_carried_out(board, runs[drafted.item], drafted.agent, sent.agent)
        ),
        "replaying the history of every item gives its state": not [
            finding for finding in examine(board) if not finding.late
        ],
    }
    for sentence, holds in checks.items():
        stage.check(sentence, holds)


def _was_carried_out(board: Board, runs: list[Run], drafter: str, doer: str) -> bool:
    """Whether `drafter` submitted the draft, you approved it, and `doer` carried it out unchanged."""
    draft, done = runs
    approvals = [event for event in board.log(draft.item) if event.kind == "approved"]
    return (
        [(draft.agent, draft.outcome), (done.agent, done.outcome)] == [(drafter, "submitted"), (doer, "done")]
        and [(event.actor, event.data["draft_token"]) for event in approvals] == [("you", draft.token)]
        and done.reason == draft.draft
    )
