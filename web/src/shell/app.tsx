/** The frame: navigation with counts, the lamp, the view, the item beside it, dialogs. */
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Text } from "../parts/bits";
import { Later } from "../parts/later";
import { question, toast } from "../state/notices";
import { counts, isLoaded, seats, sessionsLeftOff, version } from "../state/board";
import { isLive, lamp } from "../state/lamp";
import { href, oneOf, opened, view } from "../state/route";
import { number } from "../state/text";
import { needed, Now } from "../views/now";
import { form, help } from "./dialogs";
import { Lamp } from "./lamp";

const VIEWS: Record<string, [title: string, load: ComponentType | (() => Promise<ComponentType>), is: "here" | "later"]> = {
  now: ["Now", Now, "here"],
  queue: ["Queue", () => import("../views/queue").then((found) => found.Queue), "later"],
  flight: ["In flight", () => import("../views/inflight").then((found) => found.InFlight), "later"],
  sessions: ["Sessions", () => import("../views/sessions").then((found) => found.Sessions), "later"],
  timeline: ["Timeline", () => import("../views/timeline").then((found) => found.Timeline), "later"],
  approvals: ["Approvals", () => import("../views/approvals").then((found) => found.Approvals), "later"],
  metrics: ["Metrics", () => import("../views/metrics").then((found) => found.Metrics), "later"],
  events: ["Events", () => import("../views/events").then((found) => found.Events), "later"],
};

/** A view that is none leads to the first. */
const name = () => oneOf(Object.keys(VIEWS), view.value);
const shown = () => VIEWS[name()]!;

const badge = (name: string): number => {
  const { ready = 0, in_progress = 0, pending_approval = 0 } = counts.value;
  switch (name) {
    case "now":
      return needed.value.length;
    case "queue":
      return ready;
    case "flight":
      return in_progress;
    case "sessions":
      return seats.size + sessionsLeftOff.value;
    case "approvals":
      return pending_approval;
    default:
      return 0;
  }
};

function Navigation() {
  version.value;
  const current = view.value === "item" ? "" : name();
  useEffect(() => {
    // On a phone, the views do not fit beside each other.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current, isLoaded.value]);
  return (
    <nav aria-label="Views">
      {Object.entries(VIEWS).map(([name, [title]]) => {
        const count = isLoaded.value ? badge(name) : 0;
        return (
          <a key={name} href={href(name)} aria-current={current === name ? "page" : undefined}>
            {title}
            {count > 0 && <span class={name === "now" ? "badge hot" : "badge"}>{number(count)}</span>}
          </a>
        );
      })}
    </nav>
  );
}

function Current() {
  const [, part, is] = shown();
  if (is === "later") return <Later key={view.value} load={part as () => Promise<ComponentType>} />;
  const Part = part as ComponentType;
  return <Part />;
}

const ItemPart = () => <Later load={() => import("../views/item").then((found) => found.ItemView)} />;

export function App() {
  const isOut = lamp.value.is === "signed-out";
  return (
    <div class={isLive() || !isLoaded.value ? "app" : "app stands"}>
      <header>
        <a class="brand" href={href("now")} aria-label="dibs">
          dibs
        </a>
        {!isOut && <Navigation />}
        <span class="end">
          <span role="status">
            <Lamp />
          </span>
          <button class="plain" aria-label="help and settings" onClick={() => (help.value = true)}>
            ?
          </button>
        </span>
      </header>
      <main class={opened.value && view.value !== "item" ? "split" : ""}>
        {!isOut && view.value !== "item" && <h1 class="unseen">{shown()[0]}</h1>}
        {isOut ? <Later key="out" load={() => import("./signed_out").then((found) => found.SignedOut)} /> : view.value === "item" ? <ItemPart key="item" /> : <Current />}
        {!isOut && opened.value && view.value !== "item" && (
          <aside aria-label="Item">
            <ItemPart key="item" />
          </aside>
        )}
      </main>
      {question.value && <Later load={() => import("../parts/ask").then((found) => found.Ask)} />}
      {help.value && <Later load={() => import("./help").then((found) => found.Help)} />}
      {form.value && <Later load={() => import("../views/form").then((found) => found.Form)} />}
      <div class={toast.value?.bad ? "toast bad" : "toast"} role="status">
        {toast.value && <Text>{toast.value.text}</Text>}
      </div>
    </div>
  );
}
