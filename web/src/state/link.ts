/** Connects this tab with the feed: through the worker that all tabs share, or, where there is none, by a stream of its
 * own that closes while the tab is hidden. */
import { effect } from "@preact/signals";
import * as board from "./board";
import * as clock from "./clock";
import { eventsBetween } from "./events";
import { applyEvent, applyVitals } from "./fold";
import { Problem } from "./http";
import { heardAt, hurry, isLive, isNewer, lamp } from "./lamp";
import type { News } from "./stream";

declare const WORKER_URL: string;

/** A worker that has not answered by then does not run here. */
const WORKER_MS_MAX = 4_000;
/** How often the board is read again at most, when events were about items that this tab does not know. */
const RELOAD_MS_MIN = 8_000;
const RETRY_MS = 2_000;
/** How many events are fetched between the reading of the board and the first news; for more, it is read again. */
const GAP_MAX = 1_000;

let state: "unread" | "reading" | "read" = "unread";
let reloads = false;
/** Counts what began to read the board: only the last one of them goes on. */
let turn = 0;
let waiting: News[] = [];

export function open(): void {
  effect(() => clock.stand(!isLive() && board.isLoaded.value));
  addEventListener("online", () => hurry.up());
  if (typeof SharedWorker === "undefined") return void openOwn();
  let worker: SharedWorker;
  try {
    worker = new SharedWorker(WORKER_URL, { type: "module", name: "dibs" });
  } catch {
    return void openOwn();
  }
  let isDecided = false;
  const decide = (works: boolean) => {
    if (!isDecided && !works) void openOwn();
    isDecided = true;
  };
  setTimeout(() => decide(false), WORKER_MS_MAX);
  worker.onerror = () => decide(false);
  worker.port.onmessage = ({ data }: MessageEvent<News[]>) => {
    decide(true);
    data.forEach(take);
  };
  worker.port.postMessage("hello");
  hurry.up = () => worker.port.postMessage("hurry");
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
  addEventListener("pageshow", (shown) => {
    if (shown.persisted) worker.port.postMessage("hello");
  });
}

async function openOwn(): Promise<void> {
  const { Stream } = await import("./own_stream");
  const stream = new Stream(take);
  hurry.up = () => stream.hurry();
  const follow = () => (document.hidden ? stream.stop() : stream.start());
  document.addEventListener("visibilitychange", follow);
  follow();
}

function take(news: News): void {
  if ("heard" in news) heardAt.value = news.heard;
  else if ("lamp" in news) {
    const was = lamp.value.is;
    // The worker has yet to learn what this tab knows already.
    if (was === "signed-out" && news.lamp.is === "connecting") return;
    lamp.value = news.lamp;
    if (news.lamp.is === "live" && was !== "live" && was !== "connecting") void lookForNewer();
  } else if ("start" in news) {
    // What has not been applied by now is in what `begin` reads.
    waiting = [];
    void begin(news.start, news.isOther);
  } else if (state === "read") apply(news);
  else waiting.push(news);
}

function apply(news: News): void {
  if ("event" in news) {
    // An event cannot be in the future: if it seems so, the clock here is late.
    if (news.event.at > clock.instant()) clock.set(news.event.at);
    if (!applyEvent(news.event)) reloadLater();
  } else if ("vitals" in news && news.vitals.at >= board.readAt) {
    clock.set(news.vitals.at);
    applyVitals(news.vitals);
  }
}

/** News come after the event `cursor`. What lies between it and the event after which the board was read is fetched. */
async function begin(cursor: number, isOther: boolean): Promise<void> {
  const mine = ++turn;
  state = "reading";
  try {
    if (isOther || !board.isLoaded.peek() || Math.abs(cursor - board.readEvent) > GAP_MAX) {
      await board.read();
      // The events between are not fetched, and a feed has no gaps.
      board.feed.length = 0;
    }
    const missed = cursor > board.readEvent ? await eventsBetween(board.readEvent, cursor + 1) : [];
    if (mine === turn) goOn(missed.map((event) => ({ event })));
  } catch (error) {
    if (mine !== turn) return;
    state = "unread";
    if (error instanceof Problem && error.status === 401) lamp.value = { is: "signed-out" };
    else setTimeout(() => mine === turn && void begin(cursor, isOther), RETRY_MS);
  }
}

function goOn(missed: News[]): void {
  state = "read";
  [...missed, ...waiting.splice(0)].forEach(apply);
}

export function reloadLater(): void {
  if (reloads) return;
  reloads = true;
  setTimeout(
    async () => {
      reloads = false;
      if (state !== "read") return;
      const mine = ++turn;
      state = "reading";
      await board.read().catch(() => undefined);
      if (mine === turn) goOn([]);
    },
    Math.max(500, board.readAt + RELOAD_MS_MIN - clock.instant()),
  );
}

/** After the server was away, it may be of another version, with another page. */
async function lookForNewer(): Promise<void> {
  const page = await fetch("/")
    .then((answer) => (answer.ok ? answer.text() : ""))
    // It is away again; when it comes back, it is asked again.
    .catch(() => "");
  const script = new URL(document.querySelector<HTMLScriptElement>("script[src]")!.src).pathname;
  if (page && !page.includes(script)) isNewer.value = true;
}
