/** The latest draft of an item, and what has changed in it since the one before. */
import { useState } from "preact/hooks";
import type { Detail } from "../api";
import { Text } from "./bits";
import { diff } from "./diff";
import { useKey } from "./use_key";
import { SessionText } from "./words";

export const hasDraft = (detail: Detail): boolean => detail.runs.some((run) => run.draft !== null);

/** Whether the latest run was submitted by `done`: see `review`. */
export const isResult = ({ item, runs }: Detail): boolean => item.review && runs[0]?.outcome === "submitted" && !runs[0].draft;

export function Draft({ detail }: { detail: Detail }) {
  const [compares, setCompares] = useState(false);
  const [latest, before] = detail.runs.filter((run) => run.draft !== null);
  useKey("d", () => setCompares((old) => !old));
  if (!latest) return null;
  return (
    <>
      <h2>
        <span>
          Draft of run {latest.token} by <SessionText id={latest.session} />
        </span>
        {before && (
          <button aria-pressed={compares} onClick={() => setCompares(!compares)}>
            <kbd>d</kbd> changes since run {before.token}
          </button>
        )}
      </h2>
      <pre class="body">
        {compares && before ? (
          diff(before.draft!, latest.draft!).map((line, at) => (
            <div key={at} class={line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : ""}>
              {line.sign} <Text>{line.text}</Text>
            </div>
          ))
        ) : (
          <Text>{latest.draft}</Text>
        )}
      </pre>
    </>
  );
}
