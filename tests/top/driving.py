"""A person at `dibs top`: presses keys, and sees lines of text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.widgets import Input

from dibs.board import Board
from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.cli.top.app import TopApp
from dibs.cli.top.feed import read
from tests.kit.waiting import PATIENCE_SECONDS

LOOK_SECONDS = 0.02
SMALL, MIDDLE, WIDE = (80, 24), (130, 30), (200, 50)


class Terminal:
    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def lines(self) -> list[str]:
        strips = self.app.screen_stack[0]._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def question(self) -> str:
        """What stands over the screen."""
        if len(self.app.screen_stack) == 1:
            return ""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Into the input that has the focus, at once: a key each would take most of the time of a test."""
        await self.until(lambda: isinstance(self.app.focused, Input))
        assert isinstance(self.app.focused, Input)
        self.app.focused.insert_text_at_cursor(text)
        await self.pilot.pause()

    async def until(self, true: Callable[..., object], *args: object) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not true(*args):
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS:g} s; the screen is\n{self.text}"
            await self.pilot.pause(LOOK_SECONDS)

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts))

    async def hides(self, text: str) -> None:
        await self.until(lambda: text not in self.text)

    async def asks(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.question for text in texts) and self.question)


@asynccontextmanager
async def terminal(board: Board, size: tuple[int, int] = SMALL, name: str = "shop") -> AsyncIterator[Terminal]:
    _, parser = "top", build("top", COMMANDS["top"])[0]
    app = TopApp(board, read(board), name=name, args=parser.parse([]))
    async with app.run_test(size=size) as pilot:
        shown = Terminal(app, pilot)
        await shown.shows("dibs ", "live")
        yield shown


def drive(
    board: Board, person: Callable[[Terminal], Awaitable[None]], size: tuple[int, int] = SMALL, name: str = "shop"
) -> None:
    """What a person does at a terminal of this size."""

    async def run() -> None:
        async with terminal(board, size, name) as shown:
            await person(shown)

    asyncio.run(run())
