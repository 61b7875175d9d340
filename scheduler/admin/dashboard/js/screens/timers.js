/** Timers: what the timer service keeps, when each pops next, and where it calls back. */

import { deleteTimers, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { shown, toast } from "../dialog.js";
import { h } from "../dom.js";
import { count, duration, when } from "../format.js";
import { makePaged } from "../paged.js";
import { button, pairs, pill } from "../parts.js";
import { address, note } from "../router.js";

const PAGE = 100;

export const screen = {
  path: "timers",
  title: "Timers",
  mark: "bell",
  key: "i",
  service: true,
  open,
};

function open(parameters) {
  const tag = h("input", {
    class: "field",
    type: "search",
    value: parameters.get("tag") ?? "",
    placeholder: "Tag",
    "aria-label": "Tag",
    autocomplete: "off",
    on: {
      change: () => {
        note("timers", { tag: tag.value.trim() });
        list.look();
      },
    },
  });
  const list = makePaged({
    title: "Timers",
    aside: tag,
    noun: "timer",
    keyOf: (row) => row.id,
    open: showTimer,
    empty: {
      icon: "bell",
      title: "No timers",
      text: "Timers that clients created and that have not ended appear here. They are served by: hourhand timers",
    },
    columns: [
      { name: "Timer", class: "key mono", cell: (row) => h("span", { title: row.id }, row.id) },
      {
        name: "Next pop",
        class: "tight",
        cell: (row) =>
          h(
            "span",
            {},
            when(row.nextPop.time),
            " ",
            h("span", { class: "faint" }, `no. ${count(row.nextPop.number)}`),
          ),
      },
      {
        name: "Every",
        shown: "every",
        class: "right tight",
        cell: (row) => duration(row.intervalMs),
      },
      { name: "Calls back", class: "words", cell: (row) => row.uri },
      {
        name: "Tags",
        class: "tight",
        cell: (row) =>
          row.tags.map((each) => each.type).join(", ") || h("span", { class: "faint" }, "none"),
      },
      { name: "Created", shown: "created", class: "tight", cell: (row) => when(row.since) },
      { name: "", class: "tight", cell: (row) => end([row.id]) },
    ],
    load: async (after) => {
      const page = await ask("timers", { limit: PAGE, after, tag: tag.value.trim() });
      return { rows: page.timers, following: page.nextAfter };
    },
    bulk: (ids) => end(ids),
  });

  function end(ids) {
    return button("End", {
      kind: "small danger",
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(deleteTimers(ids)),
    });
  }

  list.look();
  return {
    element: h("div", { class: "screen" }, list.element),
    refresh: () => list.look(),
    close: list.close,
  };
}

async function showTimer(row) {
  let found;
  try {
    found = (await ask("timers/timer", { id: row.id })).timer;
  } catch (error) {
    toast(error.message);
    return;
  }
  const dialog = shown(`Timer ${found.id}`, [
    pairs([
      ["Calls back", found.uri],
      ["Next pop", when(found.nextPop.time)],
      ["Every", duration(found.intervalMs)],
      ["Repeats for", duration(found.repeatForMs)],
      ["Created", when(found.since, { exact: true })],
    ]),
    h("h3", {}, "Next pops"),
    found.open.length
      ? h(
          "ul",
          {},
          found.open.map((each) =>
            h(
              "li",
              { class: "between" },
              h(
                "a",
                { href: address("task", { key: each.key }), on: { click: () => dialog.close() } },
                when(each.scheduledTime),
              ),
              pill(each.state),
            ),
          ),
        )
      : h("p", { class: "soft" }, "No pop within the next month."),
    "opaque" in found ? h("pre", { class: "code", tabindex: "0" }, found.opaque) : null,
  ]);
}
