/** Keys, and what a user may choose. */
import "../core";
import { useEffect, useRef } from "preact/hooks";
import { prefs, set } from "../state/prefs";
import { help } from "./dialogs";

const KEYS: [keys: string, meaning: string][] = [
  ["g n · g q · g f · g s", "now, queue, in flight, sessions"],
  ["g t · g a · g m · g e", "timeline, approvals, metrics, events"],
  ["j k ↓ ↑", "move"],
  ["Enter", "open beside the list; again: as a page"],
  ["Esc", "back"],
  ["x · X", "select; select up to here"],
  ["/", "filter"],
  ["n · e", "new item, edit"],
  ["a · A", "approve; approve as done"],
  ["b · R", "send back, reject"],
  ["r · p · c", "retry or reopen, park or unpark, cancel"],
  ["F", "force-release"],
  [".", "pause the screen"],
  ["w", "wall display"],
  ["?", "this help"],
];

function Choice({ label, name, options }: { label: string; name: "rows" | "theme" | "keys"; options: string[] }) {
  return (
    <label>
      {label}
      <select value={prefs.value[name]} onChange={(chosen) => set({ [name]: chosen.currentTarget.value })}>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </label>
  );
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="help" onClose={() => (help.value = false)}>
      <h2 id="help">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split(" · ").map((chord) => (
                <span key={chord}>
                  {chord.split(" ").map((one) => (
                    <kbd key={one}>{one}</kbd>
                  ))}
                </span>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <h2>Settings</h2>
      <p class="choices">
        <Choice label="colours" name="theme" options={["auto", "light", "dark"]} />
        <Choice label="rows" name="rows" options={["24", "28", "36"]} />
        <Choice label="keys" name="keys" options={["on", "off"]} />
      </p>
      <p class="buttons">
        <button class="main" onClick={() => dialog.current?.close()}>
          close
        </button>
        <a href="/openapi.json">API</a> <a href="/assets/LICENSES.txt">licences</a>
      </p>
    </dialog>
  );
}
