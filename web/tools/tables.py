"""Writes what the dashboard has of the tables of the board's rules: `python -m web.tools.tables`.

Three modules, because the bundler puts a module into one file: views need `event_kinds.ts`, what makes the page live
needs `rules.ts`, and the form, which is loaded when it is opened, `item_fields.ts`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dibs.cli.top.actions import role_of
from dibs.cli.top.state import DEFAULTS
from dibs.model import ROLES, NewItem
from dibs.model.dashboard import Brief
from dibs.model.item_fields import FIELDS, ItemField
from dibs.rules.actions import ACTIONS, Action
from dibs.rules.event_kinds import EVENT_KINDS, LAPSE, OUTCOMES, ended_by
from dibs.rules.items import CONTENT

SOURCE = Path(__file__).parent.parent / "src"
#: The classes of the tones in `src/style/base.css`.
CLASSES = {"plain": "", "faint": "dim", "good": "green", "active": "blue", "warning": "amber", "bad": "red"}
CLASSES |= {"notable": "violet"}
HEAD = "/** Made by `python -m web.tools.tables` from {}. */\n"
ACTION = """\
export interface Action {
  key: string;
  verb: string;
  label: string;
  /** The least role that it is offered to, and the statuses in which it is. */
  role: string;
  statuses: string[];
  /** The parameters that say what was read, and others. */
  reads?: ("revision" | "token")[];
  args?: Record<string, unknown>;
  /** The parameter that a person has to fill in, and the question for it. */
  asks?: [name: string, question: string];
  /** It takes something away, so it is confirmed. */
  confirms?: boolean;
  /** It is about a draft, not about a plan. */
  needs_draft?: boolean;
}
"""


def generated() -> dict[Path, str]:
    """The modules, and what is in them."""
    return {
        SOURCE / "event_kinds.ts": _event_kinds(),
        SOURCE / "rules.ts": _rules(),
        SOURCE / "item_fields.ts": _item_fields(),
    }


def _event_kinds() -> str:
    tones = {kind.name: CLASSES[kind.tone] for kind in EVENT_KINDS if CLASSES[kind.tone]}
    marks = {name: [end.sign, CLASSES[end.tone], end.word] for name, end in OUTCOMES.items()}
    parts = [
        HEAD.format("`dibs.rules.event_kinds`"),
        "/** The outcomes of runs whose claim lapsed. */",
        f"export const LAPSED = {_literal(sorted(ended_by(LAPSE)))};\n",
        f"/** The colour of each kind of event. */\n{_table('TONES', 'string', tones)}",
        f"/** How a run ended. */\n{_table('MARKS', '[sign: string, tone: string, word: string]', marks)}",
    ]
    return "\n".join(parts)


def _rules() -> str:
    of_text = ("added", "edited")
    decided = dict.fromkeys(name for kind in EVENT_KINDS if kind.name not in of_text for name in kind.changes)
    parts = [
        HEAD.format("`dibs.rules.actions` and `dibs.rules.event_kinds`"),
        f"export const ROLES = {_literal(ROLES)};\n",
        "/** The fields of an item that any event may change, and those of its text, which only some do. */",
        f"export const DECIDED = {_literal(_of_brief(decided))};",
        f"export const CONTENT = {_literal(_of_brief(CONTENT))};",
        "/** What an item has that was added without. */",
        f"export const DEFAULTS = {_literal(DEFAULTS)};\n",
        f"{ACTION}export const ACTIONS: Action[] = [",
        *(f"  {_literal(_given(one))}," for one in ACTIONS),
        "];\n",
    ]
    return "\n".join(parts)


def _item_fields() -> str:
    asked = [_asked(name, field) for name, field in FIELDS.items() if field.form]
    parts = [
        HEAD.format("`dibs.model.item_fields`"),
        'import type { Item } from "./api";\n',
        "/** The fields of the form of an item; `empty`: what an item has whose field is left empty. */",
        'export const FORM: [name: keyof Item, label: string, kind: "line" | "list" | "text", empty?: unknown][] = [',
        # A text of many lines is last.
        *(f"  {_literal(one)}," for one in sorted(asked, key=lambda one: one[2] == "text")),
        "];\n",
    ]
    return "\n".join(parts)


def _asked(name: str, field: ItemField) -> list[Any]:
    kind = {"Names": "list", "ItemIds": "list", "Text": "text"}.get(NewItem._kinds[name], "line")
    default = NewItem.default_of(name)
    return [name, field.form, kind, *([default] if kind == "line" and default is not None else [])]


def _of_brief(names: Any) -> list[str]:
    """Those that the dashboard has of an item; its token is in every event."""
    return [name for name in names if name in Brief._fields and name != "token"]


def _given(action: Action) -> dict[str, Any]:
    first = {"key": action.key, "verb": action.verb, "label": action.label, "role": role_of(action)}
    rest = action.without_defaults()
    return (
        first | {"statuses": action.statuses} | {name: rest[name] for name in rest if name not in (*first, "never_in")}
    )


def _table(name: str, kind: str, rows: dict[str, Any]) -> str:
    lines = "".join(f"  {row}: {_literal(value)},\n" for row, value in rows.items())
    return f"export const {name}: Record<string, {kind}> = {{\n{lines}}};\n"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name}: {_literal(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
