/** The dashboard of a board. `state` knows the board, `views` show it, `parts` are what views are made of. */
import "./core";
import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./shell/app";
import { read } from "./state/board";
import { Problem } from "./state/http";
import { lamp } from "./state/lamp";
import "./state/prefs";
import { needed } from "./views/now";

const ICON_MAX = 9;

effect(() => {
  const count = needed.value.length;
  document.title = count ? `(${count}) dibs` : "dibs";
  document.querySelector<HTMLLinkElement>("#icon")!.href = `/assets/icon-${Math.min(ICON_MAX, count)}.svg`;
});
render(<App />, document.body);
read()
  .catch((error) => {
    if (error instanceof Problem && error.status === 401) lamp.value = { is: "signed-out" };
  })
  .then(() => import("./live"))
  .then(({ open }) => open());
