/** Keys that mean something in the view in front only. */
export const viewKeys = new Map<string, () => void>();
