/**
 * Places and their addresses: `#/tasks?state=failure` opens a screen with parameters.
 *
 * What is looked at is in the address, so it can be sent to a colleague and gone back to.
 */

import { h } from "./dom.js";
import { empty } from "./parts.js";

let places = new Map();
let fallback = "";
let shown = null;
let announce = () => {};

/** Open screens by the address from now on; `show` is told of every place. */
export function route(screens, show) {
  places = new Map(screens.map((each) => [each.path, each]));
  fallback = screens[0].path;
  announce = show;
  addEventListener("hashchange", open);
  open();
}

/** Return the address of a place. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") query.append(name, each);
    }
  }
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** Go to a place. */
export function go(path, parameters = {}) {
  location.hash = address(path, parameters);
}

/** Say in the address what is looked at, without a new step to go back over. */
export function note(path, parameters) {
  history.replaceState(null, "", address(path, parameters));
}

/** Open the place that is shown once more. */
export function reopen() {
  open();
}

/** What stands where an address names no screen: somebody mistyped it, or it is of another version. */
function unknown(path) {
  const words = `The address names "${path}". Choose a screen in the navigation.`;
  return {
    path: "unknown",
    title: "No such screen",
    open: () => ({
      element: h(
        "div",
        { class: "screen" },
        h("section", { class: "card" }, empty("question", "There is no such screen", words)),
      ),
    }),
  };
}

function open() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const screen = places.get(path === "" ? fallback : path) ?? unknown(path);
  shown?.close?.();
  shown = screen.open(new URLSearchParams(query ?? ""));
  announce(screen, shown);
}
