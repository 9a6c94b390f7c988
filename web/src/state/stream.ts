/**
 * The feed of the board: one request that stays open, and is made again after the last event when it breaks.
 *
 * `fetch` instead of EventSource, which hides the server's keep-alives: with them, a dead connection is noticed, and
 * "live" means that the server spoke within the last seconds.
 */
import type { Event } from "../api";
import { decode, get, Problem, problemOf } from "./http";

export type Lamp =
  | { is: "connecting" }
  | { is: "live" }
  | { is: "catching-up"; left: number }
  | { is: "away"; since: number }
  | { is: "signed-out" };

export interface Vitals {
  at: number;
  /** The latest event of the board. */
  event?: number;
  renewed?: Record<string, [number | string, number]>;
  seen?: Record<string, number | string>;
  queues?: Record<string, string[]>;
  sessions?: { started?: unknown[]; ended?: string[] };
}

/** `start`: the events that follow are those after this one. `isOther`: nothing that was known of the board counts any
 * more, since the board was restored from a backup. */
export type News =
  | { lamp: Lamp }
  | { start: number; isOther: boolean }
  | { event: Event }
  | { vitals: Vitals }
  | { heard: number };

/** The server sends something at least every 15 seconds. */
const SILENT_MS_MAX = 25_000;
/** A browser stays signed in while it sends requests, and an open stream sends none. */
const SIGN_OF_LIFE_MS = 3600_000;
const RETRY_MS_MAX = 10_000;
const RETRY_MS_MIN = 500;
/** Reading the board anew is cheaper than more events than these. */
const BEHIND_MAX = 3_000;
/** A restored board numbers its events much further on; gaps in a feed are smaller. */
const LEAP_MIN = 1_000;

export class Stream {
  /** The last event that was received; null before the first connection. */
  cursor: number | null = null;
  private latest: Event | null = null;
  private isOther = false;
  /** The cursor when the vitals before arrived. */
  private cursorThen = 0;
  private goal = 0;
  private aborter: AbortController | null = null;
  private failures = 0;
  private away: number | null = null;
  private retry = 0;
  private askedAt = Date.now();

  constructor(private readonly tell: (news: News) => void) {}

  start(): void {
    if (this.aborter) return;
    const aborter = (this.aborter = new AbortController());
    this.read(aborter)
      .then(
        () => undefined,
        (error: unknown) => error,
      )
      .then((error) => {
        if (this.aborter !== aborter) return;
        this.aborter = null;
        if (error instanceof Problem && error.status === 401) this.tell({ lamp: { is: "signed-out" } });
        else {
          // The cursor is older than what the board keeps.
          if (error instanceof Problem && error.status === 422) this.forget(null);
          this.away ??= Date.now();
          this.tell({ lamp: { is: "away", since: this.away } });
        }
        const wait = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.failures++);
        this.retry = setTimeout(() => this.start(), wait * (0.5 + Math.random() / 2)) as unknown as number;
      });
  }

  stop(): void {
    clearTimeout(this.retry);
    this.aborter?.abort();
    this.aborter = null;
  }

  /** Try again now: the network is back, or somebody has signed in. */
  hurry(): void {
    if (this.aborter) return;
    clearTimeout(this.retry);
    this.failures = 0;
    this.start();
  }

  private async read(aborter: AbortController): Promise<void> {
    if (this.cursor !== null && !this.isOther) {
      this.goal = (await get<{ event: number }>("/v1/watch")).event;
      if (!(await this.hasLatest())) this.forget(null);
      else if (this.goal - this.cursor > BEHIND_MAX) this.cursor = null;
    }
    this.cursorThen = 0;
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => aborter.abort(), SILENT_MS_MAX) as unknown as number;
      this.tell({ heard: Date.now() });
      if (Date.now() - this.askedAt < SIGN_OF_LIFE_MS) return;
      this.askedAt = Date.now();
      get("/v1/me").catch(() => undefined);
    };
    heard();
    try {
      const after = this.cursor === null ? "" : `&after=${this.cursor}`;
      const answer = await fetch(`/api/events?brief=1${after}`, { signal: aborter.signal });
      if (!answer.ok || !answer.body) throw await problemOf(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        heard();
        const frames = (rest + value).split("\n\n");
        rest = frames.pop() ?? "";
        frames.forEach((frame) => this.take(frame));
        this.shine();
      }
    } finally {
      clearTimeout(timer);
      aborter.abort();
    }
  }

  private take(frame: string): void {
    let kind = "message";
    let data = "";
    for (const line of frame.split("\n")) {
      if (line.startsWith("id: ")) this.advance(Number(line.slice(4)));
      else if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (!data || kind.startsWith("task:") || kind === "stopping") return;
    const value = decode(JSON.parse(data));
    if (kind === "refused") throw new Problem((value as { status: number }).status, "REFUSED", "");
    if (kind === "vitals") {
      this.compare(value as Vitals);
      this.tell({ vitals: value as Vitals });
    } else {
      this.latest = value as Event;
      this.tell({ event: this.latest });
    }
  }

  private advance(cursor: number): void {
    const isLeap = this.cursor !== null && cursor - this.cursor > LEAP_MIN;
    if (this.cursor === null || isLeap || this.isOther) this.tell({ start: cursor, isOther: this.isOther || isLeap });
    this.isOther = false;
    this.cursor = cursor;
  }

  /** Whether the board still has the event that was received last. A backup that was put in its place may not. */
  private async hasLatest(): Promise<boolean> {
    const { latest } = this;
    if (!latest) return false;
    const [found] = await get<Event[]>(`/v1/events?after=${latest.id - 1}&limit=1`);
    return !!found && (["id", "item", "number", "at"] as const).every((name) => found[name] === latest[name]);
  }

  /** Begin again after this event, or at the end of the feed. */
  private forget(cursor: number | null): void {
    this.cursor = cursor;
    this.latest = null;
    this.goal = 0;
    this.isOther = true;
  }

  /** Events that were sent before vitals may be newer than they are, but those sent before the previous ones are not. */
  private compare({ event = Infinity }: Vitals): void {
    const wentBack = event < this.cursorThen;
    this.cursorThen = this.cursor ?? 0;
    if (!wentBack) return;
    this.forget(event);
    throw new Error("the board went back");
  }

  private shine(): void {
    this.failures = 0;
    this.away = null;
    const left = this.goal - (this.cursor ?? 0);
    this.tell({ lamp: left > 0 ? { is: "catching-up", left } : { is: "live" } });
  }
}
