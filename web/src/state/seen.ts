/** Act once this tab is seen, which may be now; the returned function gives it up. For what is asked again and again:
 * tabs that nobody looks at ask for nothing. */
export function whenSeen(act: () => void): () => void {
  const look = () => {
    if (document.hidden) return;
    stop();
    act();
  };
  const stop = () => document.removeEventListener("visibilitychange", look);
  document.addEventListener("visibilitychange", look);
  look();
  return stop;
}
