/** How a run ended, as a sign. */
import { MARKS } from "../event_kinds";

export { LAPSED, MARKS, TONES } from "../event_kinds";

export const OTHER: [string, string] = ["·", "dim"];
/** Those that need an explanation most. */
const EXPLAINED = ["done", "submitted", "failed", "expired", "released"];

export const Legend = () => (
  <>
    {EXPLAINED.map((outcome) => {
      const [sign, tone, word] = MARKS[outcome]!;
      return (
        <span key={outcome} class={tone}>
          {sign} {word}{" "}
        </span>
      );
    })}
  </>
);
