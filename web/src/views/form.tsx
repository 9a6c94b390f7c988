/** A new item, or the content of one that exists. */
import "../core";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Item } from "../api";
import { FORM } from "../item_fields";
import { Text } from "../parts/bits";
import { useDetail } from "../parts/detail";
import { form } from "../shell/dialogs";
import { may } from "../state/actions";
import { say } from "../state/notices";
import { ask, itemPath } from "../state/http";
import { change } from "../state/route";

export function Form() {
  const asked = form.value;
  const found = useDetail(asked?.edit ?? null);
  if (!asked || (asked.edit && !found)) return null;
  if (!may("agent")) {
    form.value = null;
    return null;
  }
  return <Fields item={found && "detail" in found ? found.detail.item : null} />;
}

function Fields({ item: latest }: { item: Item | null }) {
  // What the form began with: the edit is refused if somebody else changed the item meanwhile.
  const [item] = useState(latest);
  const [problem, setProblem] = useState("");
  const isSending = useRef(false);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const text = (name: keyof Item) => {
    const value = item?.[name];
    return Array.isArray(value) ? value.join(", ") : value === undefined || value === null ? "" : String(value);
  };
  const send = async (data: FormData) => {
    // Whoever presses Enter twice wants one item.
    if (isSending.current) return;
    isSending.current = true;
    const given: Record<string, unknown> = {};
    for (const [name, , kind, empty] of FORM) {
      if (!data.has(name)) continue;
      const written = String(data.get(name) ?? "").trim();
      if (written === text(name).trim()) continue;
      if (kind === "list") given[name] = written.split(",").map((one) => one.trim()).filter(Boolean);
      else given[name] = written || (empty ?? "");
    }
    try {
      if (item) await ask("PATCH", itemPath(item.id), { ...given, revision: item.revision });
      else change({ item: (await ask<Item>("POST", "/v1/items", given)).id });
      if (item) say(`${item.id} was changed`);
      form.value = null;
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      isSending.current = false;
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="form" onClose={() => (form.value = null)}>
      <form
        method="dialog"
        onSubmit={(submit) => {
          submit.preventDefault();
          void send(new FormData(submit.currentTarget));
        }}
      >
        <h2 id="form">{item ? <>Edit <Text>{item.id}</Text></> : "New item"}</h2>
        {FORM.filter(([name]) => !item || name !== "id").map(([name, label, kind]) => (
          <label key={name}>
            {label}
            {kind === "text" ? (
              <textarea name={name} rows={5} defaultValue={text(name)} />
            ) : (
              <input name={name} defaultValue={text(name)} required={name === "title"} autocomplete="off" />
            )}
          </label>
        ))}
        {problem && (
          <p class="red" role="alert">
            <Text>{problem}</Text>
          </p>
        )}
        <p class="buttons">
          <button type="submit" class="main">
            {item ? "change" : "add"}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            leave it
          </button>
        </p>
      </form>
    </dialog>
  );
}
