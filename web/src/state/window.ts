/** The runs of a span of time. The newest part is fetched again while time passes; the rest stays. */
import { effect, signal } from "@preact/signals";
import { version } from "./board";
import { isSet, now } from "./clock";
import { get } from "./http";
import { whenSeen } from "./seen";

export interface Span {
  item: string;
  token: number;
  session: string;
  agent: string;
  start: number;
  /** Null while it is going on. */
  end: number | null;
  outcome: string | null;
}

export interface Refused {
  at: number;
  item: string;
  session: string;
  code: string;
}

interface Answer {
  runs: [string, number, string, string, number, number | null, string | null][];
  refused: [number, string, string, string][];
  truncated: boolean;
}

const AGAIN_MS = 4_000;
const LIMIT = 5_000;
/** Runs from before the last look are looked at once more, since one may have ended between clock and answer. */
const OVERLAP_MS = 2_000;
/** How far back runs are kept that nobody looks at any more, and how many runs at most: a page is open for days. */
const KEPT_MS = 3600_000;
const RUNS_MAX = 20_000;

export class RunsWindow {
  readonly changed = signal(0);
  readonly isTruncated = signal(false);
  readonly problem = signal<string | null>(null);
  readonly runs = new Map<string, Span>();
  readonly refused = new Map<string, Refused>();
  private from = Infinity;
  private upTo = 0;
  private isAsking = false;

  /** Follow the board until the returned function is called. */
  follow(from: () => number): () => void {
    let timer: ReturnType<typeof setTimeout> | null = null;
    let giveUp = () => {};
    const again = () => {
      timer = null;
      void this.ask(this.upTo - OVERLAP_MS);
    };
    const stop = effect(() => {
      version.value;
      if (!isSet.value) return;
      const wanted = from();
      if (wanted < this.from) void this.ask(wanted);
      else timer ??= setTimeout(() => (giveUp = whenSeen(again)), AGAIN_MS);
      this.forget(wanted - KEPT_MS);
    });
    return () => {
      stop();
      if (timer) clearTimeout(timer);
      giveUp();
    };
  }

  private forget(before: number): void {
    if (this.from >= before - KEPT_MS && this.runs.size <= RUNS_MAX) return;
    for (const [key, run] of this.runs) {
      const isSurplus = this.runs.size > RUNS_MAX && run.end !== null;
      if (isSurplus) this.isTruncated.value = true;
      if (isSurplus || (run.end ?? Infinity) < before) this.runs.delete(key);
    }
    for (const [key, one] of this.refused) if (one.at < before) this.refused.delete(key);
    this.from = Math.max(this.from, before);
  }

  private async ask(from: number): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    const to = now.peek() + 1000;
    try {
      const answer = await get<Answer>(
        `/v1/runs/window?from=${Math.floor(from)}&to=${Math.ceil(to)}&limit=${LIMIT}`,
      );
      for (const [item, token, session, agent, start, end, outcome] of answer.runs)
        this.runs.set(`${token} ${item}`, { item, token, session, agent, start, end, outcome });
      for (const [at, item, session, code] of answer.refused) this.refused.set(`${at} ${session}`, { at, item, session, code });
      this.from = Math.min(this.from, from);
      this.upTo = to;
      this.isTruncated.value = answer.truncated;
      this.problem.value = null;
    } catch (error) {
      this.problem.value = error instanceof Error ? error.message : String(error);
      this.from = Math.min(this.from, from);
    }
    this.isAsking = false;
    this.changed.value++;
  }
}
