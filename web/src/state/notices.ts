/** What the page asks of its user, and tells. */
import { signal } from "@preact/signals";
import type { Brief } from "../api";
import type { Action } from "../rules";

export interface Question {
  action: Action;
  targets: Brief[];
}
/** An action that waits for a person's words or yes. */
export const question = signal<Question | null>(null);

export interface Toast {
  text: string;
  bad: boolean;
}
export const toast = signal<Toast | null>(null);
let toastTimer: ReturnType<typeof setTimeout>;

export function say(text: string, bad = false): void {
  toast.value = { text, bad };
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (toast.value = null), bad ? 12_000 : 5_000);
}
