/**
 * The list in front of the user: its cursor, its selection, and an order that holds still.
 *
 * Rows never move under a cursor. While somebody points at the list or moves through it, the order stays as it was,
 * rows change in place, and what is new is counted for a chip that brings it in.
 */
import { computed, type ReadonlySignal, signal } from "@preact/signals";

export class List {
  /** The ids in the order that is shown. */
  readonly shown = signal<readonly string[]>([]);
  readonly cursor = signal<string | null>(null);
  readonly selected = signal<ReadonlySet<string>>(new Set());
  /** How many ids are not shown yet. */
  readonly news = signal(0);
  readonly index: ReadonlySignal<number>;
  private held = false;
  private latest: readonly string[] = [];
  private anchor: string | null = null;

  /** `itemOf`: the item that an entry stands for, if there is one. */
  constructor(private readonly itemOf: (id: string) => string | null = (id) => id) {
    this.index = computed(() => (this.cursor.value === null ? -1 : this.shown.value.indexOf(this.cursor.value)));
  }

  /** The order by the data; `fresh`: the question has changed, so nothing of the old order counts. */
  offer(ids: readonly string[], fresh: boolean): void {
    this.latest = ids;
    if (fresh || !this.held) return this.refresh();
    const shown = new Set(this.shown.peek());
    this.news.value = ids.reduce((sum, id) => sum + (shown.has(id) ? 0 : 1), 0);
  }

  refresh(): void {
    const old = this.shown.peek();
    if (old.length !== this.latest.length || old.some((id, at) => id !== this.latest[at])) this.shown.value = this.latest;
    this.news.value = 0;
  }

  hold(held: boolean): void {
    this.held = held;
    if (!held && this.cursor.peek() === null) this.refresh();
  }

  /** Whether a row was there to move to. */
  move(by: number): boolean {
    const ids = this.shown.peek();
    if (!ids.length) return false;
    const at = Math.min(ids.length - 1, Math.max(0, this.index.peek() < 0 ? 0 : this.index.peek() + by));
    this.held = true;
    this.cursor.value = ids[at]!;
    return true;
  }

  /** Forget the cursor and the selection. Whether there were any. */
  leave(): boolean {
    const had = this.cursor.peek() !== null || this.selected.peek().size > 0;
    this.cursor.value = null;
    this.selected.value = new Set();
    this.held = false;
    this.refresh();
    return had;
  }

  toggle(id: string): void {
    const next = new Set(this.selected.peek());
    if (!next.delete(id)) next.add(id);
    this.anchor = id;
    this.selected.value = next;
  }

  /** Select everything between the row that was selected last and this one. */
  extend(id: string): void {
    const ids = this.shown.peek();
    const [from, to] = [ids.indexOf(this.anchor ?? id), ids.indexOf(id)].sort((a, b) => a - b) as [number, number];
    this.selected.value = new Set([...this.selected.peek(), ...ids.slice(Math.max(0, from), to + 1)]);
  }

  /** What a key acts on: the selection, or else the row under the cursor. */
  targets(): string[] {
    const chosen = [...this.selected.peek()];
    return (chosen.length ? chosen : [this.cursor.peek()]).flatMap((id) => (id === null ? [] : (this.itemOf(id) ?? [])));
  }

  /** The item under the cursor. */
  target(): string | null {
    const id = this.cursor.peek();
    return id === null ? null : this.itemOf(id);
  }
}

/** The list of the view in front, for the keyboard. */
export const current = signal<List | null>(null);
