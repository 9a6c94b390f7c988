/** The smallest parts: text of the board, keys. */
import type { ComponentChildren } from "preact";
import { change } from "../state/route";

/** Text that anybody may have written: its direction must not reorder what stands beside it. */
export const Text = ({ children }: { children: ComponentChildren }) => <bdi>{children}</bdi>;

/** The key of a button, which the button's name does not need. */
export const Key = ({ children }: { children: string }) => <kbd aria-hidden="true">{children}</kbd>;

export const openItem = (id: string): void => change({ item: id });
