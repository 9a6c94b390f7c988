/** The question before an action that needs a person's words, or a yes. */
import "../core";
import { useEffect, useRef } from "preact/hooks";
import { question } from "../state/notices";
import { carryOut } from "../state/carry_out";
import { Text } from "./bits";

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
          void carryOut(action, targets, action.asks ? { [action.asks[0]]: given } : {});
        }}
      >
        <h2 id="asked">
          {action.label}: <Text>{what}</Text>
        </h2>
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
