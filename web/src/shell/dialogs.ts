/** Which dialog of the shell is open. */
import { signal } from "@preact/signals";

export const help = signal(false);
/** The filter of the next view is to be focused. */
export const wantsFilter = signal(false);
/** The form of a new item, or of one that is edited. */
export const form = signal<{ edit: string | null } | null>(null);
