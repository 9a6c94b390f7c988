"""Questions over the screen: an action to confirm, a new item; and the list of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dibs.cli.render import clean, number_of, quoted
from dibs.cli.top.actions import BULK_KEYS, token_of
from dibs.cli.top.rows import style_of
from dibs.model import PENDING_APPROVAL
from dibs.rules.actions import by_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from dibs.model import Detail
    from dibs.model.dashboard import Brief
    from dibs.rules.actions import Action


def _meaning(key: str, labels: list[str]) -> str:
    return " or ".join(labels) + ("; also a selection" if key in BULK_KEYS else "")


KEYS = (
    ("g n  g q  g f", "now, queue, in flight"),
    ("g s  g a  g e", "sessions, approvals, events"),
    ("g t  g m", "timeline, metrics"),
    ("j k ↓ ↑  PgUp PgDn", "move"),
    ("Tab", "the next list"),
    ("Enter", "open the item on the whole screen"),
    ("Esc", "back"),
    ("/", "filter: status:ready label:web words"),
    ("x  X", "select; select up to here"),
    ("n  e", "new item; how to edit this one"),
    *((key, _meaning(key, [one.label for one in actions])) for key, actions in by_key().items()),
    (".  w", "pause the screen; wall display"),
    ("?  q", "this help; quit"),
)
SCROLLS = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": 5, "pageup": -5}
#: How many of the selected items a question names.
ITEMS_NAMED = 5


class Question(ModalScreen[str | None]):
    """Asks for a text, or without `asks` for `y`. The answer is the text, None for no."""

    asks: str | None = None

    def facts(self) -> Iterator[Widget]:
        """What it is about."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield from self.facts()
            if self.asks is not None:
                yield Input(placeholder=self.asks, id="answer")
            does = "y does it, n or Esc leaves it" if self.asks is None else "Enter does it, Esc leaves it"
            yield Static(Text(does, style="dim"), id="hint")

    def on_mount(self) -> None:
        if self.asks is not None:
            self.query_one("#answer", Input).focus()

    def on_key(self, event: events.Key) -> None:
        # Other keys go on: Enter and Backspace are bindings of the input, which are looked up last.
        if event.key == "escape" or (self.asks is None and event.key == "n"):
            event.stop()
            self.dismiss(None)
        elif self.asks is None and event.key == "y":
            event.stop()
            self.dismiss("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())
        else:
            hint = Text(f"{self.asks} Write a few words; Esc leaves it", style=style_of("yellow"))
            self.query_one("#hint", Static).update(hint)


class NewItem(Question):
    asks = "What is to be done?"

    def facts(self) -> Iterator[Widget]:
        yield Static(Text("A new item", style="bold"))


class Confirm(Question):
    """About the item as it was read."""

    def __init__(self, action: Action, read: Detail) -> None:
        super().__init__()
        self._action, self._read = action, read
        self.asks = None if action.asks is None else action.asks[1]

    def facts(self) -> Iterator[Widget]:
        yield Static(Text(f"{self._action.label} {clean(self._read.item.id)}?", style="bold"))
        yield Static(Text("\n".join(self._facts())))
        if draft := self._draft():
            yield VerticalScroll(Static(Text("\n".join(draft))), id="draft")

    def _facts(self) -> list[str]:
        item, claim = self._read.item, self._read.claim
        status = item.status.replace("_", " ")
        lines = [clean(item.title), f"{status} · revision {item.revision}"]
        if claim is not None:
            lines.append(f"held by {clean(claim.agent)}, session {clean(claim.session)} · token {claim.token}")
        return lines

    def _draft(self) -> list[str]:
        token = token_of(self._read)
        if self._read.item.status != PENDING_APPROVAL:
            return []
        run = next((run for run in self._read.runs if run.token == token and run.draft is not None), None)
        if run is None:
            return quoted(self._read.item.body, "")
        return [f"draft of run {run.token} by {clean(run.agent)}:", *quoted(run.draft or "", "  ")]


class ConfirmAll(Question):
    """About the selected items that the action fits."""

    def __init__(self, action: Action, items: Sequence[Brief], left: int) -> None:
        super().__init__()
        self._action, self._items, self._left = action, items, left

    def facts(self) -> Iterator[Widget]:
        yield Static(Text(f"{self._action.label} {number_of(len(self._items), 'item')}?", style="bold"))
        lines = [
            f"{clean(item.id)} · {item.status.replace('_', ' ')} · {clean(item.title)}"
            for item in self._items[:ITEMS_NAMED]
        ]
        if len(self._items) > ITEMS_NAMED:
            lines.append(f"and {len(self._items) - ITEMS_NAMED:,} more")
        if self._left:
            lines.append(f"not the other {self._left:,} selected: {self._action.label} does not fit their status")
        yield Static(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"))


class Help(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        text = Text()
        for keys, meaning in KEYS:
            text.append(f"{keys:<20}", style="bold").append(f" {meaning}\n")
        with Vertical(id="dialog"):
            yield Static(Text("Keys, as on the dashboard (dibs open)", style="bold"))
            with VerticalScroll(id="keys"):
                yield Static(text)
            yield Static(Text("j and k move, any other key closes this", style="dim"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in SCROLLS:
            self.query_one("#keys").scroll_relative(y=SCROLLS[event.key], animate=False)
        else:
            self.dismiss(None)
