"""The story of `dibs demo`: a server and a fleet of worker processes on a temporary board.

Four workers share eight items, two of them over HTTP and two on the file. Two claim the same item, one is killed, one
is stopped until its claim has expired and continues too late. A fifth may only draft, you approve, and a sixth carries
out what was approved. The output comes from the board's own feed, and the statements at the end are checked against the
board: the demo succeeds only if all of them are true. Where no server can start, all workers use the file.
"""

from __future__ import annotations

import signal
from itertools import pairwise

from dibs.board import connect
from dibs.cli.context import Cli
from dibs.cli.demo import svg
from dibs.cli.demo.fleet import Fleet, Report
from dibs.cli.demo.folder import DemoFolder
from dibs.cli.demo.processes import Processes
from dibs.cli.demo.screen import Screen
from dibs.cli.event_lines import item_lines
from dibs.cli.render import Paint
from dibs.errors import ClaimExpired, Invalid, ItemAlreadyClaimed
from dibs.maintenance.doctor import examine
from dibs.system import durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.board import Board
    from dibs.model import Run

#: The exit code if a statement is false.
NOT_SHOWN = 1
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
#: For each worker: the seconds for an item, the seconds for its first item, and whether it works over HTTP.
WORKERS = {
    "ada": (0.6, 0.0, False),
    "ben": (0.7, 0.0, False),
    "cleo": (0.6, 60.0, True),
    "dan": (0.6, 2.0 * TTL_SECONDS, True),
}


def show(cli: Cli, record: str | None) -> int:
    screen = Screen(cli.paint, silent=cli.json, records=record is not None)
    if record is None:
        _tell(screen)
    else:
        _record(screen, record)
    if cli.json:
        cli.print_json({"shown": screen.shown, "checks": screen.checks})
    return 0 if screen.shown else NOT_SHOWN


def _record(screen: Screen, path: str) -> None:
    try:
        _require_new(path)
        _tell(screen)
        with durable.NewFile(path) as half, open(half, "w", encoding="utf-8") as file:
            file.write(svg.render(screen.recording))
    except FileExistsError as error:
        raise Invalid(f"{path} exists; remove it, or choose another name", field="record") from error


def _require_new(path: str) -> None:
    """Refuse a file that cannot be written, before the story."""
    if not path:
        raise Invalid("the file of the recording has no name; write --record demo.svg", field="record")
    try:
        durable.require_new(path)
    except FileExistsError:
        raise
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}; choose another file", field="record") from error


def _tell(screen: Screen) -> None:
    with DemoFolder() as folder:
        with open(f"{folder}/dibs.toml", "w") as file:
            file.write(f"[board]\nttl_seconds = {TTL_SECONDS}\nttl_seconds_min = 1\n")
        with (
            connect(f"{folder}/board.db", folder=folder, create=True, actor="you") as board,
            Processes(folder) as processes,
            Fleet(processes, screen) as fleet,
        ):
            _run_fleet(fleet, board, screen)


def _run_fleet(fleet: Fleet, board: Board, screen: Screen) -> None:
    file, server = fleet.processes.file, fleet.processes.serve()
    url = server["url"]
    fleet.heading("A board is one file", file)
    screen.line(_server_line(server, screen.paint))
    id, title, type, action = LETTER
    for name in WORKERS:
        board.set_agent(name, types=sorted({type for _, _, type, _ in ITEMS}))
    board.set_agent("cloud", types=[type], sensitive_actions=[action])
    board.set_agent("local", types=[type], allowed_actions=[action], sensitive_actions=[action])
    for item, does, kind, priority in ITEMS:
        board.add(does, id=item, type=kind, priority=priority)
    board.add(title, id=id, type=type, action=action)
    fleet.until("added", item=id)

    fleet.heading("Two claim the same item", "one gets it, the other learns who holds it")
    for name, (seconds, first_seconds, over_http) in WORKERS.items():
        fleet.start_worker(name, url if url and over_http else file, seconds, first_seconds)
    for name in WORKERS:
        fleet.until("hello", agent=name)
    fleet.order("claim " + ITEMS[0][0], "ada", "ben")
    won = fleet.until("claimed")
    conflict = fleet.until("refused")

    fleet.heading("The fleet takes the ready items", "the best first, under claims that expire")
    fleet.order("work", *WORKERS)
    cleo_claim = fleet.until("working", agent="cleo")
    dan_claim = fleet.until("working", agent="dan")
    for taken in (cleo_claim, dan_claim):
        fleet.until("claimed", item=taken.item, agent=taken.agent)

    fleet.heading("One is killed", "its item becomes ready again, and another worker finishes it")
    fleet.signal("cleo", signal.SIGKILL, "kill -9, holding " + cleo_claim.item)

    fleet.heading("One is stopped", f"after {TTL_SECONDS}s without a heartbeat its claim expires too")
    fleet.signal("dan", signal.SIGSTOP, "stopped, holding " + dan_claim.item)
    killed_done = fleet.until("done", item=cleo_claim.item)
    stopped_done = fleet.until("done", item=dan_claim.item)

    fleet.heading("The stopped one continues", "it finishes its work and is refused: too late")
    fleet.signal("dan", signal.SIGCONT, "continues with " + dan_claim.item)
    late = fleet.until("refused", agent="dan")
    for item, *_ in ITEMS:
        fleet.until("done", item=item)

    fleet.heading("One may only draft", "a person approves, and another carries out exactly that")
    for name, order, store in (("cloud", "draft", url or file), ("local", "carry_out", file)):
        fleet.start_worker(name, store, seconds=0)
        fleet.order(order, name)
    drafted = fleet.until("submitted", item=id)
    board.approve(id, revision=board.get(id).item.revision)
    sent = fleet.until("done", item=id)

    fleet.heading(f"The history of {dan_claim.item}", "every transition, and who caused it")
    for line in item_lines(board.log(dan_claim.item), screen.paint, screen.columns):
        screen.line(line)
    _verdict(fleet, board, won, conflict, cleo_claim, killed_done, dan_claim, stopped_done, late, drafted, sent)


def _server_line(server: dict[str, Any], paint: Paint) -> str:
    if server["url"] is None:
        return f"  {paint('no server: ' + server['error'], 'dim')}"
    callers = " and ".join(name for name, (_, _, over_http) in WORKERS.items() if over_http)
    return f"  with a server in front of it, for {callers}  {paint(server['url'], 'dim')}"


def _verdict(
    fleet: Fleet,
    board: Board,
    won: Report,
    conflict: Report,
    cleo_claim: Report,
    killed_done: Report,
    dan_claim: Report,
    stopped_done: Report,
    late: Report,
    drafted: Report,
    sent: Report,
) -> None:
    """Print statements about the run, and check each against the board."""
    fleet.heading("What the board recorded", "read from its history")
    ids = [id for id, *_ in ITEMS] + [LETTER[0]]
    events = board.events()
    runs = {id: sorted(board.runs(item=id), key=lambda run: run.token) for id in ids}
    ends = [event.item for event in events if event.kind == "done"]
    outcomes = {(run.item, run.agent): run.outcome for id in ids for run in runs[id]}
    checks = {
        f"{len(ids)} items, each done once": sorted(ends) == sorted(ids),
        f"no item was held twice at a time in {sum(map(len, runs.values()))} runs": not held_twice(runs),
        f"{conflict.agent} was refused {won.item} while {won.agent} held it": (
            conflict.code == ItemAlreadyClaimed.code and conflict.agent != won.agent and conflict.item == won.item
        ),
        f"{cleo_claim.item} was released when cleo died, and {killed_done.agent} finished it": (
            outcomes.get((cleo_claim.item, "cleo")) == "owner_died" and killed_done.agent != "cleo"
        ),
        f"{dan_claim.item} expired, {stopped_done.agent} finished it, and dan's late result changed nothing": (
            outcomes.get((dan_claim.item, "dan")) == "expired"
            and stopped_done.agent != "dan"
            and late.code == ClaimExpired.code
            and late.item == dan_claim.item
        ),
        f"{drafted.agent} drafted {drafted.item}, you approved, and {sent.agent} carried it out unchanged": (
            _was_carried_out(board, runs[drafted.item], drafted.agent, sent.agent)
        ),
        "replaying the history of every item gives its state": not [
            finding for finding in examine(board) if not finding.late
        ],
    }
    for sentence, holds in checks.items():
        fleet.screen.check(sentence, holds)


def held_twice(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """The items of which two runs, in the order of their tokens, overlap in time."""
    return [
        id
        for id, of_item in runs.items()
        for before, after in pairwise(of_item)
        if before.ended_at is None or after.started_at < before.ended_at or after.token <= before.token
    ]


def _was_carried_out(board: Board, runs: list[Run], drafter: str, doer: str) -> bool:
    """Whether `drafter` submitted the draft, you approved it, and `doer` carried it out unchanged."""
    draft, done = runs
    approvals = [event for event in board.log(draft.item) if event.kind == "approved"]
    return (
        [(draft.agent, draft.outcome), (done.agent, done.outcome)] == [(drafter, "submitted"), (doer, "done")]
        and [(event.actor, event.data["draft_token"]) for event in approvals] == [("you", draft.token)]
        and done.reason == draft.draft
    )
