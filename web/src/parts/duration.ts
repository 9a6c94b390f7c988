/** A duration in full: 1h30m, 2.5s. */
export function duration(seconds: number): string {
  const [h, m] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const s = Math.round((seconds % 60) * 10) / 10;
  return `${h ? h + "h" : ""}${m ? m + "m" : ""}${s ? s + "s" : ""}` || "0s";
}
