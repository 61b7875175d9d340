/** Recurring schedules: by which rule, when next, what became of the last runs; pause and trigger. */

import { changeRecurring, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { shown, toast } from "../dialog.js";
import { h } from "../dom.js";
import { count, duration, moment, when } from "../format.js";
import { backfillRecurring, setRecurring } from "../making.js";
import { makePaged } from "../paged.js";
import { button, json, pairs, pill } from "../parts.js";
import { address } from "../router.js";

const PAGE = 100;

export const screen = { path: "recurring", title: "Recurring", mark: "repeat", key: "c", open };

function open() {
  const list = makePaged({
    title: "Recurring schedules",
    aside: button("New schedule", {
      kind: "small main",
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(setRecurring()),
    }),
    noun: "schedule",
    dense: true,
    keyOf: (row) => row.name,
    open: showSchedule,
    empty: {
      icon: "repeat",
      title: "No recurring schedules",
      text: "Create one here, in code, or with: hourhand recurring set NAME --cron '0 3 * * *'",
    },
    columns: [
      { name: "Name", class: "key", cell: (row) => h("span", { title: row.name }, row.name) },
      { name: "Rule", class: "words", cell: (row) => ruleWords(row.rule) },
      {
        name: "State",
        class: "tight",
        cell: (row) => (row.paused ? pill("paused", "paused", "warn") : pill("active", "active", "good")),
      },
      {
        name: "Owner",
        shown: "owner",
        class: "tight",
        title: "The application or file that declares it",
        cell: (row) => ownerOf(row),
      },
      {
        name: "Next",
        shown: "next",
        class: "tight",
        cell: (row) => (row.next ? when(row.next) : "–"),
      },
      {
        name: "Last",
        shown: "last",
        class: "tight",
        cell: (row) =>
          row.last
            ? h("a", { href: address("task", { key: row.last.key }) }, when(row.last.time))
            : "–",
      },
      { name: "Runs", shown: "runs", class: "right tight", cell: (row) => count(row.taken) },
      {
        name: "Skipped",
        shown: "skipped",
        class: "right tight",
        title: "Left out because the run before was still going",
        cell: (row) => count(row.skipped),
      },
      {
        name: "Missed",
        shown: "missed",
        class: "right tight",
        title: "Due while no node ran, and too long ago to catch up",
        cell: (row) => count(row.missed),
      },
      {
        name: "",
        class: "tight",
        cell: (row) =>
          h(
            "div",
            { class: "row" },
            edit(row),
            act(row.paused ? "resume" : "pause", [row.name]),
            act("trigger", [row.name]),
            backfill(row),
          ),
      },
    ],
    load: async (after) => {
      const page = await ask("recurring", { limit: PAGE, after });
      return { rows: page.recurring, following: page.nextAfter };
    },
    bulk: (names) => ["pause", "resume", "trigger", "delete"].map((change) => act(change, names)),
  });

  function backfill(row) {
    return button("Backfill", {
      kind: "small",
      disabled: whyNot() !== null,
      title: whyNot() ?? "Make the tasks of past times",
      act: () => list.done(backfillRecurring(row.name)),
    });
  }

  function edit(row) {
    return button("Edit", {
      kind: "small",
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(edited(row.name)),
    });
  }

  async function edited(name) {
    try {
      return await setRecurring((await ask("recurring/schedule", { name, next: 0 })).recurring);
    } catch (error) {
      toast(error.message);
      return false;
    }
  }

  function act(change, names) {
    const word = change[0].toUpperCase() + change.slice(1);
    const danger = change === "delete" ? "danger" : "";
    return button(word, {
      kind: `small ${danger}`,
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(changeRecurring(change, names)),
    });
  }

  list.look();
  return {
    element: h("div", { class: "screen" }, list.element),
    refresh: () => list.look(),
    close: list.close,
  };
}

function ruleWords(rule) {
  const parts = [
    rule.cron
      ? h("span", {}, h("code", {}, rule.cron), ` ${rule.timeZone ?? "UTC"}`)
      : `every ${duration(rule.everyMs)}`,
  ];
  if (rule.overlap && rule.overlap !== "skip")
    parts.push(h("span", { class: "faint" }, `, overlap: ${rule.overlap}`));
  return h("span", {}, parts);
}

function ownerOf(row) {
  if (!row.owner) return "–";
  const orphan = pill("orphan", "orphan", "warn");
  return h("span", { title: row.owner }, row.owner, row.orphaned ? [" ", orphan] : []);
}

async function showSchedule(row) {
  let found;
  try {
    found = (await ask("recurring/schedule", { name: row.name, next: 8 })).recurring;
  } catch (error) {
    toast(error.message);
    return;
  }
  const dialog = shown(found.name, [
    pairs([
      ["Rule", ruleWords(found.rule)],
      ["Ordering id", found.orderingId],
      ["Owner", ownerOf(found)],
      [
        "Runs, skipped, missed",
        `${count(found.taken)}, ${count(found.skipped)}, ${count(found.missed)}`,
      ],
    ]),
    h("h3", {}, "Next times"),
    found.nextTimes.length
      ? h(
          "ul",
          {},
          found.nextTimes.map((each) =>
            h(
              "li",
              {},
              moment(each.time, { date: true }),
              " ",
              h("span", { class: "faint" }, when(each.time)),
            ),
          ),
        )
      : h("p", { class: "soft" }, "None: it is paused or has ended."),
    h("h3", {}, "Last runs"),
    found.lastRuns.length
      ? h(
          "ul",
          {},
          found.lastRuns.map((each) =>
            h(
              "li",
              { class: "between" },
              h(
                "a",
                { href: address("task", { key: each.key }), on: { click: () => dialog.close() } },
                moment(each.scheduledTime, { date: true }),
              ),
              pill(each.state),
            ),
          ),
        )
      : h("p", { class: "soft" }, "None yet."),
    json(found.rule),
  ]);
}
