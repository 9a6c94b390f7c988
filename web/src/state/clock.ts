/** The server's clock. Every age and every bar is computed from it, never from the clock of this machine alone. */
import { signal } from "@preact/signals";

let offset = 0;
let stands = false;

/** The time of the server, to the second. It stands while the server is away. */
export const now = signal(Date.now());

export const instant = (): number => Date.now() + offset;

export function set(serverTime: number): void {
  offset = serverTime - Date.now();
  tick();
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
