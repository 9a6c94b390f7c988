/** What this browser remembers of its user. */
import { computed, effect, signal } from "@preact/signals";

const DEFAULTS = { rows: "28", keys: "on", theme: "auto" };
type Prefs = typeof DEFAULTS;

function stored(): Partial<Prefs> {
  try {
    return JSON.parse(localStorage.getItem("dibs") ?? "{}");
  } catch {
    return {};
  }
}

export const prefs = signal<Prefs>({ ...DEFAULTS, ...stored() });

export const set = (change: Partial<Prefs>): void => {
  prefs.value = { ...prefs.value, ...change };
};

effect(() => {
  const { rows, theme } = prefs.value;
  const root = document.documentElement;
  root.dataset.rows = rows;
  root.dataset.theme = theme;
  try {
    localStorage.setItem("dibs", JSON.stringify(prefs.value));
  } catch {
    // Storage is switched off: the choice lasts as long as the page.
  }
});

const scheme = matchMedia("(prefers-color-scheme: dark)");
const isDarkOutside = signal(scheme.matches);
scheme.addEventListener("change", () => (isDarkOutside.value = scheme.matches));
/** Whether the colours are dark now: what is drawn on a canvas does not follow them by itself. */
export const isDark = computed(() => (prefs.value.theme === "auto" ? isDarkOutside.value : prefs.value.theme === "dark"));
