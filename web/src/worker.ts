/** One stream for all tabs of a browser: browsers allow six connections to a server, so a stream in each tab would
 * block the seventh. */
import { type Lamp, type News, Stream } from "./state/stream";

/** News are sent in batches, so that a busy board does not wake every tab for each event. */
const BATCH_MS = 100;

const ports = new Set<MessagePort>();
let lamp: Lamp = { is: "connecting" };
let batch: News[] = [];
let timer: ReturnType<typeof setTimeout> | null = null;

const stream = new Stream((news) => {
  if ("lamp" in news) {
    if (JSON.stringify(news.lamp) === JSON.stringify(lamp)) return;
    lamp = news.lamp;
  }
  if ("heard" in news) batch = batch.filter((one) => !("heard" in one));
  batch.push(news);
  timer ??= setTimeout(send, BATCH_MS);
});

function send(): void {
  if (timer) clearTimeout(timer);
  timer = null;
  for (const port of ports) port.postMessage(batch);
  batch = [];
}

(self as unknown as { onconnect: (connected: MessageEvent) => void }).onconnect = (connected) => {
  const port = connected.ports[0]!;
  port.onmessage = ({ data }: MessageEvent<"hello" | "hurry" | "bye">) => {
    if (data === "hello") {
      // What waits to be sent is not for the new tab: its news begin here.
      send();
      ports.add(port);
      port.postMessage([{ lamp }, ...(stream.cursor === null ? [] : [{ start: stream.cursor, isOther: false }])]);
      stream.start();
    } else if (data === "hurry") stream.hurry();
    else {
      ports.delete(port);
      if (ports.size) return;
      stream.stop();
      stream.cursor = null;
      lamp = { is: "connecting" };
    }
  };
};
