/** The stream of a tab that cannot share one. */
import "../core";
export { Stream } from "./stream";
