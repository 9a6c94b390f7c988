/** An item in full, read when it is opened and again when it changes. */
import { useEffect, useState } from "preact/hooks";
import type { Detail } from "../api";
import { seen } from "../state/actions";
import { items, version } from "../state/board";
import { get, itemPath, Problem } from "../state/http";

/** `isOld`: the item has changed since, but somebody reads it to decide about it; `renew` shows what it is now. */
export type Found = { detail: Detail; isOld: boolean; renew: () => void } | { problem: string } | null;

export function useDetail(id: string | null): Found {
  const [read, setRead] = useState<{ id: string; detail: Detail } | { id: string; problem: string } | null>(null);
  const [renewals, setRenewals] = useState(0);
  version.value;
  const latest = items.get(id ?? "")?.revision ?? 0;
  const detail = read && read.id === id && "detail" in read ? read.detail : null;
  // A text does not change under the eyes of its reader, nor what `a` is about to approve.
  const holds = detail?.item.status === "pending_approval" && seen.has(detail.item.id);
  const wanted = holds ? detail.item.revision : latest;
  useEffect(() => {
    if (!id) return;
    let isWanted = true;
    get<Detail>(itemPath(id)).then(
      (detail) => isWanted && setRead({ id, detail }),
      (error) => {
        const problem = error instanceof Problem ? error.message : String(error);
        if (isWanted) setRead((old) => (old?.id === id && "detail" in old ? old : { id, problem }));
      },
    );
    return () => void (isWanted = false);
  }, [id, wanted, renewals]);
  useEffect(() => {
    if (!detail) return;
    const { id, revision, token } = detail.item;
    const mine = { revision, token };
    seen.set(id, mine);
    return () => {
      if (seen.get(id) === mine) seen.delete(id);
    };
  }, [detail]);
  if (read?.id !== id || !read) return null;
  if ("problem" in read) return { problem: read.problem };
  return {
    detail: read.detail,
    isOld: holds && latest > read.detail.item.revision,
    renew: () => setRenewals((count) => count + 1),
  };
}
