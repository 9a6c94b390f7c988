/** What makes the page live, loaded after the first rows are on the screen. */
import "./core";
import { Buttons } from "./parts/actions";
import { slots } from "./parts/slots";
import "./shell/keys";

export { open } from "./state/link";

slots.value = { Buttons };
