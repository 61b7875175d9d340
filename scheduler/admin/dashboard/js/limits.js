/** Limits: what the code declares, what holds, and changing that while nodes run. */

import { whyNot } from "./acts.js";
import { act } from "./api.js";
import { confirmed, Unreadable } from "./dialog.js";
import { h } from "./dom.js";
import { duration, durationMs, shortDuration, when } from "./format.js";
import { button, pill } from "./parts.js";
import { makeTable } from "./table.js";

const STATES = {
  declared: ["", "as declared"],
  changed: ["warn", "changed"],
  unused: ["bad", "unused"],
};

/** Before a value of a limit's key, in the name of the field for its rate. */
const OF = "of ";

/** A table of limits; `done` is given what each act resolves to. */
export function limitsTable(done) {
  return makeTable({
    label: "Limits",
    keyOf: (row) => row.limit,
    empty: {
      icon: "journal",
      title: "No limits",
      text: "No node that runs declares a limit.",
    },
    columns: [
      { name: "Limit", class: "key", cell: (row) => row.limit },
      { name: "State", class: "tight", cell: stateOf },
      { name: "Holds", class: "words", cell: (row) => numberWords(row.effective) },
      { name: "Declared", class: "words", cell: (row) => numberWords(row.declared) },
      { name: "For each", class: "tight", cell: (row) => row.key ?? "" },
      { name: "Since", class: "tight", cell: (row) => (row.changed ? when(row.changed.since) : "") },
      { name: "Who", class: "tight", cell: (row) => row.changed?.who ?? "" },
      { name: "Reason", class: "words", cell: (row) => row.changed?.reason ?? "" },
      { name: "", class: "tight", cell: (row) => buttons(row, done) },
    ],
  });
}

/** A table of what each node may start of each rate now. */
export function ratesTable() {
  return makeTable({
    label: "Rates",
    keyOf: ({ limit, value, node }) => JSON.stringify([limit, value, node]),
    empty: {
      icon: "journal",
      title: "No rates",
      text: "No node that runs has a limit of a rate.",
    },
    columns: [
      { name: "Limit", class: "key", cell: (row) => row.limit },
      { name: "Value", class: "words", cell: valueOf },
      { name: "Node", class: "key", cell: (row) => row.node ?? h("strong", {}, "all") },
      { name: "Own", class: "tight", cell: (row) => share(row.own) },
      { name: "Lends", class: "tight", cell: (row) => share(row.lent) },
      { name: "Borrows", class: "tight", cell: (row) => share(row.borrowed) },
      { name: "May start", class: "tight", cell: (row) => `${row.rate} per ${duration(row.perMs)}` },
    ],
  });
}

/** The rows of that table: of each value the nodes, and then their sum. */
export function rateRows(limits) {
  return limits.flatMap(({ limit, effective, rates }) =>
    rates.flatMap(({ nodes, ...sum }) =>
      [...nodes, { ...sum, node: null }].map((row) => ({
        ...row,
        limit,
        value: sum.value,
        perMs: effective.perMs,
      })),
    ),
  );
}

function valueOf({ value }) {
  return value ?? h("span", { class: "faint" }, "any other");
}

function share(part) {
  return part === 0 ? "" : `${(100 * part).toFixed(1)} %`;
}

function stateOf(row) {
  const [kind, word] = STATES[row.state];
  return pill(row.state, word, kind);
}

function numberWords(numbers) {
  if (!numbers) return h("span", { class: "faint" }, "nothing");
  const { rate, rates, perMs, burst, concurrency } = numbers;
  const said = rate === null ? [] : [`${rate} per ${duration(perMs)}, burst ${burst}`];
  for (const [value, of] of Object.entries(rates)) said.push(`${of} of ${value}`);
  if (concurrency !== null) said.push(`${concurrency} at once`);
  return said.join(", ");
}

function buttons(row, done) {
  const shared = { kind: "small", disabled: whyNot() !== null, title: whyNot() };
  const change = button("Change", { ...shared, act: () => done(changeLimit(row)) });
  const reset = button("Reset", { ...shared, act: () => done(resetLimit(row)) });
  return h("span", {}, row.effective ? change : null, row.changed ? reset : null);
}

/** Change a limit: the fields that are left as they are change nothing. */
function changeLimit({ limit, effective }) {
  const { rate, rates, perMs, burst, concurrency } = effective;
  const known = {
    ...(rate === null ? {} : { rate: `${rate}`, perMs: shortDuration(perMs), burst: `${burst}` }),
    ...Object.fromEntries(Object.entries(rates).map(([value, of]) => [OF + value, `${of}`])),
    ...(concurrency === null ? {} : { concurrency: `${concurrency}` }),
  };
  const labels = {
    rate: "Starts",
    perMs: "In each (90s, 1h)",
    burst: "At once after a pause",
    concurrency: "At the same time",
  };
  return confirmed({
    title: `Change ${limit}?`,
    words:
      "Every node knows it within a second. It holds until you reset it, even across restarts; running attempts finish.",
    verb: "Change",
    fields: Object.entries(known).map(([name, value]) => ({
      name,
      label: labels[name] ?? `Starts ${name}`,
      value,
    })),
    run: async ({ reason, ...typed }) => {
      const told = Object.entries(typed).filter(([name, value]) => value !== known[name]);
      const read = told.map(([name, value]) => [name, numberOf(name, value)]);
      const of = read.filter(([name]) => name.startsWith(OF));
      const numbers = Object.fromEntries(read.filter(([name]) => !name.startsWith(OF)));
      if (of.length > 0)
        numbers.rates = Object.fromEntries(of.map(([name, number]) => [name.slice(OF.length), number]));
      await act("limits", { limit, ...numbers, reason });
    },
  });
}

function resetLimit({ limit, declared }) {
  const holds = declared
    ? "What the code declares holds again."
    : "No node that runs declares this limit.";
  return confirmed({
    title: `Reset ${limit}?`,
    words: holds,
    verb: "Reset",
    noun: "limit",
    preview: async () => ({ count: 1, first: [limit] }),
    run: async ({ reason }) => {
      await act("limits/reset", { limits: [limit], reason });
    },
  });
}

function numberOf(name, text) {
  const number = name === "perMs" ? durationMs(text) : Number(text || Number.NaN);
  if (number === null || Number.isNaN(number)) {
    throw new Unreadable(`${text || "nothing"} is not ${name === "perMs" ? "a time" : "a number"}`);
  }
  return number;
}
