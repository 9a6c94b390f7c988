/** Parts of the first view that work only once the page is live, and are loaded with what makes it so. */
import { signal } from "@preact/signals";
import type { Buttons } from "./actions";

export const slots = signal<{ Buttons: typeof Buttons | null }>({ Buttons: null });
