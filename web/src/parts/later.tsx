/** A part whose code is loaded when it is first shown. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

declare const STYLE_URL: string;

let style: Promise<unknown> | null = null;
/** The styles of everything that is loaded later come with the first of it. */
function styled(): Promise<unknown> {
  style ??= new Promise((resolve) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: STYLE_URL });
    link.onload = link.onerror = resolve;
    document.head.append(link);
  });
  return style;
}

export function Later({ load }: { load: () => Promise<ComponentType> }) {
  const [found, setFound] = useState<{ Part: ComponentType } | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    Promise.all([load(), styled()]).then(
      ([Part]) => setFound({ Part }),
      () => setFailed(true),
    );
  }, []);
  if (found) return <found.Part />;
  return <p class="late">{failed ? "This part could not be loaded. Reload the page." : "loading …"}</p>;
}
