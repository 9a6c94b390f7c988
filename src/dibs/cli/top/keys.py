"""The keyboard: letters and meanings are those of the dashboard. A key acts on the item under the cursor, or on the one
that is open."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from dibs.cli.top import actions
from dibs.cli.top.dialogs import Help
from dibs.cli.top.panes import Flight, Queue
from dibs.cli.top.views import PLACES

if TYPE_CHECKING:
    from textual import events

#: How long `g` waits for the letter of a view.
CHORD_SECONDS = 1.5
AWAY = "the board is away; nothing was changed"


class Keyboard:
    """What the keys of the app do. Questions over the screen have keys of their own."""

    _chord_until = 0.0

    def on_key(self: Any, event: events.Key) -> None:
        if len(self.screen_stack) > 1 or isinstance(self.focused, Input):
            if event.key == "escape" and isinstance(self.focused, Input):
                event.stop()
                self.filter_line.value = ""
                _end_filter(self)
            return
        key = event.character if event.is_printable else event.key
        self._notice = type(self._notice)()
        if monotonic() < self._chord_until:
            self._chord_until = 0.0
            if key in PLACES:
                event.stop()
                self.go(PLACES[key])
                return
        if key in SIMPLE:
            event.stop()
            SIMPLE[key](self)
        elif key in actions.KEYS:
            event.stop()
            _act(self, key)
        self._draw_lines()

    def on_input_changed(self: Any, event: Input.Changed) -> None:
        if event.input is self.filter_line:
            _filter(self, event.value)

    def on_input_submitted(self: Any, event: Input.Submitted) -> None:
        if event.input is self.filter_line:
            _end_filter(self)


def _begin_chord(app: Any) -> None:
    app._chord_until = monotonic() + CHORD_SECONDS


def _move(step: int) -> Any:
    def move(app: Any) -> None:
        scrolled = app.detail if app.place == "item" or app.focused is app.detail else app.chart
        if scrolled is not None:
            scrolled.scroll_relative(y=step, animate=False)
        elif app.rows is not None:
            app.rows.move(step)

    return move


def _back(app: Any) -> None:
    if app.place == "item":
        app.close_item()
    elif app.place == "wall":
        app.switch_wall()
    elif app.selection:
        app.rows.deselect()
    elif isinstance(app.rows, Queue | Flight) and app.rows.filter:
        app.filter_line.value = ""
        _filter(app, "")
    elif app.focused is app.detail:
        app.current.focus()


def _begin_filter(app: Any) -> None:
    if not isinstance(app.rows, Queue | Flight):
        app.go("queue")
    app.filter_line.value = _filtered(app).filter
    app.filter_line.display = True
    app.filter_line.focus()


def _filtered(app: Any) -> Queue | Flight:
    """The list that the filter is about."""
    return app.rows if isinstance(app.rows, Queue | Flight) else app.queue


def _filter(app: Any, text: str) -> None:
    rows = _filtered(app)
    if rows.filter != text:
        rows.filter = text
        app.queue.page = None
        rows.find_again()
        if rows is app.queue:
            app.run_worker(app.find_pages, exclusive=True, group="page")


def _end_filter(app: Any) -> None:
    app.filter_line.display = False
    app.current.focus()


def _pause(app: Any) -> None:
    app.is_paused = not app.is_paused
    app._draw(read=True)


def _act(app: Any, key: str) -> None:
    """Nothing happens under a key that this caller may not use, or that does not fit the item."""
    item = app.item
    action = next((one for one in app.fitting() if one.key == key), None)
    chosen = app.selection
    if chosen and key not in actions.BULK_KEYS:
        app.say("r, p and c act on a selection; Esc deselects", "yellow")
    elif action is None or item is None or not _can_change(app):
        return
    elif chosen:
        app.run_worker(partial(app.act_on_all, action, chosen), exclusive=True, group="act")
    else:
        app.run_worker(partial(app.act, action, item), exclusive=True, group="act")


def _can_change(app: Any) -> bool:
    if app.is_away:
        app.say(AWAY, "bold red")
    elif app.waits_for is not None:
        app.say(f"the board has not answered yet: {app.waits_for}", "yellow")
    return not app.is_away and app.waits_for is None


def _select(how: str) -> Any:
    def select(app: Any) -> None:
        if app.rows is None or not app.rows.SELECTS:
            app.say("rows can be selected in the queue and in what needs you", "yellow")
        else:
            getattr(app.rows, how)()

    return select


def _add(app: Any) -> None:
    if not actions.may("add", app.state.me["role"]):
        return
    if _can_change(app):
        app.run_worker(app.add, exclusive=True, group="act")


def _edit(app: Any) -> None:
    if app.item is not None and actions.may("edit", app.state.me["role"]):
        app.say(f"dibs edit {app.item} --title ... changes it; dibs edit --help says what else", "yellow")


SIMPLE: dict[str | None, Any] = {
    "g": _begin_chord,
    **dict.fromkeys(("j", "down"), _move(1)),
    **dict.fromkeys(("k", "up"), _move(-1)),
    "pagedown": _move(10),
    "pageup": _move(-10),
    "home": _move(-1_000_000),
    "end": _move(1_000_000),
    "enter": lambda app: app.open_item(),
    "escape": _back,
    "/": _begin_filter,
    "x": _select("toggle"),
    "X": _select("extend"),
    "n": _add,
    "e": _edit,
    ".": _pause,
    "w": lambda app: app.switch_wall(),
    "?": lambda app: app.push_screen(Help()),
    "q": lambda app: app.exit(),
}
