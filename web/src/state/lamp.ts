/** Whether what this tab shows is true now. */
import { signal } from "@preact/signals";
import type { Lamp } from "./stream";

export const lamp = signal<Lamp>({ is: "connecting" });
export const heardAt = signal(Date.now());
export const isNewer = signal(false);
/** Buttons work, and clocks go. */
export const isLive = (): boolean => lamp.value.is === "live" || lamp.value.is === "catching-up";

/** Try to reach the server again now. */
export const hurry = { up: (): void => undefined };
