/** Runs as bars on lanes, drawn on a canvas: thousands of them move while somebody drags. */
import { useEffect, useRef } from "preact/hooks";
import { isDark } from "../state/prefs";
import { hour } from "../state/text";
import type { Refused, Span } from "../state/window";
import { MARKS, OTHER } from "./marks";

/** A run, and since when its holder has been silent. */
export type Bar = Span & { silentSince: number | null };

export interface Lane {
  /** Empty if the lane goes on with that of the one before. */
  name: string;
  runs: Bar[];
  refused: Refused[];
}

export const LANE = 22;
/** How wide the names of the lanes are. */
export const NAME = 128;
const AXIS = 20;
/** How wide a time of the axis is. */
const CLOCK = 42;
const BAR = 14;
const STEPS_MIN = [1, 2, 5, 10, 15, 30, 60, 120, 240];

export interface Drawn {
  lanes: Lane[];
  from: number;
  to: number;
  now: number;
  /** How far the lanes are scrolled, in pixels. */
  top?: number;
  height: number;
  label: string;
  onPick?: (item: string) => unknown;
}

export const scaleOf = (width: number, from: number, to: number) => (width - NAME) / (to - from);

export function Lanes(given: Drawn) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = isDark.value;
  useEffect(() => {
    const element = canvas.current!;
    const frame = requestAnimationFrame(() => draw(element, given));
    const observer = new ResizeObserver(() => draw(element, given));
    observer.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [given, colours]);
  const find = (pointer: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const lane = given.lanes[Math.floor((pointer.clientY - box.top - AXIS + (given.top ?? 0)) / LANE)];
    const at = given.from + (pointer.clientX - box.left - NAME) / scaleOf(box.width, given.from, given.to);
    return lane?.runs.find((run) => run.start <= at && at <= (run.end ?? given.now));
  };
  return (
    <canvas
      ref={canvas}
      class="lanes"
      role="img"
      aria-label={given.label}
      style={{ height: `${given.height}px` }}
      onClick={(click) => {
        const run = find(click);
        if (run) given.onPick?.(run.item);
      }}
      onMouseMove={(move) => {
        const run = find(move);
        canvas.current!.title = run ? `${run.item} · ${run.session} · ${run.outcome ?? "going on"}` : "";
      }}
    />
  );
}

function draw(element: HTMLCanvasElement, { lanes, from, to, now, top = 0 }: Drawn): void {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = element;
  if (!width || !height) return;
  element.width = width * ratio;
  element.height = height * ratio;
  const pen = element.getContext("2d")!;
  const style = getComputedStyle(element);
  const colors = new Map<string, string>();
  const color = (name: string) => {
    let found = colors.get(name);
    if (!found) {
      // The variables hold light-dark(), which only an element resolves.
      element.style.color = `var(${name})`;
      found = getComputedStyle(element).color;
      element.style.color = "";
      colors.set(name, found);
    }
    return found;
  };
  pen.scale(ratio, ratio);
  pen.font = `11px ${style.fontFamily}`;
  pen.textBaseline = "middle";
  const scale = scaleOf(width, from, to);
  const x = (at: number) => NAME + (at - from) * scale;
  drawAxis(pen, color, x, from, to, height);
  const first = Math.max(0, Math.floor(top / LANE));
  const last = Math.min(lanes.length, Math.ceil((top + height - AXIS) / LANE));
  for (let at = first; at < last; at++) {
    const lane = lanes[at]!;
    const y = AXIS + at * LANE - top;
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, width, height - AXIS);
    pen.clip();
    pen.fillStyle = color("--text");
    pen.fillText(cut(pen, lane.name, NAME - 12), 4, y + LANE / 2);
    pen.fillStyle = color("--line");
    if (lanes[at + 1]?.name !== "") pen.fillRect(NAME, y + LANE - 1, width - NAME, 1);
    pen.beginPath();
    pen.rect(NAME, AXIS, width - NAME, height - AXIS);
    pen.clip();
    for (const run of lane.runs) if ((run.end ?? now) >= from && run.start <= to) drawRun(pen, color, x, run, now, y);
    pen.fillStyle = color("--violet");
    // At the edge of the lane, so that names can be read.
    for (const one of lane.refused) pen.fillText("◆", x(one.at) - 4, y + 5);
    pen.restore();
  }
  pen.fillStyle = color("--red");
  if (now >= from && now <= to) pen.fillRect(x(now), AXIS - 4, 1, height);
}

type Color = (name: string) => string;
type Place = (at: number) => number;

function drawAxis(pen: CanvasRenderingContext2D, color: Color, x: Place, from: number, to: number, height: number): void {
  const least = ((to - from) / 60_000) * (90 / Math.max(90, x(to) - NAME));
  const step = (STEPS_MIN.find((minutes) => minutes > least) ?? Math.ceil(least / 1440) * 1440) * 60_000;
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((from - shift) / step) * step + shift; at < to; at += step) {
    pen.fillStyle = color("--line");
    pen.fillRect(x(at), AXIS, 1, height);
    pen.fillStyle = color("--dim");
    if (x(at) + CLOCK < x(to)) pen.fillText(hour(at), x(at) + 3, AXIS / 2);
  }
}

function drawRun(
  pen: CanvasRenderingContext2D,
  color: Color,
  x: Place,
  run: Bar,
  now: number,
  y: number,
): void {
  const [sign, name] = run.outcome ? (MARKS[run.outcome] ?? OTHER) : ["", "blue"];
  const tone = `--${name}`;
  const left = x(run.start);
  const right = Math.max(left + 2, x(run.end ?? now));
  const top = y + (LANE - BAR) / 2;
  pen.fillStyle = color(tone);
  pen.globalAlpha = 0.22;
  pen.fillRect(left, top, right - left, BAR);
  pen.globalAlpha = 1;
  pen.fillRect(left, top + BAR - 3, right - left, 3);
  const silent = run.silentSince ? Math.max(left, x(run.silentSince)) : right;
  pen.fillStyle = color("--amber");
  pen.globalAlpha = 0.45;
  for (let at = silent; at < right; at += 5) pen.fillRect(at, top, 2, BAR);
  pen.globalAlpha = 1;
  // The name stands in the part that is in sight, and not on the hatching.
  const start = Math.max(left, NAME) + 4;
  const room = silent - start - (sign ? 10 : 2);
  pen.fillStyle = color("--text");
  if (room > 24) pen.fillText(cut(pen, run.item, room), start, top + BAR / 2 - 1);
  if (!sign) return;
  pen.fillStyle = color(tone);
  if (right - left > 12) pen.fillText(sign, right - 11, top + BAR / 2 - 1);
  else if (sign !== "✓") pen.fillText(sign, right - 3, top + BAR / 2 - 1);
}

function cut(pen: CanvasRenderingContext2D, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  let end = Math.max(1, Math.floor(room / 7));
  while (end > 1 && pen.measureText(text.slice(0, end) + "…").width > room) end--;
  return text.slice(0, end) + "…";
}
