/**
 * The keyboard: `g` and a letter goes to a screen, `/` searches, `?` lists what there is.
 *
 * A key does nothing while one types, and nothing together with Ctrl, Alt or Command.
 */

import { shown } from "./dialog.js";
import { h } from "./dom.js";
import { go } from "./router.js";
import { switchTheme } from "./theme.js";

const WAIT_MS = 1_500;

/** Listen; `current` tells which screen is open. */
export function beginKeys(screens, current) {
  let isGoing = false;
  let timer = null;
  const listed = screens.filter((each) => each.key);

  addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    if (target.matches?.("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (isGoing) {
      isGoing = false;
      clearTimeout(timer);
      const screen = listed.find((each) => each.key === event.key);
      if (screen) {
        event.preventDefault();
        go(screen.path);
      }
      return;
    }
    const acts = {
      g: () => {
        isGoing = true;
        timer = setTimeout(() => {
          isGoing = false;
        }, WAIT_MS);
      },
      "/": () => searched(current()),
      "?": () => showKeys(listed),
      d: switchTheme,
      r: () => current()?.opened.refresh?.(),
      Escape: () => current()?.screen.parent && history.back(),
      j: () => intoTable("first"),
      k: () => intoTable("last"),
    };
    const act = acts[event.key];
    if (!act || (["j", "k"].includes(event.key) && target.closest?.("tbody"))) return;
    event.preventDefault();
    act();
  });
}

/** Say which keys there are. */
export function showKeys(screens) {
  const listed = screens.filter((each) => each.key);
  const rows = [
    ...listed.map((each) => [["g", each.key], each.title]),
    [["/"], "Search tasks"],
    [["j"], "Next row"],
    [["k"], "Previous row"],
    [["Enter"], "Open"],
    [["x"], "Select a row"],
    [["r"], "Refresh"],
    [["Esc"], "Go back, or leave a field"],
    [["d"], "Switch between light and dark"],
    [["?"], "Show this list"],
  ];
  shown(
    "Keyboard shortcuts",
    h(
      "div",
      { class: "keys-list" },
      rows.map(([keys, words]) =>
        h(
          "div",
          {},
          h("span", {}, words),
          h(
            "span",
            {},
            keys.map((key) => [h("kbd", {}, key), " "]),
          ),
        ),
      ),
    ),
  );
}

function searched(open) {
  if (open?.opened.focus) open.opened.focus();
  else {
    go("tasks");
    setTimeout(() => document.querySelector("#find")?.focus());
  }
}

function intoTable(which) {
  const rows = document.querySelectorAll(".content tbody tr");
  const row =
    which === "first"
      ? (document.querySelector('.content tbody tr[tabindex="0"]') ?? rows[0])
      : rows[rows.length - 1];
  row?.focus();
}
