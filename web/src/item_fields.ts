/** Made by `python -m web.tools.tables` from `dibs.model.item_fields`. */

import type { Item } from "./api";

/** The fields of the form of an item; `empty`: what an item has whose field is left empty. */
export const FORM: [name: keyof Item, label: string, kind: "line" | "list" | "text", empty?: unknown][] = [
  ["title", "title", "line"],
  ["id", "id (empty: one is made)", "line"],
  ["type", "type (empty: task)", "line", "task"],
  ["priority", "priority (critical, high, medium, low or a number; empty: 5)", "line", 5],
  ["labels", "labels, with commas", "list"],
  ["project", "project (empty: default)", "line", "default"],
  ["depends_on", "needs, with commas", "list"],
  ["body", "text", "text"],
];
