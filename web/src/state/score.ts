/** The score of a session at this second, by the rule of the server: it falls with silence, which sends no event. */
import type { Deduction, Seat } from "../api";
import { LAPSED } from "../event_kinds";
import { holdings, settings } from "./board";
import { ago } from "./text";

export function score(seat: Seat, now: number): { score: number; reasons: Deduction[] } {
  const found: Deduction[] = [];
  const add = (code: string, points: number, text: string) => points && found.push({ code, points, text });
  const held = seat.holding.flatMap((id) => holdings.get(id) ?? []).filter((one) => one.session === seat.id);
  if (held.length) {
    const limits = settings.value;
    const silent = (now - Math.min(...held.map((one) => one.renewed_at))) / 1000;
    const left = (Math.min(...held.map((one) => one.expires_at)) - now) / 1000;
    if (seat.kind !== "person" && silent > limits.stale_seconds!)
      silent > limits.orphan_seconds!
        ? add("orphaned", 40, `silent ${ago(silent)}`)
        : add("stale", 20, `silent ${ago(silent)}`);
    if (left <= limits.expiring_seconds!) add("expiring", 20, "expiring");
    else if (left <= limits.warning_seconds!) add("warning", 10, "little time left");
  }
  const ended = seat.recent.filter((run) => run.outcome);
  const share = (code: string, points: number, kinds: string[]) => {
    const count = ended.filter((run) => kinds.includes(run.outcome!)).length;
    if (count) add(code, Math.floor((points * count) / ended.length + 0.5), `${count} of ${ended.length} ${code}`);
  };
  share("lost", 25, LAPSED);
  share("failed", 20, ["failed"]);
  const context = seat.meta.context_percent;
  if (typeof context === "number" && context > 85) add("context", 15, `context ${Math.round(context)} %`);
  return { score: Math.max(0, 100 - found.reduce((sum, one) => sum + one.points, 0)), reasons: found };
}
