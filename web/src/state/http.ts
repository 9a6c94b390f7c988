/** Requests to the server. A refusal is thrown as a Problem, with the code that every interface of dibs shares. */

const NAMES_MAX = 1_000;
const INSTANT = /(_at|^at|^not_before)$/;
/** Whether a field is an instant, by its name: an answer repeats a few names thousands of times. */
const instants = new Map<string, boolean>();

function isInstant(name: string): boolean {
  const known = instants.get(name);
  if (known !== undefined) return known;
  const found = INSTANT.test(name);
  // Names may be ids of items, of which there is no end.
  if (instants.size < NAMES_MAX) instants.set(name, found);
  return found;
}

/** The caller's own JSON, in which nothing is an instant of ours. */
const OPAQUE = new Set(["payload", "meta", "links", "cost", "checks"]);

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly facts: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

/** Answers have instants as ISO 8601; here they are milliseconds, since most of them are compared with the clock. */
export function decode(value: unknown): unknown {
  if (Array.isArray(value)) for (const one of value) decode(one);
  else if (value && typeof value === "object") {
    const record = value as Record<string, unknown>;
    for (const name in record) {
      const inner = record[name];
      if (typeof inner === "string") {
        if (isInstant(name)) record[name] = Date.parse(inner);
      } else if (inner && typeof inner === "object" && !OPAQUE.has(name)) decode(inner);
    }
  }
  return value;
}

export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = {};
  if (method !== "GET") headers["Idempotency-Key"] = crypto.randomUUID();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method, headers };
  if (body !== undefined) init.body = JSON.stringify(body);
  const answer = await fetch(path, init).catch(() => {
    throw new Problem(0, "AWAY", "the server does not answer");
  });
  if (answer.ok) return decode(answer.status === 204 ? null : await answer.json()) as T;
  throw await problemOf(answer);
}

export async function problemOf(answer: Response): Promise<Problem> {
  const told = await answer.json().catch(() => ({}));
  return new Problem(answer.status, told.code ?? "ERROR", told.detail ?? answer.statusText, told);
}

export const get = <T>(path: string): Promise<T> => ask<T>("GET", path);

/** The path of an item's verb; ids may have any character. */
export const itemPath = (id: string, verb = ""): string =>
  `/v1/items/${encodeURIComponent(id)}${verb && "/" + verb}`;
