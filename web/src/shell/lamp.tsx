/** Whether what is on the screen is true now, and how this page learns it. */
import { isPaused, pause } from "../state/board";
import { now } from "../state/clock";
import { heardAt, hurry, isNewer, lamp } from "../state/lamp";
import { ago, moment, number } from "../state/text";
import { Key } from "../parts/bits";

export function Lamp() {
  const state = lamp.value;
  now.value;
  if (isNewer.value)
    return (
      <button class="lamp newer" onClick={() => location.reload()}>
        ↻ a new version is here: reload
      </button>
    );
  if (isPaused.value)
    return (
      <button class="lamp paused" onClick={() => pause(false)}>
        ‖ paused <Key>.</Key>
      </button>
    );
  switch (state.is) {
    case "live":
      return (
        <span class="lamp live" title={`the server was heard ${ago((Date.now() - heardAt.value) / 1000)} ago`}>
          <i aria-hidden="true" /> live
        </span>
      );
    case "catching-up":
      return (
        <span class="lamp behind">
          <i aria-hidden="true" /> catching up ({number(state.left)})
        </span>
      );
    case "away":
      return (
        <button class="lamp away" onClick={() => hurry.up()}>
          <i aria-hidden="true" /> away since {moment(state.since, Date.now())}
        </button>
      );
    case "signed-out":
      return (
        <span class="lamp away">
          <i aria-hidden="true" /> signed out
        </span>
      );
    default:
      return (
        <span class="lamp">
          <i aria-hidden="true" /> connecting
        </span>
      );
  }
}
