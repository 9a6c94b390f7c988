/** The address bar holds the view and every filter. It is the part after #, so no server's log has it. */
import { computed, signal } from "@preact/signals";

export interface Route {
  view: string;
  query: Record<string, string>;
}

const HOURS_MIN = 1 / 12;

function parse(hash: string): Route {
  const [view, query] = hash.replace(/^#/, "").split("?");
  return { view: view || "now", query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export const route = signal(parse(location.hash));
export const view = computed(() => route.value.view);
/** The item that is open in the panel, or fills the page. */
export const opened = computed(() => route.value.query.item ?? null);

/** What the address chooses, or the first. It may name anything, also what every object has. */
export const oneOf = <T extends string>(names: readonly T[], name: string | undefined): T =>
  names.find((one) => one === name) ?? names[0]!;

/** The hours that the address asks for, as far as they can be shown. */
export function hoursOf(usual: number, most: number): number {
  const asked = Number(route.value.query.hours);
  return asked > 0 ? Math.min(most, Math.max(HOURS_MIN, asked)) : usual;
}

export function href(view: string, query: Record<string, string | null | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const text = new URLSearchParams(given).toString();
  return `#${view}${text && "?" + text}`;
}

export const go = (view: string, query: Record<string, string | null | undefined> = {}): void => {
  location.hash = href(view, query);
};

/** Change some parameters and keep the others; null removes one. While somebody types, the history has one entry. */
export function change(query: Record<string, string | null>, replace = false): void {
  const target = href(view.value, { ...route.value.query, ...query });
  if (replace) {
    history.replaceState(history.state, "", target);
    route.value = parse(target);
  } else location.hash = target;
}

/** The entry of the history with which this page was entered: what lies before it is not of this page. */
if (history.state === null) history.replaceState({ isFirst: true }, "");

/** Back to where an item was opened as a page, or to the queue if it was opened by its address. */
export function back(): void {
  if (history.state?.isFirst) go("queue");
  else history.back();
}

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
