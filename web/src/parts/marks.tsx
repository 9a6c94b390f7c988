/** How a run ended, as a sign. No two of them differ only in their colour, which not everybody sees. */
export const MARKS: Record<string, [sign: string, tone: string]> = {
  ...{ done: ["✓", "green"], submitted: ["»", "violet"], failed: ["✕", "red"], rejected: ["⊗", "red"] },
  ...{ expired: ["!", "amber"], owner_died: ["!", "amber"], restored: ["!", "amber"], force_released: ["⇤", "violet"] },
  ...{ released: ["↺", "dim"], ended: ["↺", "dim"], forgotten: ["↺", "dim"], cancelled: ["–", "dim"], handed: ["→", "blue"] },
};
export const OTHER: [string, string] = ["·", "dim"];

/** The signs that need an explanation most. */
export const Legend = () => (
  <>
    <span class="green">✓ done</span> <span class="violet">» submitted</span> <span class="red">✕ failed</span>{" "}
    <span class="amber">! lost</span> <span>↺ released</span>
  </>
);
