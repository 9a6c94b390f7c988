"""What happens after a key of an action: the question about what was read, the call, and its outcome in one line.

One change is under way at a time, and no key cancels it, so the line has the outcome of each.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dibs.cli.render import number_of
from dibs.cli.top import actions
from dibs.cli.top.dialogs import Confirm, ConfirmAll, NewItem
from dibs.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dibs.model import Detail
    from dibs.model.dashboard import Brief
    from dibs.rules.actions import Action


class Acting:
    """The part of the app that changes the board."""

    #: What the board was asked to do and has not answered yet.
    waits_for: str | None = None

    async def act(self: Any, action: Action, item: str) -> None:
        """Read the item, unless it is on the screen, ask whether to do it, and do it to exactly what was read."""
        shown = self.detail.read if self.detail.display else None
        found = shown if shown is not None and shown.detail.item.id == item else await self.read_item(item)
        if found is None:
            return
        if not action.fits(found.detail.item):
            self.say(f"{item} is {found.detail.item.status.replace('_', ' ')} now; nothing was changed", "yellow")
            return
        answer = await self.push_screen_wait(Confirm(action, found.detail))
        if answer is not None:
            self._begin(f"{action.label} {item}", self._carry_out(action, found.detail, answer))

    async def act_on_all(self: Any, action: Action, chosen: list[Brief]) -> None:
        """Ask whether to do it to the items that it fits, and do it to those that are still as they were shown."""
        items = [item for item in chosen if action.fits(item)]
        if await self.push_screen_wait(ConfirmAll(action, items, len(chosen) - len(items))) is not None:
            self._begin(f"{action.label} {number_of(len(items), 'item')}", self._carry_out_on_all(action, items))

    async def add(self: Any) -> None:
        title = await self.push_screen_wait(NewItem())
        if title is not None:
            self._begin("add an item", self._add(title))

    def _begin(self: Any, what: str, call: Coroutine[Any, Any, None]) -> None:
        """Wait for the answer of the board in a worker of its own, which no key cancels: its outcome is always told."""

        async def wait() -> None:
            try:
                await call
            except DibsError as error:
                is_unknown = error.facts.get("outcome") == "unknown"
                self.say(f"{f'{what}: ' if is_unknown else 'refused: '}{error.message}", "bold red")
            finally:
                self.waits_for = None

        self.waits_for = what
        self.say(f"{what} ...", "dim")
        self.run_worker(wait(), group="call")

    async def _carry_out(self: Any, action: Action, read: Detail, answer: str) -> None:
        await asyncio.to_thread(actions.call, action, self.board, read, answer)
        self.say(f"{read.item.id}: {action.label}", "green")

    async def _carry_out_on_all(self: Any, action: Action, items: list[Brief]) -> None:
        found = await asyncio.to_thread(actions.call_all, action, self.board, items)
        self.current.deselect()
        text = f"{action.label}: {number_of(len(found.done), 'item')}"
        if not found.refused:
            self.say(text, "green")
        else:
            first = found.refused[0]
            self.say(f"{text}; {len(found.refused):,} refused, first {first.item}: {first.detail}", "bold red")

    async def _add(self: Any, title: str) -> None:
        added = await asyncio.to_thread(self.board.add, title)
        self.say(f"added {added.item.id}", "green")
