/** What can be done with all selected items. */
import { ACTIONS, begin, may } from "../state/actions";
import { items } from "../state/board";
import { isLive } from "../state/lamp";
import type { List } from "../state/list";
import { Key } from "./bits";

export function Selected({ list }: { list: List }) {
  const chosen = [...list.selected.value].flatMap((id) => items.get(id) ?? []);
  if (!chosen.length) return null;
  const found = ACTIONS.filter((one) => may(one.role) && one.key !== "A" && chosen.some(one.fits));
  return (
    <span class="buttons" role="group" aria-label={`${chosen.length} selected`}>
      <b>{chosen.length} selected</b>
      {found.map((action) => (
        <button key={action.label} disabled={!isLive()} onClick={() => begin(action, chosen.filter(action.fits))}>
          <Key>{action.key}</Key> {action.label}
        </button>
      ))}
      <button onClick={() => list.leave()}>
        <Key>Esc</Key> none
      </button>
    </span>
  );
}
