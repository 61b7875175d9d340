/** Classes of errors to choose one from: how many tasks of a list have each, the most first. */

import { fill, h } from "./dom.js";
import { count } from "./format.js";

/** Make a row of them; `choose` is called with a class, or null for all. */
export function makeErrorChips(choose) {
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Errors" });
  const element = h("div", { class: "filters", hidden: true }, chips);

  /** Show the classes of these tasks, where they are known, and which of them is chosen. */
  function update(classes, chosen) {
    const counts = new Map();
    for (const each of classes.filter(Boolean)) counts.set(each, (counts.get(each) ?? 0) + 1);
    if (chosen !== null && !counts.has(chosen)) counts.set(chosen, 0);
    const said = JSON.stringify([...counts, chosen]);
    element.hidden = counts.size === 0;
    if (chips.dataset.said === said) return;
    chips.dataset.said = said;
    const ordered = [...counts].sort((a, b) => b[1] - a[1]);
    fill(
      chips,
      chip(null, "All errors", null, chosen),
      ordered.map(([each, number]) => chip(each, each, number, chosen)),
    );
  }

  function chip(value, word, number, chosen) {
    return h(
      "button",
      {
        class: "chip",
        type: "button",
        "aria-pressed": String(value === chosen),
        on: { click: () => choose(value) },
      },
      word,
      number !== null && h("b", {}, count(number)),
    );
  }

  return { element, update };
}
