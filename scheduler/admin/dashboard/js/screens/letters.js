/** Dead letters: records that nothing could be done with, why, and a way to try them again. */

import { replayLetters, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { shown } from "../dialog.js";
import { keyWords, when } from "../format.js";
import { makePaged } from "../paged.js";
import { bytes, button, pairs, pill, timeInput } from "../parts.js";
import { address } from "../router.js";

const PAGE = 50;

export const screen = {
  path: "dead-letters",
  title: "Dead letters",
  mark: "letter",
  key: "e",
  open,
};

function open() {
  const kind = shortInput("send-mail");
  const error = shortInput("TimeoutError");
  const from = timeInput("From", null);
  const to = timeInput("To", null);
  const allMatching = h("div", { class: "row" });
  const list = makePaged({
    title: "Dead letters",
    aside: "newest first",
    noun: "dead letter",
    keyOf: (row) => row.place,
    open: showLetter,
    empty: { title: "No dead letters", text: "The dead-letter topic is empty." },
    columns: [
      { name: "When", class: "tight", cell: (row) => when(row.time) },
      {
        name: "Why",
        class: "words",
        cell: (row) => row.reason ?? h("span", { class: "faint" }, "no reason recorded"),
      },
      {
        name: "Task",
        class: "key",
        cell: (row) =>
          row.key
            ? h("span", { title: keyWords(row.key) }, keyWords(row.key))
            : pill("unreadable", "unreadable", "warn"),
      },
      { name: "Error", class: "words", cell: (row) => row.error ?? "" },
      {
        name: "Task is",
        class: "tight",
        cell: (row) => (row.ended ? pill(row.ended) : ""),
      },
      { name: "Place", shown: "place", class: "tight mono", cell: (row) => row.place },
      { name: "", class: "tight", cell: (row) => replay({ places: [row.place] }, whyNotThis(row)) },
    ],
    load: async (before) => {
      const page = await ask("dead-letters", { limit: PAGE, before, ...filter() });
      const some = page.letters.some((each) => each.replayable);
      fill(
        allMatching,
        some && h("span", { class: "faint" }, "All that match:"),
        some && replay({ filter: filter() }),
      );
      return { rows: page.letters, following: page.nextBefore };
    },
    bulk: (places) => replay({ places }),
  });

  function filter() {
    const asked = {
      kind: kind.value.trim(),
      errorClass: error.value.trim(),
      from: from.input.value.trim(),
      to: to.input.value.trim(),
    };
    return Object.fromEntries(Object.entries(asked).filter(([, value]) => value));
  }

  function replay(chosen, why = whyNot()) {
    return button("Replay", {
      kind: "small",
      disabled: why !== null,
      title: why,
      act: () => list.done(replayLetters(chosen)),
    });
  }

  function shortInput(placeholder) {
    return h("input", {
      class: "field short",
      type: "search",
      placeholder,
      autocomplete: "off",
      spellcheck: "false",
      on: { change: () => list.look() },
    });
  }

  const filters = h(
    "form",
    {
      class: "filters",
      role: "search",
      on: {
        submit: (event) => {
          event.preventDefault();
          list.look();
        },
      },
    },
    h("label", { class: "labelled" }, "Kind", kind),
    h("label", { class: "labelled" }, "Error", error),
    from.label,
    to.label,
    h("button", { class: "button main" }, "Search"),
    allMatching,
  );
  list.look();
  return {
    element: h("div", { class: "screen" }, filters, list.element),
    refresh: () => list.look(),
    close: list.close,
  };
}

const SINCE = {
  success: "Its task ended well since",
  cancelled: "Its task was cancelled since",
  moved: "Its task was moved since",
};

/** Why a letter cannot be replayed, or null. */
function whyNotThis(row) {
  if (row.readable && !row.replayable) {
    return SINCE[row.ended] ?? "Its task was reopened since";
  }
  return whyNot();
}

function showLetter(letter) {
  const dialog = shown(`Dead letter ${letter.place}`, [
    pairs([
      ["Why", letter.reason ?? "no reason recorded"],
      ["When", when(letter.time, { exact: true })],
      letter.error && ["Last error", letter.error],
      letter.ended && ["Task is", pill(letter.ended)],
      letter.key && [
        "Task",
        h(
          "a",
          { href: address("task", { key: letter.key }), on: { click: () => dialog.close() } },
          keyWords(letter.key),
        ),
      ],
      ...Object.entries(letter.origin ?? {}).filter(([, value]) => value !== null),
      ...Object.entries(letter.headers ?? {}).map(([name, value]) => [name, bytes(value)]),
    ]),
    "recordValue" in letter
      ? h("pre", { class: "code", tabindex: "0" }, bytes(letter.recordValue))
      : h("p", { class: "soft" }, "Hidden by admin.show_data."),
  ]);
}
