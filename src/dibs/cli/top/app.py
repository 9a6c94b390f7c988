"""The screen of `dibs top`: its parts, which of them are shown, and what happens as news and time come in.

News are applied as they come, and drawn at most twice a second; the bars follow the clock every second.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Input
from textual.worker import WorkerFailed

from dibs.cli.render import clean
from dibs.cli.top import actions, attention, calls, lines
from dibs.cli.top.acting import Acting
from dibs.cli.top.charts import Chart, Metrics, Timeline
from dibs.cli.top.detail import DetailPane
from dibs.cli.top.keys import Keyboard
from dibs.cli.top.lines import TextLine
from dibs.cli.top.panes import Approvals, Events, Flight, Needs, Queue, Sessions
from dibs.cli.top.rows import Rows
from dibs.cli.top.state import BoardState
from dibs.cli.top.updates import Updates
from dibs.cli.top.views import QUEUE_COLUMNS, VIEWS, WALL, arrangement
from dibs.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from textual import events
    from textual.app import ComposeResult

    from dibs.board import Board
    from dibs.cli.parser import Args
    from dibs.cli.top.calls import ReadItem
    from dibs.cli.top.feed import Whole
    from dibs.model.dashboard import Brief
    from dibs.rules.actions import Action

    T = TypeVar("T")

DRAW_SECONDS = 0.5
#: The least height that the list of what needs a person can take, if there is as much.
NEEDS_LINES = 4
CLOCK_SECONDS = 1.0
FIND_SECONDS = 5
#: The cursor rests this long on a row before its item is read.
READ_SECONDS = 0.25


class TopApp(Keyboard, Acting, App[None]):
    TITLE = "dibs top"
    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-low"), (24, "-high")]
    BINDINGS: ClassVar = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, board: Board, known: Whole, *, name: str, args: Args) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.board, self._args, self._board_name = board, args, name
        self.state = BoardState(known.view)
        self.state.remember(known.events)
        self._updates = Updates(self, board, self.state, known.view, self._on_news)
        self.place = self._before_wall = "now"
        self.is_paused = False
        #: The error that ended the app.
        self.crash: BaseException | None = None
        self._is_due = False
        self._seconds = 0
        self._notice = Text()
        self._wanted: str | None = None
        self.head, self.foot = TextLine(id="head"), TextLine(id="foot")
        self.needs, self.flight = Needs(self.state, id="needs"), Flight(self.state, id="flight")
        self.sessions, self.approvals = Sessions(self.state, id="sessions"), Approvals(self.state, id="approvals")
        self.happened, self.queue = Events(self.state, id="events"), Queue(self.state, id="queue")
        self.detail = DetailPane(self.state, id="detail")
        self.filter_line = Input(placeholder="filter: status:ready project:shop words", id="filter")
        self.lists: tuple[Rows, ...] = (
            *(self.needs, self.flight, self.sessions, self.approvals, self.happened, self.queue),
        )
        self.charts: tuple[Chart, ...] = (Timeline(id="timeline"), Metrics(id="metrics"))
        self.current: Rows = self.needs

    # The parts

    def compose(self) -> ComposeResult:
        yield self.head
        with Horizontal(id="main"):
            with Vertical(id="left"):
                yield from self.lists[:-1]
            yield self.queue
            yield from self.charts
            yield self.detail
        yield self.filter_line
        yield self.foot

    def on_mount(self) -> None:
        self.filter_line.display = False
        if not self.is_headless:
            self._handle_signals()
        self.go("now")
        self._updates.start()
        self.set_interval(CLOCK_SECONDS, self._on_second)

    def on_unmount(self) -> None:
        self._updates.stop()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._arrange)

    def go(self, place: str) -> None:
        """Show a view, with the cursor in its first list that has rows."""
        self.place = place
        self._arrange()
        if place == "wall":
            self.current.choose(False)
            self.set_focus(None)
        elif place == "item":
            self.detail.focus()
        else:
            parts = [self.query_one(f"#{name}") for name in VIEWS[place]]
            next((part for part in parts if isinstance(part, Rows) and part.find()), parts[0]).focus()

    def switch_wall(self) -> None:
        """Show the wall display, or go back from it."""
        if self.place != "wall":
            self._before_wall = self.place
            self.go("wall")
        else:
            self.go(self._before_wall)

    def _arrange(self) -> None:
        shown = arrangement(self.place, self.size.width)
        is_wall = self.place == "wall"
        for part in (*self.lists, *self.charts, self.detail):
            part.display = part.id in shown
        for rows in self.lists:
            rows.pitch = 2 if is_wall and rows.id in WALL else 1
        self.query_one("#left").display = any(rows.display for rows in self.lists[:-1])
        self.screen.set_class(self.place == "now", "now")
        self.screen.set_class(is_wall, "wall")
        self.screen.set_class(self.size.width >= QUEUE_COLUMNS, "wide")
        self.call_after_refresh(self._draw, read=True)
        self.call_after_refresh(self._draw_chart)

    # Drawing

    def _on_news(self, items: set[str] | None) -> None:
        """`items` are those that news were about; None: all of them."""
        if self.detail.read is not None and (items is None or self.detail.read.detail.item.id in items):
            self._read_soon(self.detail.read.detail.item.id)
        if items is None and self.queue.page is not None:
            find: Callable[[], Any] = self.find_pages
            self.run_worker(find, exclusive=True, group="page")
        if not self._is_due:
            self._is_due = True
            self.set_timer(DRAW_SECONDS, self._on_due)

    def _on_due(self) -> None:
        self._is_due = False
        self._draw(read=True)

    def _on_second(self) -> None:
        """Nothing tells that a session fell silent, so the lists are found again now and then."""
        self._seconds += 1
        self._updates.notice_silence()
        self._draw(read=self._seconds % FIND_SECONDS == 0)
        if self.chart is not None and self.chart.is_due and not self.is_paused and not self.is_away:
            self._draw_chart()

    def _draw(self, *, read: bool) -> None:
        if not self.is_paused:
            for rows in self.lists:
                rows.draw(read=read)
            self.detail.draw()
            self._fit_needs()
        self._draw_lines()

    @property
    def chart(self) -> Chart | None:
        """The chart that is shown."""
        return next((chart for chart in self.charts if chart.display), None)

    def _draw_chart(self) -> None:
        if self.chart is not None:
            show: Callable[[], Any] = partial(self._show_chart, self.chart)
            self.run_worker(show, exclusive=True, group="chart")

    async def _show_chart(self, chart: Chart) -> None:
        found = await self._ask(chart.lines, self.board, self.state.now, max(20, chart.size.width - 1))
        if found is not None:
            chart.show(found)

    def _fit_needs(self) -> None:
        """What needs a person takes the lines that it has, up to a third, beside the other lists; half of a wall."""
        share = {"now": 3, "wall": 2}.get(self.place)
        room = 0 if share is None else max(NEEDS_LINES, self.size.height // share)
        height = min(room, max(1, len(self.needs.keys)) * self.needs.pitch + 1)
        if room and self.needs.size.height != height:
            self.needs.styles.height = height

    def _draw_lines(self) -> None:
        columns = self.size.width
        lamp = lines.lamp(
            away_since=self._updates.away_since,
            why="" if self._updates.away is None else self._updates.away.why,
            paused=self.is_paused,
            columns=columns,
        )
        needed = self.needs.count if self.needs.display else len(attention.needs(self.state))
        is_wall = self.place == "wall"
        head, room = (lines.wall, columns - 2) if is_wall else (lines.head, columns)
        self.head.show(head(self.state, self._board_name, needed, lamp, room))
        count = len(self.selection)
        about = f"{count:,} selected" if count else self.item
        moves = lines.MOVES_OF_CHART if self.chart is not None else lines.MOVES
        moves = lines.MOVES_OF_ITEM if self.place == "item" else moves
        foot = lines.foot(self.fitting(), about, columns, moves)
        self.foot.show(self._notice or foot)
        # On a wall, the last line has no keys, but a notice is not lost.
        self.foot.display = not is_wall or bool(self._notice)

    def say(self, text: str, style: str = "") -> None:
        """One line, until the next key."""
        self._notice = Text(f" {clean(text)}", style=style, no_wrap=True, overflow="ellipsis")
        self._draw_lines()

    # The items that keys act on

    @property
    def rows(self) -> Rows | None:
        """The list with the cursor; a chart, an item and the wall display have none."""
        return self.current if self.current.display and self.place != "wall" else None

    @property
    def item(self) -> str | None:
        if self.place == "item":
            return None if self.detail.read is None else self.detail.read.detail.item.id
        return None if self.rows is None else self.rows.item

    @property
    def selection(self) -> list[Brief]:
        """The selected items, in the order of the list."""
        if self.rows is None or not self.rows.selected:
            return []
        items = self.state.items
        return [items[key] for key in self.rows.keys if key in self.rows.selected and key in items]

    def fitting(self) -> list[Action]:
        """What this caller may do to the selected items, or else to the item under the cursor."""
        if chosen := self.selection:
            return actions.fitting_some(chosen, self.state.me["role"])
        known = None if self.item is None else self.state.items.get(self.item)
        return [] if known is None else actions.fitting(known, self.state.me["role"])

    def on_rows_moved(self, message: Rows.Moved) -> None:
        if message.rows is self.current and self.place != "item":
            self._read_soon(message.rows.item)
            self._draw_lines()

    def on_rows_opened(self, message: Rows.Opened) -> None:
        self.open_item()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Rows) and event.widget is not self.current:
            self.current.choose(False)
            self.current = event.widget
        if isinstance(event.widget, Rows):
            self.current.choose(True)

    # Reading

    def _read_soon(self, item: str | None) -> None:
        self._wanted = item
        if self.detail.display:
            self.set_timer(READ_SECONDS, lambda: self._read_if_wanted(item))

    async def _read_if_wanted(self, item: str | None) -> None:
        if item == self._wanted:
            await self.show_item(item)

    async def show_item(self, item: str | None) -> None:
        """Read an item and show it beside the lists, or on the whole screen."""
        found = None if item is None else await self.read_item(item)
        if item is None or found is not None:
            self.detail.show(found, max(20, self.detail.size.width - 2))
            self._draw_lines()

    async def read_item(self, item: str) -> ReadItem | None:
        columns = (self.detail.size.width or self.size.width) - 2
        return await self._ask(calls.read_item, calls.Printer(self._args, self.board, max(20, columns)), item)

    async def _ask(self, call: Callable[..., T], *args: Any) -> T | None:
        """What the board answers; a refusal is shown, and answered with None."""
        try:
            return await asyncio.to_thread(call, *args)
        except DibsError as error:
            self.say(error.message, "bold red")
            return None

    def open_item(self) -> None:
        """Show the item on the whole screen; beside the lists it is shown already, where there is room."""
        item = self.item
        if item is not None and self.place != "item":
            self._wanted = item
            self._before = self.place
            self.go("item")
            read: Callable[[], Any] = partial(self.show_item, item)
            self.run_worker(read, exclusive=True, group="read")

    def close_item(self) -> None:
        self.go(self._before)

    async def find_pages(self) -> None:
        """Ask the board about the filter of the queue, if there may be items that the screen does not know."""
        text, self.queue.page = self.queue.filter, None
        if calls.needs_page(text, self.state.left_off):
            found = await self._ask(calls.read_page, self.board, text)
            if found is not None and text == self.queue.filter:
                self.queue.page = found
                self.queue.find_again()

    @property
    def is_away(self) -> bool:
        return self._updates.away is not None

    # The end

    def _handle_signals(self) -> None:
        """Give the terminal back when the process is ended, and draw all of the screen when it is continued."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.crash = self.crash or cause
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End without Textual's traceback, which shows the values of variables: one may be a key."""
        self._close_messages_no_wait()
