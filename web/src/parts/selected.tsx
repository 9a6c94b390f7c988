/** What can be done with all selected items. */
import { begin, fits, may } from "../state/actions";
import { items } from "../state/board";
import { isLive } from "../state/lamp";
import type { List } from "../state/list";
import { ACTIONS } from "../state/actions";
import { Key } from "./bits";

export function Selected({ list }: { list: List }) {
  const chosen = [...list.selected.value].flatMap((id) => items.get(id) ?? []);
  if (!chosen.length) return null;
  const found = ACTIONS.filter((one) => may(one.role) && !one.args && chosen.some((item) => fits(one, item)));
  return (
    <span class="buttons" role="group" aria-label={`${chosen.length} selected`}>
      <b>{chosen.length} selected</b>
      {found.map((action) => (
        <button key={action.label} disabled={!isLive()} onClick={() => begin(action, chosen.filter((item) => fits(action, item)))}>
          <Key>{action.key}</Key> {action.label}
        </button>
      ))}
      <button onClick={() => list.leave()}>
        <Key>Esc</Key> none
      </button>
    </span>
  );
}
