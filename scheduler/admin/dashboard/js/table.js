/**
 * Tables that change while one reads them: rows keep their place in the page, their focus and
 * their choice, and only what is different is drawn anew.
 *
 * Keys: up and down (or k and j) move, Enter opens, x chooses.
 */

import { fill, h, icon } from "./dom.js";

/** The head of a column of buttons: nothing to see, and something to hear. */
function unnamed() {
  return h("span", { class: "unseen" }, "Actions");
}

/**
 * Make a table.  `columns`: `{name, cell(row), class, title}`; `keyOf` names a row; `open` is
 * called with a row, `chosen` (with a set of keys) where rows can be chosen.
 */
export function makeTable({
  label,
  columns,
  keyOf,
  open = null,
  chosen = null,
  empty = {},
  dense = false,
}) {
  const body = h("tbody");
  const picked = new Set();
  const known = new Map();
  const all =
    chosen &&
    h("input", {
      type: "checkbox",
      "aria-label": "Select all",
      on: { change: () => pickAll(all.checked) },
    });
  const head = h(
    "tr",
    {},
    chosen && h("th", { class: "tight" }, all),
    columns.map((each) =>
      h("th", { class: each.class, title: each.title, scope: "col" }, each.name || unnamed()),
    ),
  );
  const table = h(
    "table",
    { "aria-label": label, class: `stacks ${dense ? "dense" : ""}` },
    h("thead", {}, head),
    body,
  );
  const nothing = h(
    "div",
    { class: "empty", hidden: true },
    icon(empty.icon ?? "good"),
    h("strong", {}, empty.title ?? "Nothing here"),
    empty.text && h("span", {}, empty.text),
  );
  const element = h("div", {}, h("div", { class: "table-room" }, table), nothing);

  function update(rows) {
    const keys = new Set(rows.map(keyOf));
    for (const [key, row] of known) {
      if (keys.has(key)) continue;
      row.element.remove();
      known.delete(key);
      if (picked.delete(key)) tell();
    }
    let before = body.firstElementChild;
    for (const row of rows) {
      const entry = known.get(keyOf(row)) ?? added(keyOf(row));
      entry.row = row;
      draw(entry);
      if (entry.element === before) before = before.nextElementSibling;
      else body.insertBefore(entry.element, before);
    }
    const first = body.querySelector('tr[tabindex="0"]') ?? body.firstElementChild;
    if (first) first.tabIndex = 0;
    nothing.hidden = rows.length > 0;
    table.hidden = rows.length === 0;
    if (all) mark();
  }

  function added(key) {
    const element = h("tr", { tabindex: "-1", data: open ? { opens: "" } : {} });
    const box =
      chosen &&
      h("input", {
        type: "checkbox",
        tabindex: "-1",
        "aria-label": `Select ${key}`,
        on: { change: () => pick(key, box.checked) },
      });
    const cells = columns.map((each) =>
      h("td", { class: each.class, data: each.shown ? { name: each.shown } : {} }),
    );
    element.append(...(box ? [h("td", { class: "tight pick" }, box)] : []), ...cells);
    const entry = { key, element, box, cells, said: columns.map(() => null), row: null };
    element.addEventListener("click", (event) => {
      if (
        !open ||
        event.target.closest("button, a, input, summary, details") ||
        String(getSelection())
      )
        return;
      open(entry.row);
    });
    known.set(key, entry);
    return entry;
  }

  function draw(entry) {
    columns.forEach((column, place) => {
      const value = column.cell(entry.row);
      const said = value instanceof Node ? value.outerHTML : String(value ?? "");
      if (said === entry.said[place]) return;
      entry.said[place] = said;
      fill(entry.cells[place], value);
    });
  }

  function pick(key, isPicked) {
    if (isPicked) picked.add(key);
    else picked.delete(key);
    tell();
  }

  function pickAll(isPicked) {
    picked.clear();
    if (isPicked) for (const key of known.keys()) picked.add(key);
    tell();
  }

  function tell() {
    mark();
    chosen?.(new Set(picked));
  }

  function mark() {
    for (const entry of known.values()) {
      if (entry.box) entry.box.checked = picked.has(entry.key);
      entry.element.setAttribute("aria-selected", picked.has(entry.key));
    }
    if (!all) return;
    all.checked = known.size > 0 && picked.size === known.size;
    all.indeterminate = picked.size > 0 && picked.size < known.size;
  }

  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    if (event.target !== row || event.ctrlKey || event.metaKey || event.altKey) return;
    const entry = [...known.values()].find((each) => each.element === row);
    const moves = {
      ArrowDown: row.nextElementSibling,
      j: row.nextElementSibling,
      ArrowUp: row.previousElementSibling,
      k: row.previousElementSibling,
      Home: body.firstElementChild,
      End: body.lastElementChild,
    };
    if (event.key in moves) {
      event.preventDefault();
      focus(moves[event.key]);
    } else if (event.key === "Enter" && open) {
      open(entry.row);
    } else if ((event.key === "x" || event.key === " ") && chosen) {
      event.preventDefault();
      pick(entry.key, !picked.has(entry.key));
    }
  });

  function focus(row) {
    if (!row) return;
    for (const each of body.children) each.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
  }

  return {
    element,
    update,
    clear: () => pickAll(false),
    picked: () => new Set(picked),
    rows: () => [...known.values()].map((each) => each.row),
  };
}
