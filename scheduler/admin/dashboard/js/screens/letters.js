/** Dead letters: records that nothing could be done with, why, and a way to try them again. */

import { replayLetters, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { h } from "../dom.js";
import { shown } from "../dialog.js";
import { keyWords, when } from "../format.js";
import { makePaged } from "../paged.js";
import { bytes, button, pairs, pill } from "../parts.js";
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
      { name: "Place", shown: "place", class: "tight mono", cell: (row) => row.place },
      { name: "", class: "tight", cell: (row) => replay([row.place]) },
    ],
    load: async (before) => {
      const page = await ask("dead-letters", { limit: PAGE, before });
      return { rows: page.letters, following: page.nextBefore };
    },
    bulk: (places) => replay(places),
  });

  function replay(places) {
    return button("Replay", {
      kind: "small",
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(replayLetters(places)),
    });
  }

  list.look();
  return {
    element: h("div", { class: "screen" }, list.element),
    refresh: () => list.look(),
    close: list.close,
  };
}

function showLetter(letter) {
  const dialog = shown(`Dead letter ${letter.place}`, [
    pairs([
      ["Why", letter.reason ?? "no reason recorded"],
      ["When", when(letter.time, { exact: true })],
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
