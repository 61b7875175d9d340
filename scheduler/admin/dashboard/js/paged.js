/**
 * A list that comes in pages: table, "show more", choosing many, and what is refused.
 *
 * It decides how pages follow each other, and looks again now and then while nobody has chosen
 * anything or gone further; what a row is and what may be done are the caller's.
 */

import { fill, h, say } from "./dom.js";
import { counted } from "./format.js";
import { button, refusal } from "./parts.js";
import { makeTable } from "./table.js";

const EVERY_MS = 5_000;

/**
 * Make one.  `load(after)` answers `{rows, following}`; `bulk(keys, rows)` returns the buttons
 * for what is chosen; everything else is the table's.
 */
export function makePaged({ title, aside = null, noun, load, bulk, ...table }) {
  let rows = [];
  let following = null;
  let turn = 0;
  let pages = 1;
  const problem = h("div", { hidden: true });
  const foot = h("span");
  const more = button("Show more", { act: () => look(following) });
  const chosen = h("div", { class: "bulk", hidden: true });
  const listed = makeTable({ label: title, chosen: showChosen, ...table });
  const element = h(
    "section",
    { class: "card", "aria-label": title },
    h("header", {}, h("h2", {}, title), h("div", { class: "aside" }, aside)),
    problem,
    listed.element,
    chosen,
    h("div", { class: "table-foot" }, foot, more),
  );

  async function look(after = null) {
    const mine = (turn += 1);
    more.disabled = true;
    try {
      const page = await load(after);
      if (mine !== turn) return;
      rows = after === null ? page.rows : [...rows, ...page.rows];
      pages = after === null ? 1 : pages + 1;
      following = page.following;
      problem.hidden = true;
      listed.update(rows);
      say(
        foot,
        following === null
          ? counted(rows.length, noun)
          : rows.length
            ? `first ${counted(rows.length, noun)}`
            : "None found yet; there may be more",
      );
    } catch (error) {
      if (mine !== turn) return;
      fill(problem, refusal(error)).hidden = false;
    }
    more.hidden = following === null;
    more.disabled = false;
  }

  function showChosen(keys) {
    chosen.hidden = keys.size === 0;
    const picked = rows.filter((each) => keys.has(table.keyOf(each)));
    fill(
      chosen,
      h("strong", {}, `${counted(keys.size, noun)} selected`),
      bulk([...keys], picked),
      button("Clear", { kind: "plain small", act: listed.clear }),
    );
  }

  /** Look again once an act was done. */
  async function done(act) {
    if (!(await act)) return;
    listed.clear();
    look();
  }

  const timer = setInterval(
    () => pages === 1 && chosen.hidden && !document.hidden && look(),
    EVERY_MS,
  );
  return { element, look, done, close: () => clearInterval(timer) };
}
