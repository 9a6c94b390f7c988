"""An independent look at a whole board, at rest: every invariant that its reading verbs can show, S1 to S6 and S8.

Shares no code with the rules or with any store. It reads the items, the feed, the runs and the claims, tells each
item's story again from its events, and lists every place where two of them disagree. An empty list is a sound board.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from dibs.model import IN_PROGRESS, STATUSES
from dibs.testing import conditions
from dibs.testing.history import read_feed
from dibs.testing.refold import Story

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.board import Board
    from dibs.model import Claim, Event, Holding, Item, Run

LIMIT = 100_000
#: How many looks have to find something, not counting those during which something fell due.
LOOKS, LOOKS_MAX = 3, 100
#: How a finding begins that servers of the tests are meant to have: most of them never lose power.
IN_TESTS = "fsync is off"


def violations(board: Board) -> list[str]:
    """What is wrong with this board, one sentence each. Nobody may be writing to it meanwhile.

    What time and dead owners have done is recorded first: reads apply it, and the history has only what is recorded.
    Reads disagree if something fell due between two of them, or a ticket ended. Then another look does not find it;
    damage is found again.
    """
    _record(board)
    found: list[str] = []
    undisturbed = 0
    for _ in range(LOOKS_MAX):
        found = _look(board)
        if not found:
            break
        undisturbed += not _record(board)
        if undisturbed == LOOKS:
            break
    return found


def _record(board: Board) -> bool:
    """Record what time and dead owners have done; whether there was anything."""
    recorded = False
    while True:
        swept = board.sweep()
        recorded = recorded or any((swept.expired, swept.owner_died, swept.due, swept.offers))
        if not swept.more:
            return recorded


def _look(board: Board) -> list[str]:
    items = board.list(limit=LIMIT)
    events = read_feed(board)
    stories = told(events)
    floors, wanted, orphans = _exported(board)
    holdings = [line for line in board.who() if line.soft is None]
    held = {line.item.id: line.claim for line in holdings}
    found = [*_each_item_once(items, stories), *_feed_is_in_order(events)]
    for item in items:
        story = stories.get(item.id)
        if story is not None:
            found += [*story.oddities, *story.differences(item)]
            if item.id in wanted:
                detail = board.get(item.id)
                found += _claim_fits(detail.claim, item, story)
                found += conditions.queues_fit(board, item, detail.waiters)
            else:
                # Nobody waits for it, and who holds it has been told: thousands need no look at each.
                found += _claim_fits(held.get(item.id), item, story)
                found += conditions.queues_fit(board, item, ())
    found += [*conditions.blocked_as_they_should(events), *conditions.blocked_now(items)]
    found += conditions.floors_hold(board, floors, events)
    found += _runs_are_the_stories(board.runs(limit=LIMIT), stories)
    found += [*_who_is_what_is_in_progress(holdings, items), *conditions.resources_apart(holdings)]
    found += _figures_add_up(board, items, stories)
    return found + [f"session {child} lives and its parent {parent} does not" for child, parent in orphans.items()]


def assert_sound(board: Board, context: object = "") -> None:
    """`context` is what a reader needs to see it again: a seed, for instance."""
    found = violations(board)
    found += [f"the store says: {finding}" for finding in board.store.check() if not finding.startswith(IN_TESTS)]
    assert not found, f"{context} the board is not sound:\n" + "\n".join(found[:20])


def told(events: Iterable[Event]) -> dict[str, Story]:
    grouped: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        grouped[event.item].append(event)
    return {item: Story(item, its) for item, its in grouped.items()}


def _each_item_once(items: Sequence[Item], stories: Mapping[str, Story]) -> list[str]:
    """S6: every item that was ever added is there, once, in exactly one state."""
    ids = Counter(item.id for item in items)
    found = [f"{item} is listed {count} times" for item, count in ids.items() if count > 1]
    found += [f"{item} was added and is gone" for item in sorted(set(stories) - set(ids))]
    found += [f"{item} is there and has no history" for item in sorted(set(ids) - set(stories))]
    found += [f"{item.id} is {item.status}, which is no status" for item in items if item.status not in STATUSES]
    return found


def _feed_is_in_order(events: Sequence[Event]) -> list[str]:
    found = [f"feed: {after.id} comes after {before.id}" for before, after in pairwise(events) if after.id <= before.id]
    return found + (["feed: an event has no id"] if any(event.id <= 0 for event in events) else [])


def _exported(board: Board) -> tuple[dict[str, int], set[str], dict[str, str]]:
    """What the export says: the floors; the items that somebody waits for, or claims although they are idle; and the
    live sessions whose parents do not live, with these parents."""
    floors: dict[str, int] = {}
    in_progress: set[str] = set()
    wanted: set[str] = set()
    parents: dict[str, str | None] = {}
    for kind, record in board.export():
        if kind == "board":
            floors = record
        elif kind == "session" and record["ended_at"] is None:
            parents[record["id"]] = record["parent"]
        elif kind == "item" and record["status"] == IN_PROGRESS:
            in_progress.add(record["id"])
        elif (kind == "ticket" and record["closed_at"] is None) or (
            kind == "claim" and record["item"] not in in_progress
        ):
            wanted.add(record["item"])
    orphans = {id: parent for id, parent in parents.items() if parent is not None and parent not in parents}
    return floors, wanted, orphans


def _claim_fits(claim: Claim | None, item: Item, story: Story) -> list[str]:
    """S1, S3: a claim is there only while its run is open."""
    found = []
    if (item.status == "in_progress") != (story.open_token is not None):
        found.append(f"{item.id} is {item.status} and its open run is {story.open_token}")
    if claim is None:
        return found
    if item.status != "in_progress":
        return [*found, f"{item.id} is {item.status} and claimed by {claim.session}"]
    run = story.runs.get(claim.token)
    if claim.token != item.token or run is None or run["outcome"] is not None:
        return [*found, f"{item.id} is claimed under token {claim.token}; the item's is {item.token}"]
    if (claim.session, claim.agent, claim.claimed_at) != (run["session"], run["agent"], run["started_at"]):
        found.append(f"{item.id}: its claim says {claim.session} since {claim.claimed_at}, its history {run}")
    if claim.expires_at > claim.deadline_at:
        found.append(f"{item.id}: its claim expires after its deadline")
    return found


def _runs_are_the_stories(runs: Sequence[Run], stories: Mapping[str, Story]) -> list[str]:
    """S4: one run for each claim ever given, ended as the history says, and at most once."""
    keys = Counter((run.item, run.token) for run in runs)
    expected = {(item, token) for item, story in stories.items() for token in story.runs}
    found = [f"run {key} is there {count} times" for key, count in keys.items() if count > 1]
    found += [f"run {key} is missing" for key in sorted(expected - set(keys))]
    found += [f"run {key} has no claim in the history" for key in sorted(set(keys) - expected)]
    for run in runs:
        story = stories[run.item].runs.get(run.token) if run.item in stories else None
        for name, value in (story or {}).items():
            if getattr(run, name) != value:
                found.append(f"run {run.item} {run.token}: {name} is {getattr(run, name)!r}, not {value!r}")
    return found


def _who_is_what_is_in_progress(holdings: Sequence[Holding], items: Sequence[Item]) -> list[str]:
    shown = sorted(holding.item.id for holding in holdings)
    working = sorted(item.id for item in items if item.status == "in_progress")
    found = [] if shown == working else [f"who shows {shown}, in progress are {working}"]
    found += [
        f"{holding.item.id} is in progress and nobody ever let go of it, but its claim is gone"
        for holding in holdings
        if holding.claim is None
    ]
    return found


def _figures_add_up(board: Board, items: Sequence[Item], stories: Mapping[str, Story]) -> list[str]:
    stats = board.stats()
    found = []
    for status in STATUSES:
        counted = sum(item.status == status for item in items)
        if stats.items.get(status, 0) != counted:
            found.append(f"stats counts {stats.items.get(status, 0)} {status}, there are {counted}")
    given = sum(len(story.runs) for story in stories.values())
    if stats.total_claims != given:
        found.append(f"stats counts {stats.total_claims} claims, the history {given}")
    return found
