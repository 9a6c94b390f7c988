/** The filter of a list: what is set as chips, and a field for more. */
import { useEffect, useRef, useState } from "preact/hooks";
import { wantsFilter } from "../shell/dialogs";
import { FIELDS, parse, toggled, write } from "../state/filter";
import { change } from "../state/route";
import { Text } from "./bits";

export function Filter({ text, label }: { text: string; label: string }) {
  const filter = parse(text);
  const shown = filter.words.join(" ");
  const [draft, setDraft] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (wantsFilter.peek()) field.current!.focus();
    wantsFilter.value = false;
  }, []);
  const set = (words: string) => {
    const fields = write({ ...filter, words: [] });
    change({ q: `${fields} ${words}`.trim() || null }, true);
  };
  return (
    <span class="filter">
      {FIELDS.flatMap((name) =>
        (filter[name] ?? []).map((value) => (
          <button
            key={name + value}
            class="chip"
            aria-label={`remove ${name} ${value}`}
            onClick={() => change({ q: toggled(text, name, value) || null })}
          >
            {name}:<Text>{value}</Text> ×
          </button>
        )),
      )}
      <input
        ref={field}
        type="search"
        id="filter"
        aria-label={label}
        placeholder="words, status:ready, label:web …  ( / )"
        value={draft ?? shown}
        onInput={(input) => {
          const typed = input.currentTarget.value;
          // A field counts once it is complete, so that nothing is looked for while it is typed.
          const open = /(^|\s)\w+:\S*$/.exec(typed);
          const isWhole = !open && (typed.includes(":") || !typed.endsWith(" "));
          setDraft(isWhole ? null : typed);
          set((open ? typed.slice(0, open.index) : typed).trim());
        }}
        onKeyDown={(press) => {
          // What was typed but is not part of the filter yet is given up.
          if (press.key === "Escape") press.currentTarget.value = shown;
          if (press.key !== "Enter") return;
          set(press.currentTarget.value);
          setDraft(null);
          press.currentTarget.blur();
        }}
        onBlur={(blur) => {
          if (draft !== null) set(blur.currentTarget.value);
          setDraft(null);
        }}
      />
    </span>
  );
}
