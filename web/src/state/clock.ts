/** The server's clock. Every age and every bar is computed from it, never from the clock of this machine alone. */
import { signal } from "@preact/signals";

let offset = 0;
let stands = false;

/** The time of the server, to the second. It stands while the server is away. */
export const now = signal(Date.now());

/** Whether the server has told its time. Until then `now` is the clock of this machine, which may be hours off. */
export const isSet = signal(false);

export const instant = (): number => Date.now() + offset;

export function set(serverTime: number): void {
  offset = serverTime - Date.now();
  tick();
  isSet.value = true;
}

export function stand(still: boolean): void {
  if (stands === still) return;
  stands = still;
  tick();
}

function tick(): void {
  if (!stands) now.value = Math.floor(instant() / 1000) * 1000;
}

setInterval(tick, 1000);
