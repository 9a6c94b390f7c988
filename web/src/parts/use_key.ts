/** A key of the view in front. The keyboard of the shell asks for it, so that dialogs and the user's choice count. */
import { useEffect } from "preact/hooks";
import { viewKeys } from "../state/view_keys";

export function useKey(key: string, act: () => void): void {
  useEffect(() => {
    viewKeys.set(key, act);
    return () => {
      if (viewKeys.get(key) === act) viewKeys.delete(key);
    };
  });
}
