/**
 * What reorders text is shown as a mark, in whatever the page shows: with it, a title could read as another one. Only what
 * is shown changes, and not what a form sends back.
 */
import { options, type VNode } from "preact";
import { shown } from "../state/text";

/** Attributes that people read. */
const READ = ["title", "aria-label", "alt", "placeholder", "label"];

const before = options.vnode;
options.vnode = (node: VNode): void => {
  const { type, props } = node as { type: unknown; props: unknown };
  // A text is a node without a type.
  if (typeof props === "string") (node as { props: unknown }).props = shown(props);
  else if (typeof type === "string") {
    const given = props as Record<string, unknown>;
    for (const name of READ) if (typeof given[name] === "string") given[name] = shown(given[name]);
  }
  before?.(node);
};
