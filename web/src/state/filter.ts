/** The filter of a list: `status:ready project:shop words`. A word may be in the id, the title or a label. One agent can be
 * chosen: that of the latest run. */
import type { Brief } from "../api";
import { holdings } from "./board";

export const FIELDS = ["status", "project", "type", "label", "agent"] as const;
export type Field = (typeof FIELDS)[number];
export type Filter = Partial<Record<Field, string[]>> & { words: string[] };

export function parse(text: string): Filter {
  const found: Filter = { words: [] };
  for (const part of text.split(/\s+/).filter(Boolean)) {
    const [name, value] = part.split(/:(.*)/s) as [string, string | undefined];
    const field = FIELDS.find((one) => one === name);
    if (field && value) (found[field] ??= []).push(...value.split(",").filter(Boolean));
    else found.words.push(part);
  }
  if (found.agent) found.agent = found.agent.slice(-1);
  return found;
}

export function write(filter: Filter): string {
  const fields = FIELDS.flatMap((name) => (filter[name]?.length ? [`${name}:${filter[name]!.join(",")}`] : []));
  return [...fields, ...filter.words].join(" ");
}

/** Add a value to a field of the filter, or take it away. */
export function toggled(text: string, field: Field, value: string): string {
  const filter = parse(text);
  const values = filter[field] ?? [];
  filter[field] = values.includes(value) ? values.filter((one) => one !== value) : [...values, value];
  return write(filter);
}

/** Of the agents, this tab knows only those that hold an item now. */
export function matcher(filter: Filter): (item: Brief) => boolean {
  const { status, project, type, label, agent } = filter;
  const words = filter.words.map((word) => word.toLowerCase());
  return (item) =>
    (!status || status.includes(item.status)) &&
    (!project || project.includes(item.project)) &&
    (!type || type.includes(item.type)) &&
    (!label || label.every((one) => item.labels.includes(one))) &&
    (!agent || agent.includes(holdings.get(item.id)?.agent ?? "")) &&
    words.every((word) => hay(item).includes(word));
}

const hay = (item: Brief): string => `${item.id} ${item.title} ${item.labels.join(" ")}`.toLowerCase();

/** The filter as the server takes it. */
export function query(filter: Filter): URLSearchParams {
  const found = new URLSearchParams();
  for (const name of FIELDS) for (const value of filter[name] ?? []) found.append(name, value);
  if (filter.words.length) found.set("q", filter.words.join(" "));
  return found;
}
