/** The keyboard. A key acts on the selected rows, or on the row under the cursor, or on the open item. */
import { start } from "../state/actions";
import { isPaused, pause } from "../state/board";
import { current } from "../state/list";
import { prefs } from "../state/prefs";
import { back as goBack, change, go, opened, view } from "../state/route";
import { viewKeys } from "../state/view_keys";
import { help, form, wantsFilter } from "./dialogs";

export const PLACES: Record<string, string> = {
  ...{ n: "now", q: "queue", f: "flight", s: "sessions", t: "timeline", a: "approvals", m: "metrics", e: "events" },
};
/** How long `g` waits for the letter of a view. */
const CHORD_MS = 1_500;
let chordUntil = 0;

const targets = (): string[] => {
  const chosen = current.peek()?.targets() ?? [];
  return chosen.length ? chosen : opened.peek() ? [opened.peek()!] : [];
};

const SIMPLE: Record<string, () => unknown> = {
  g: () => (chordUntil = Date.now() + CHORD_MS),
  j: () => current.peek()?.move(1),
  k: () => current.peek()?.move(-1),
  ArrowDown: () => current.peek()?.move(1),
  ArrowUp: () => current.peek()?.move(-1),
  Enter: enter,
  Escape: back,
  x: () => current.peek()?.cursor.value && current.peek()!.toggle(current.peek()!.cursor.peek()!),
  X: () => current.peek()?.cursor.value && current.peek()!.extend(current.peek()!.cursor.peek()!),
  "/": filter,
  "?": () => (help.value = !help.value),
  ".": () => pause(!isPaused.peek()),
  w: () => document.documentElement.toggleAttribute("data-wall"),
  n: () => (form.value = { edit: null }),
  e: () => targets().length === 1 && (form.value = { edit: targets()[0]! }),
};

/** The first Enter opens the item beside the list, the second one as a page. */
function enter(): void {
  const id = current.peek()?.target();
  if (opened.peek() && (!id || id === opened.peek()) && view.peek() !== "item") go("item", { item: opened.peek() });
  else if (id) change({ item: id });
}

/** A view without a filter leads to the queue, which has one. */
function filter(): void {
  const field = document.getElementById("filter");
  if (field) return field.focus();
  wantsFilter.value = true;
  go("queue");
}

function back(): void {
  if (help.peek()) help.value = false;
  else if (view.peek() === "item") goBack();
  else if (opened.peek()) change({ item: null });
  else current.peek()?.leave();
}

addEventListener("keydown", (press) => {
  const target = press.target as HTMLElement;
  if (press.ctrlKey || press.metaKey || press.altKey || document.querySelector("dialog[open]")) return;
  if (target.closest("input:not([type=checkbox]),textarea,select")) {
    if (press.key === "Escape") {
      // The browser would empty a search field, whose filter stays.
      press.preventDefault();
      target.blur();
    }
    return;
  }
  if (prefs.peek().keys === "off" && !["Enter", "Escape", "ArrowDown", "ArrowUp"].includes(press.key)) return;
  // The browser's own meaning of Enter and the arrows stays with what has it.
  if (press.key === "Enter" && target.closest("a,button")) return;
  if (Date.now() < chordUntil && PLACES[press.key]) {
    chordUntil = 0;
    press.preventDefault();
    return go(PLACES[press.key]!);
  }
  chordUntil = 0;
  const simple = viewKeys.get(press.key) ?? SIMPLE[press.key];
  if (simple) {
    press.preventDefault();
    simple();
  } else if (press.key.length === 1 && start(press.key, targets())) press.preventDefault();
});
