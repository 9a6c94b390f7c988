"""Questions over the screen: an action to confirm, and the list of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from dibs.cli.render import clean, paragraphs
from dibs.cli.top.actions import token_of
from dibs.cli.top.rows import style_of
from dibs.model import PENDING_APPROVAL

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from dibs.cli.top.actions import Action
    from dibs.model import Detail

KEYS = (
    ("g n  g q  g f", "now, queue, in flight"),
    ("g s  g a  g e", "sessions, approvals, events"),
    ("j k ↓ ↑  PgUp PgDn", "move"),
    ("Tab", "the next list"),
    ("Enter", "open the item; again: on the whole screen"),
    ("Esc", "back"),
    ("/", "filter: status:ready label:web words"),
    ("a  A", "approve; approve as done"),
    ("b  R", "send back, reject"),
    ("r  p  c", "retry, park or unpark, cancel"),
    ("F", "force-release"),
    (".", "pause the screen"),
    ("?", "this help"),
    ("q", "quit"),
)
QUESTIONS = {"comment": "What should be different?", "reason": "Why?"}


class Confirm(ModalScreen[str | None]):
    """Asks whether to do it, about the item as it was read. The answer is the text that was asked for, None for no."""

    def __init__(self, action: Action, read: Detail) -> None:
        super().__init__()
        self._action, self._read = action, read

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Text(f"{self._action.label} {clean(self._read.item.id)}?", style="bold"))
            yield Static(Text("\n".join(self._facts())))
            if draft := self._draft():
                with VerticalScroll(id="draft"):
                    yield Static(Text("\n".join(draft)))
            if self._action.asks is not None:
                yield Input(placeholder=QUESTIONS[self._action.asks], id="answer")
                yield Static(Text("Enter does it, Esc leaves it", style="dim"), id="hint")
            else:
                yield Static(Text("y does it, n or Esc leaves it", style="dim"), id="hint")

    def on_mount(self) -> None:
        if self._action.asks is not None:
            self.query_one("#answer", Input).focus()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key == "escape" or (self._action.asks is None and event.key == "n"):
            self.dismiss(None)
        elif self._action.asks is None and event.key == "y":
            self.dismiss("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())
        else:
            question = QUESTIONS[self._action.asks or "reason"]
            self.query_one("#hint", Static).update(
                Text(f"{question} Write a few words; Esc leaves it", style=style_of("yellow"))
            )

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
            return paragraphs(self._read.item.body, "")
        return [f"draft of run {run.token} by {clean(run.agent)}:", *paragraphs(run.draft or "", "  ")]


class Help(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        text = Text()
        for keys, meaning in KEYS:
            text.append(f"{keys:<20}", style="bold").append(f" {meaning}\n")
        with Vertical(id="dialog"):
            yield Static(Text("Keys, as on the dashboard", style="bold"))
            yield Static(text)
            yield Static(Text("Esc closes this", style="dim"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(None)
