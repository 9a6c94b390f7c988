/** The question before an action that needs a person's words, or a yes. */
import "../core";
import { useEffect, useRef } from "preact/hooks";
import { question } from "../state/notices";
import { send } from "../state/actions";
import { number } from "../state/text";
import { Text } from "./bits";

/** As many items are named before something is done to all of them. */
const NAMED = 12;

export function Ask() {
  const asked = question.value;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (asked) dialog.current?.showModal();
  }, [asked]);
  if (!asked) return null;
  const { action, targets } = asked;
  const what = targets.length === 1 ? targets[0]!.id : `${targets.length} items`;
  return (
    <dialog ref={dialog} aria-labelledby="asked" onClose={() => (question.value = null)}>
      <form
        method="dialog"
        onSubmit={(submit) => {
          submit.preventDefault();
          const given = new FormData(submit.currentTarget).get("words");
          send(action, targets, action.asks ? { [action.asks[0]]: given } : {});
        }}
      >
        <h2 id="asked">
          {action.label}: <Text>{what}</Text>
        </h2>
        {targets.length > 1 && (
          <p class="dim named">
            {targets.slice(0, NAMED).map((item) => (
              <span class="id" key={item.id}>
                <Text>{item.id}</Text>
              </span>
            ))}
            {targets.length > NAMED && `and ${number(targets.length - NAMED)} more`}
          </p>
        )}
        {action.asks && (
          <label>
            {action.asks[1]}
            <textarea name="words" required rows={3} autofocus />
          </label>
        )}
        <p class="buttons">
          <button type="submit" class="main">
            {action.label}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            leave it
          </button>
        </p>
      </form>
    </dialog>
  );
}
