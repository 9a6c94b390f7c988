"""What `dibs doctor` says about webhooks: whether their cursors fit the feed, and whether somebody delivers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.board import Board
    from dibs.model.webhooks import Webhook

#: How long a webhook may stand still beyond the time in which it gives an event up: then nobody delivers.
STALLED_SECONDS = 3600.0


def examine(
    board: Board, webhooks: Iterable[Webhook], *, event_floor: int, last_event: int, now: int
) -> Iterator[tuple[str, str, bool]]:
    """What is wrong, what to do, and whether the board is sound nevertheless."""
    for webhook in webhooks:
        name, remove = f"webhook {webhook.id}", f"dibs webhook remove {webhook.id}"
        if webhook.cursor > last_event:
            what = f"{name} is at event {webhook.cursor}, after the last one, {last_event}: it would skip events"
            yield what, f"{remove}, and add it again", False
        if webhook.dead:
            yield f"{name} has {webhook.dead} dead letters", f"dibs webhook dead {webhook.id} shows them", True
        if webhook.disabled_at is not None:
            what = f"{name} is disabled: {webhook.disabled_reason}"
            yield what, f"dibs webhook resume {webhook.id}, or {remove}", True
        elif _is_stalled(board, webhook, event_floor, now):
            what = f"nobody delivers to {name}: it is at event {webhook.cursor}, and nothing after that is pruned"
            yield what, f"dibs serve or dibs deliver sends; dibs webhook pause {webhook.id} lets events be pruned", True


def _is_stalled(board: Board, webhook: Webhook, event_floor: int, now: int) -> bool:
    ahead = board.events(after=max(webhook.cursor, event_floor), limit=1)
    return bool(ahead) and ahead[0].at < now - (webhook.give_up_seconds + STALLED_SECONDS) * 1000
