/** How much of a scrolled box is in sight, for lists whose entries are all of one height. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Sight {
  top: number;
  height: number;
  width: number;
}

export function useSight() {
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState<Sight>({ top: 0, height: 800, width: 1000 });
  const look = () => {
    const element = box.current;
    if (!element) return;
    const next = { top: element.scrollTop, height: element.clientHeight, width: element.clientWidth };
    setSight((old) =>
      old.top === next.top && old.height === next.height && old.width === next.width ? old : next,
    );
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    look();
    return () => observer.disconnect();
  }, []);
  return { box, sight, look };
}
