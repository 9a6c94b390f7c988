"""Claude Code's own tasks and teams, and the goals of Codex, over the board.

The client's list decides nothing: `TaskUpdate` overwrites any owner. So each task is an item of the board
(`task_list`): a session that begins the task claims the item, and one that completes the task ends the item as done.
What the board refuses, the client does not do, and its model reads why. What the board cannot answer in time, the
client does by itself.
"""

from __future__ import annotations

from dibs.agents import answers, fence, look, sessions, task_list
from dibs.agents.access import is_local
from dibs.agents.state import ASSIGNED, CALL, OFFERED, State, answered
from dibs.agents.task_list import COMPLETED, IN_PROGRESS, KEY, PENDING
from dibs.check import item_id
from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    DibsError,
    Forbidden,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ItemNotClaimed,
    ItemNotFound,
    NotClaimOwner,
    RateLimited,
    ResourceBusy,
    SessionNotFound,
)
from dibs.model import BLOCKED, DONE, READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.agents.access import Access
    from dibs.agents.payload import Payload
    from dibs.agents.task_list import Task
    from dibs.board import Board
    from dibs.model import Grant

    Step = Callable[[Payload, Board], str]

GOAL, LIST = "create_goal", "TaskList"
#: What the board refuses because of the item, the session or the agent. The client must not go on then.
REFUSALS = (
    *(ItemAlreadyClaimed, ItemNotClaimable, ItemNotClaimed, NotClaimOwner, ClaimExpired),
    *(AgentAtCapacity, ResourceBusy, RateLimited, Forbidden),
)
#: What to do about a task that names an item which the board lacks: on another board a session may be at it.
ELSEWHERE = "The task is of another board. Take another task, or add the item here: dibs add TITLE --id ITEM"
#: How long a task tool waits for the board; then it runs. Longer than other hooks wait, because without an answer two
#: sessions may begin one task, and shorter than clients wait for a hook.
BOARD_SECONDS = 3.0
#: How many tasks of a list are looked up on the board, how many tasks may wait for each other in a chain, and how many
#: ready items are looked at for a teammate.
LISTED_MAX, CHAIN_MAX, READY_MAX = 200, 50, 100


def before(payload: Payload, access: Access) -> str:
    """Before a task tool runs: what begins a task claims its item."""
    return _on_board(payload, access, _create_goal if payload.tool == GOAL else _update)


def after(payload: Payload, access: Access) -> str:
    """After a task tool ran, or failed."""
    return _on_board(payload, access, _listed if payload.tool == LIST else _updated)


def created(payload: Payload, access: Access) -> str:
    return _on_board(payload, access, _create)


def completed(payload: Payload, access: Access) -> str:
    if payload.subagent is not None and not State(payload.dibs_session).exists():
        sessions.start_subagent(payload, access)
    return _on_board(payload, access, _complete)


def idle(payload: Payload, access: Access) -> str:
    return _on_board(payload, access, _offer)


def _on_board(payload: Payload, access: Access, step: Step) -> str:
    """The answer of a step; an empty one if the board does not answer in time."""

    def run() -> str:
        with access.connect(BOARD_SECONDS) as board:
            return step(payload, board)

    if is_local(access.url):
        return run()
    import threading

    found: list[str] = []

    def try_to_run() -> None:
        try:
            found.append(run())
        except Exception:  # whatever it is, the agent must not notice
            pass

    thread = threading.Thread(target=try_to_run, daemon=True)
    thread.start()
    thread.join(BOARD_SECONDS)
    return found[0] if found else ""


# Tools


def _update(payload: Payload, board: Board) -> str:
    """Before `TaskUpdate`. The task file is made to name its item, so that the two stay together whatever the task is
    called later."""
    task = _task(payload, payload.input.get("taskId"))
    if task is None:
        return ""
    token = 0
    if task_list.begins(payload.input):
        try:
            grant = _claim(payload, board, task)
        except ItemNotFound as refusal:
            return _deny(payload, board, task.item, refusal, ELSEWHERE)
        except REFUSALS as refusal:
            return _deny(payload, board, task.item, refusal, "Take another task.")
        answered(payload.dibs_session, task.item)
        token = 0 if grant.renewed else grant.claim.token
        if payload.subagent is None and payload.input.get("status") != IN_PROGRESS:
            State(payload.session).note(ASSIGNED, task.item, grant.claim.token)
    _remember(payload, {"item": task.item, "token": token})
    if task.is_linked:
        return ""
    given = payload.input.get("metadata")
    metadata = {**(given if isinstance(given, dict) else {}), KEY: task.item}
    return answers.pass_on(payload, input={**payload.input, "metadata": metadata}, allow=True)


def _updated(payload: Payload, board: Board) -> str:
    """After `TaskUpdate`: a call that failed gives its claim back, as does a task that nobody works on any more."""
    call = _recall(payload)
    item, token = call.get("item"), call.get("token")
    if not isinstance(item, str):
        return ""
    response = payload.raw.get("tool_response")
    has_failed = payload.event == "PostToolUseFailure" or (
        isinstance(response, dict) and response.get("success") is False
    )
    if has_failed and token:
        _release(payload, board, item, token, "the tool call failed")
    if has_failed:
        return ""
    if task_list.gives_back(payload.input):
        _release(payload, board, item, None, f"the task is {payload.input.get('status') or 'unassigned'}")
        answered(payload.dibs_session, item)
    return _depend(payload, board)


def _depend(payload: Payload, board: Board) -> str:
    """What a task is blocked by, its item depends on. Dependencies that only the board knows stay."""
    blocks, blocked_by = (payload.input.get(name) for name in ("addBlocks", "addBlockedBy"))
    ids = [payload.input.get("taskId")] if blocked_by else []
    ids += blocks if isinstance(blocks, list) else []
    problems = []
    for task in (_task(payload, id) for id in ids):
        if task is None:
            continue
        try:
            needs = _needs(payload, board, task)
            known = board.get(task.item).item.depends_on
            if not set(needs) <= set(known):
                board.edit(task.item, depends_on=[*known, *needs], actor=_agent(payload))
        except ItemNotFound:
            if not task.is_linked:
                _add(payload, board, task)
        except (Invalid, *REFUSALS) as refusal:
            problems.append(f"dibs: the board keeps what {task.item} depends on: {refusal.message}.")
    return answers.tell(payload, " ".join(problems))


def _listed(payload: Payload, board: Board) -> str:
    """After `TaskList`: the model reads the holders and the dependencies of the board in place of the list's."""
    response = payload.raw.get("tool_response")
    rows = response.get("tasks") if isinstance(response, dict) else None
    if not isinstance(rows, list) or not rows:
        return ""
    tasks = {task.id: task for task in task_list.all_tasks(task_list.of_session(payload))}
    numbers = {task.item: task.id for task in tasks.values()}
    shown = []
    for row in rows[:LISTED_MAX]:
        task = tasks.get(str(row.get("id"))) if isinstance(row, dict) else None
        shown.append(row if task is None else _row(payload, board, row, task, numbers))
    output = {"tasks": shown + rows[LISTED_MAX:]}
    return "" if output["tasks"] == rows else answers.replace_output(payload, output)


def _row(payload: Payload, board: Board, row: dict[str, Any], task: Task, numbers: dict[str, str]) -> dict[str, Any]:
    try:
        detail = board.get(task.item)
    except ItemNotFound:
        return row
    claim, status = detail.claim, detail.item.status
    blocked_by = [numbers.get(blocker.item, blocker.item) for blocker in detail.blockers]
    shown = {name: value for name, value in row.items() if name != "owner"} | {"blockedBy": blocked_by}
    if claim is not None:
        owner = f"you, {claim.agent}" if claim.session == payload.dibs_session else f"{claim.agent} {claim.session}"
        return shown | {"status": IN_PROGRESS, "owner": owner}
    if status == DONE:
        return shown | {"status": COMPLETED}
    return shown | {"status": PENDING} | ({} if status in (READY, BLOCKED) else {"owner": f"dibs: {status}"})


def _create_goal(payload: Payload, board: Board) -> str:
    """Before `create_goal` of Codex: an objective that is the id of an item, or begins with `ID:`, claims the item."""
    objective = payload.input.get("objective")
    try:
        item = item_id(objective.partition(":")[0].strip() if isinstance(objective, str) else None)
        _claim_item(payload, board, item)
    except (Invalid, ItemNotFound):
        return ""
    except REFUSALS as refusal:
        return _deny(payload, board, item, refusal, "For other work: dibs next")
    answered(payload.dibs_session, item)
    return ""


# Events


def _create(payload: Payload, board: Board) -> str:
    id = payload.raw.get("task_id")
    task = _task(payload, id)
    if task is None and isinstance(id, str):
        fields = {name: payload.raw.get(f"task_{name}") for name in ("subject", "description")}
        task = task_list.task(task_list.of_session(payload), id, fields)
    if task is not None:
        _add(payload, board, task)
    return ""


def _complete(payload: Payload, board: Board) -> str:
    task = _task(payload, payload.raw.get("task_id"))
    if task is None:
        return ""
    try:
        _end(payload, board, task)
    except ItemNotFound as refusal:
        # If the task names no item, no hook saw its creation or its begin.
        return _deny(payload, board, task.item, refusal, ELSEWHERE) if task.is_linked else ""
    except REFUSALS as refusal:
        anew = "Leave it, or set it in_progress to claim it anew."
        return _deny(payload, board, task.item, refusal, f"Task #{task.id} stays open. {anew}")
    answered(payload.dibs_session, task.item)
    return ""


def _end(payload: Payload, board: Board, task: Task) -> None:
    """End the item as done. A task that was not begun is claimed first; one whose claim was taken away is not."""
    session = payload.dibs_session
    try:
        board.done(task.item, session=session, recover=True)
    except (ItemNotClaimed, NotClaimOwner, SessionNotFound) as refusal:
        if refusal.facts.get("status") == DONE:
            return
        if refusal.facts.get("how") in look.TAKEN:
            raise
        _claim_item(payload, board, task.item)
        board.done(task.item, session=session)


def _offer(payload: Payload, board: Board) -> str:
    """Offer an idle teammate the best ready item. While an item that it was offered is still ready, it is left alone:
    it did not want that one. The teammate's own state folder ended with its turn, so its parent's is used."""
    parent, name = State(payload.session), OFFERED + payload.dibs_session
    offered = {item for item, _ in parent.noted(name)}
    ready = [one for one in board.list(statuses=[READY], limit=READY_MAX) if one.offered_to is None]
    if not ready or any(one.id in offered for one in ready):
        return ""
    item = ready[0]
    parent.note(name, item.id, item.token)
    tasks = task_list.all_tasks(task_list.of_session(payload))
    number = next((task.id for task in tasks if task.item == item.id), None)
    how = f"run: dibs claim {item.id}" if number is None else f"set task #{number} in_progress"
    # Not its title: whoever wrote that does not give instructions here.
    return answers.go_on(payload, f"dibs: {item.id} is ready. To take it, {how}")


# Items of tasks


def _claim(payload: Payload, board: Board, task: Task) -> Grant:
    try:
        return _claim_item(payload, board, task.item)
    except ItemNotFound:
        if task.is_linked:
            raise
        _add(payload, board, task)  # its creation was missed
    return _claim_item(payload, board, task.item)


def _claim_item(payload: Payload, board: Board, item: str) -> Grant:
    """Claim as the session that acts. A teammate takes over what its leader claimed for it."""
    session = payload.dibs_session
    try:
        return board.claim(item, session=session)
    except SessionNotFound:
        record = State(session).record()
        if record is None:
            raise
        sessions.begin(board, record, {"client": payload.client})
    except ItemAlreadyClaimed as refusal:
        holder = refusal.facts["holder"]
        claim = (item, holder["token"])
        if holder["session"] != payload.session or claim not in State(payload.session).noted(ASSIGNED):
            raise
        board.release(item, session=payload.session, token=holder["token"], reason="assigned to a teammate")
    return board.claim(item, session=session)


def _release(payload: Payload, board: Board, item: str, token: int | None, reason: str) -> None:
    try:
        board.release(item, session=payload.dibs_session, token=token, reason=reason)
    except DibsError:
        pass  # the session does not hold it


def _add(payload: Payload, board: Board, task: Task, chain: tuple[str, ...] = ()) -> None:
    """Add the item of a task. One that the board has stays as it is."""
    needs = _needs(payload, board, task, chain)
    try:
        board.add(task.title, id=task.item, body=task.description, depends_on=needs, actor=_agent(payload))
    except Invalid as refusal:
        if refusal.facts.get("field") != "id":
            raise


def _needs(payload: Payload, board: Board, task: Task, chain: tuple[str, ...] = ()) -> list[str]:
    """The items of the open tasks that block this one. Those that the board lacks are added, except in a circle, and
    except those that another board has."""
    found = []
    for blocker in (_task(payload, id) for id in task.blocked_by):
        if blocker is None or blocker.status == COMPLETED or blocker.id in chain or len(chain) > CHAIN_MAX:
            continue
        try:
            board.get(blocker.item)
        except ItemNotFound:
            if blocker.is_linked:
                continue
            _add(payload, board, blocker, (*chain, task.id))
        found.append(blocker.item)
    return found


def _deny(payload: Payload, board: Board, item: str, refusal: DibsError, what_to_do: str) -> str:
    """The tool does not run, or the task is not completed, unless a person switched that off. The agent has its answer
    about the item, and knows of a loss."""
    look.note_answer(board, payload.dibs_session, item, State(payload.dibs_session).lost_token(item), refusal)
    if fence.is_off():
        return ""
    why = f"dibs: {refusal.message}. {what_to_do}"
    return answers.deny(payload, why) if payload.tool else answers.go_on(payload, why)


# What a payload says


def _task(payload: Payload, id: object) -> Task | None:
    return task_list.find(task_list.of_session(payload), id)


def _agent(payload: Payload) -> str | None:
    record = State(payload.session).record()
    return None if record is None else record.agent


def _remember(payload: Payload, call: dict[str, Any]) -> None:
    """Keep what a call of a tool is about until it has run: the file of a deleted task is gone then."""
    name = _call_name(payload)
    if name is not None:
        from dibs.text import json_text

        State(payload.dibs_session).write(name, json_text.dumps(call))


def _recall(payload: Payload) -> dict[str, Any]:
    name, state = _call_name(payload), State(payload.dibs_session)
    if name is None:
        return {}
    call = state.load(name)
    state.discard(name)
    return call


def _call_name(payload: Payload) -> str | None:
    try:
        return CALL + item_id(payload.raw.get("tool_use_id"))
    except Invalid:
        return None
