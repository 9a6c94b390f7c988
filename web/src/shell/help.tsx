/** Keys, and what a user may choose. */
import "../core";
import { useEffect, useRef } from "preact/hooks";
import { ask } from "../state/http";
import { isLive, lamp } from "../state/lamp";
import { say } from "../state/notices";
import { prefs, set } from "../state/prefs";
import { ACTIONS } from "../state/actions";
import { help } from "./dialogs";

const KEYS: [keys: string, meaning: string][] = [
  ["g n", "now"],
  ["g q", "queue"],
  ["g f", "in flight"],
  ["g s", "sessions"],
  ["g t", "timeline"],
  ["g a", "approvals"],
  ["g m", "metrics"],
  ["g e", "events"],
  ["j k", "move"],
  ["↵", "open; again: as a page"],
  ["Esc", "back"],
  ["/", "filter"],
  ["x", "select"],
  ["X", "select up to here"],
  [".", "pause the screen"],
  ["w", "wall display"],
  ["?", "this help"],
  ["n", "new item"],
  ["e", "edit"],
  ...[...new Set(ACTIONS.map((one) => one.key))].map((key): [string, string] => [
    key,
    ACTIONS.flatMap((one) => (one.key === key ? one.label : [])).join(", "),
  ]),
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

/** The server revokes the key of this browser. */
const signOut = () =>
  ask("POST", "/logout").then(
    () => {
      help.value = false;
      lamp.value = { is: "signed-out" };
    },
    (error: Error) => say(error.message, true),
  );

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="help" ref={dialog} aria-labelledby="help" onClose={() => (help.value = false)}>
      <h2 id="help">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((one) => (
                <kbd key={one}>{one}</kbd>
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
        {isLive() && <button onClick={signOut}>sign out</button>}
        <a class="blue" href="/openapi.json">API</a> · <a class="blue" href="/assets/LICENSES.txt">licences</a>
      </p>
    </dialog>
  );
}
