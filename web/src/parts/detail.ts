/** An item in full, read when it is opened and again when it changes. */
import { useEffect, useState } from "preact/hooks";
import type { Detail } from "../api";
import { seen } from "../state/actions";
import { items, version } from "../state/board";
import { get, itemPath, Problem } from "../state/http";

export type Found = { detail: Detail } | { problem: string } | null;

export function useDetail(id: string | null): Found {
  const [found, setFound] = useState<{ id: string; found: Found } | null>(null);
  version.value;
  const revision = (id && items.get(id)?.revision) ?? 0;
  useEffect(() => {
    if (!id) return;
    let isWanted = true;
    get<Detail>(itemPath(id)).then(
      (detail) => isWanted && setFound({ id, found: { detail } }),
      (error) => {
        const problem = error instanceof Problem ? error.message : String(error);
        // What was read before stays, and so does the revision that a decision is about.
        if (isWanted) setFound((old) => (old?.id === id && old.found && "detail" in old.found ? old : { id, found: { problem } }));
      },
    );
    return () => void (isWanted = false);
  }, [id, revision]);
  useEffect(() => {
    if (!id || !found?.found || !("detail" in found.found)) return;
    const { revision, token } = found.found.detail.item;
    seen.set(id, { revision, token });
    return () => void seen.delete(id);
  }, [id, found]);
  return found?.id === id ? found.found : null;
}
