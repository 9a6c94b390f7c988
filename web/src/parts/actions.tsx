/** The buttons of an item. What a role may not do is not shown. */
import type { Brief } from "../api";
import { form } from "../shell/dialogs";
import { actionsFor, begin, may } from "../state/actions";
import { isLive } from "../state/lamp";
import { Key } from "./bits";

export function Buttons({ item, keys }: { item: Brief; keys?: string }) {
  const found = actionsFor(item).filter((one) => !keys || keys.includes(one.key));
  return (
    <span class="buttons">
      {found.map((action) => (
        <button
          key={action.label}
          disabled={!isLive()}
          title={`${action.label} (${action.key})`}
          onClick={() => begin(action, [item])}
        >
          <Key>{action.key}</Key> <span class="long">{action.label}</span>
          <span class="unseen"> {item.id}</span>
        </button>
      ))}
      {keys?.includes("e") && <Edit id={item.id} />}
    </span>
  );
}

/** The form of the item's content. */
export const Edit = ({ id }: { id: string }) =>
  may("agent") ? (
    <button disabled={!isLive()} title="edit (e)" onClick={() => (form.value = { edit: id })}>
      <Key>e</Key> <span class="long">edit</span>
      <span class="unseen"> {id}</span>
    </button>
  ) : null;
