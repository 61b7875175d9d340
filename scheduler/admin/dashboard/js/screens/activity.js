/** Activity: what is paused, which limits hold, since when and by whom; and who did what. */

import { pauseOrResume, targetWords, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { shown } from "../dialog.js";
import { fill, h } from "../dom.js";
import { keyWords, when, zoneName } from "../format.js";
import { limitsTable, rateRows, ratesTable } from "../limits.js";
import { on } from "../live.js";
import { button, card, json, pill, refusal } from "../parts.js";
import { makeTable } from "../table.js";

const PAGE = 100;
/** What nodes lend each other lasts five seconds. */
const RATES_MS = 5_000;

export const screen = {
  path: "activity",
  title: "Activity: pauses, limits and audit",
  short: "Activity",
  mark: "journal",
  key: "p",
  open,
};

function open() {
  let entries = [];
  let following = null;
  const problem = h("div", { hidden: true });
  const more = button("Show older", { act: () => lookAudit(following) });
  const id = h("input", {
    class: "field",
    placeholder: "Ordering id",
    "aria-label": "Ordering id to pause",
    autocomplete: "off",
  });
  const pauses = makeTable({
    label: "Pauses",
    keyOf: (row) => `${row.scope} ${row.partition} ${row.orderingId}`,
    empty: {
      icon: "play",
      title: "Nothing is paused",
      text: "A pause stays in force until you resume it, even across restarts.",
    },
    columns: [
      { name: "What", class: "key", cell: targetWords },
      { name: "Since", class: "tight", cell: (row) => when(row.since) },
      { name: "Who", class: "tight", cell: (row) => row.who },
      {
        name: "Reason",
        class: "words",
        cell: (row) => row.reason || h("span", { class: "faint" }, "none"),
      },
      {
        name: "",
        class: "tight",
        cell: (row) =>
          button("Resume", {
            kind: "small",
            mark: "play",
            disabled: whyNot() !== null,
            title: whyNot(),
            act: () => done(pauseOrResume(false, [targetOf(row)])),
          }),
      },
    ],
  });
  const limits = limitsTable(done);
  const rates = ratesTable();
  let limitsAt = 0;
  const audit = makeTable({
    label: "Audit log",
    keyOf: (row) => row.id,
    open: showEntry,
    empty: { icon: "journal", title: "No activity yet" },
    columns: [
      {
        name: `When, ${zoneName()}`,
        class: "tight",
        cell: (row) => when(row.time, { exact: true, zone: false }),
      },
      { name: "Who", class: "tight", cell: (row) => row.who },
      { name: "Action", class: "tight", cell: (row) => h("strong", {}, row.action) },
      { name: "Target", class: "key", cell: targetCell },
      {
        name: "Result",
        class: "words",
        cell: (row) =>
          row.result.startsWith("failed")
            ? pill("failed", row.result, "bad")
            : resultWords(row.result),
      },
    ],
  });
  const pauseId = button("Pause ordering id", {
    mark: "pause",
    disabled: whyNot() !== null,
    title: whyNot(),
    act: () =>
      id.value.trim() &&
      done(pauseOrResume(true, [{ scope: "ordering", orderingId: id.value.trim() }])),
  });
  const everything = button("Pause everything", {
    kind: "danger",
    mark: "pause",
    disabled: whyNot() !== null,
    title: whyNot(),
    act: () => done(pauseOrResume(true, [{ scope: "all" }])),
  });
  const element = h(
    "div",
    { class: "screen" },
    problem,
    card("Paused", { inside: false, aside: [id, pauseId, everything] }, pauses.element),
    card("Limits", { inside: false }, limits.element),
    card("Rates", { inside: false, aside: "what each node may start now" }, rates.element),
    card(
      "Audit log",
      { inside: false, aside: "newest first" },
      audit.element,
      h("div", { class: "table-foot" }, more),
    ),
  );

  async function lookPauses() {
    try {
      pauses.update((await ask("pauses")).pauses);
    } catch (error) {
      fill(problem, refusal(error)).hidden = false;
    }
  }

  async function lookLimits() {
    try {
      limitsAt = performance.now();
      const found = (await ask("limits")).limits;
      limits.update(found);
      rates.update(rateRows(found));
    } catch (error) {
      fill(problem, refusal(error)).hidden = false;
    }
  }

  async function lookAudit(before) {
    try {
      const page = await ask("audit", { limit: PAGE, before });
      entries = before === null ? page.entries : [...entries, ...page.entries];
      following = page.nextBefore;
      audit.update(entries);
      more.hidden = following === null;
    } catch (error) {
      fill(problem, refusal(error)).hidden = false;
    }
  }

  function look() {
    problem.hidden = true;
    lookPauses();
    lookLimits();
    lookAudit(null);
  }

  async function done(act) {
    if (await act) {
      id.value = "";
      look();
    }
  }

  look();
  const stops = [
    on("pauses", look),
    on("status", () => performance.now() - limitsAt > RATES_MS && lookLimits()),
  ];
  return { element, refresh: look, close: () => stops.forEach((stop) => stop()) };
}

function targetCell({ target }) {
  return h("span", { title: keyWords(target) }, keyWords(target));
}

function targetOf({ scope, partition, orderingId }) {
  return scope === "all"
    ? { scope }
    : scope === "partition"
      ? { scope, partition }
      : { scope, orderingId };
}

/** Entries of earlier versions name the version of a list of pauses, which says nothing here. */
function resultWords(result) {
  return result.replace(/^sheet \d+$/, "done");
}

function showEntry(entry) {
  shown(`${entry.who}: ${entry.action}`, [
    h("p", {}, `${keyWords(entry.target)}: ${resultWords(entry.result)}`),
    json(entry.detail),
  ]);
}
