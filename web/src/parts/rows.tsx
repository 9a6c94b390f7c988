/** A list of any length as rows of one height: only those in sight are in the document. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { current, type List } from "../state/list";
import { prefs } from "../state/prefs";

const ROWS_MAX = 60;
const BEYOND = 4;
/** The height of the head, which stays in sight. */
const HEAD = 26;

interface Props {
  list: List;
  label: string;
  /** The names of the columns; the style sheet gives `kind` their widths. */
  columns: string[];
  kind: string;
  cells: (id: string, index: number) => ComponentChildren[];
  onOpen: (id: string) => void;
  /** Called when the last rows come into sight. */
  onEnd?: () => void;
  empty: ComponentChildren;
  tone?: (id: string) => string;
}

export function Rows({ list, label, columns, kind, cells, onOpen, onEnd, empty, tone }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 800, row: 28 });
  const ids = list.shown.value;
  const cursor = list.index.value;
  prefs.value.rows;

  const look = () => {
    const element = box.current;
    if (!element) return;
    const row = parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 28;
    const next = { top: element.scrollTop, height: element.clientHeight, row };
    setSight((old) => (old.top === next.top && old.height === next.height && old.row === row ? old : next));
  };
  useLayoutEffect(look);
  useEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    current.value = list;
    return () => {
      observer.disconnect();
      if (current.peek() === list) current.value = null;
    };
  }, [list]);
  useEffect(() => {
    const element = box.current;
    if (cursor < 0 || !element) return;
    const top = cursor * sight.row;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + sight.row + HEAD > element.scrollTop + element.clientHeight)
      element.scrollTop = top + sight.row + HEAD - element.clientHeight;
    look();
    element.querySelector<HTMLElement>("[data-cursor]")?.focus({ preventScroll: true });
  }, [cursor]);

  const first = Math.max(0, Math.min(Math.floor(sight.top / sight.row) - BEYOND, ids.length - 1));
  const last = Math.min(ids.length, first + Math.min(ROWS_MAX, Math.ceil(sight.height / sight.row) + 2 * BEYOND));
  if (onEnd && last === ids.length && ids.length) queueMicrotask(onEnd);
  const rows: JSX.Element[] = [];
  for (let at = first; at < last; at++) {
    const id = ids[at]!;
    const isCursor = at === cursor;
    rows.push(
      <div
        key={id}
        role="row"
        class={`row ${tone?.(id) ?? ""}`}
        aria-rowindex={at + 2}
        aria-selected={list.selected.value.has(id)}
        tabIndex={isCursor || (cursor < 0 && at === first) ? 0 : -1}
        data-cursor={isCursor || undefined}
        data-id={id}
        onClick={(click) => {
          if ((click.target as Element).closest("a,button,input")) return;
          list.cursor.value = id;
          if (click.shiftKey) list.extend(id);
          else if (click.ctrlKey || click.metaKey) list.toggle(id);
          else onOpen(id);
        }}
      >
        {cells(id, at).map((cell, column) => (
          <div role="gridcell" class={`cell c-${columns[column]!.replace(/\W/g, "") || "box"}`} key={column}>
            {cell}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div
      class={`rows ${kind}`}
      role="grid"
      aria-label={label}
      aria-rowcount={ids.length + 1}
      aria-multiselectable="true"
      onMouseEnter={() => list.hold(true)}
      onMouseLeave={() => list.hold(list.cursor.peek() !== null)}
    >
      <div class="scroll" ref={box} onScroll={look} role="rowgroup">
        <div class="row head" role="row" aria-rowindex={1}>
          {columns.map((name) => (
            <div role="columnheader" class={`cell c-${name.replace(/\W/g, "") || "box"}`} key={name}>
              {name || <span class="unseen">select</span>}
            </div>
          ))}
        </div>
        {ids.length ? (
          <div role="presentation" style={{ height: `${ids.length * sight.row}px` }}>
            <div role="presentation" style={{ transform: `translateY(${first * sight.row}px)` }}>
              {rows}
            </div>
          </div>
        ) : (
          <div class="row empty" role="row">
            <div role="gridcell">{empty}</div>
          </div>
        )}
      </div>
      {list.news.value > 0 && (
        <button class="news" onClick={() => list.refresh()}>
          {list.news.value} new
        </button>
      )}
    </div>
  );
}
