/** Relay: messages that wait for their time, earliest first; cancel, move or pass one on now. */

import { moveMessages, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { shown, toast } from "../dialog.js";
import { h } from "../dom.js";
import { count, keyWords, moment, when, zoneName } from "../format.js";
import { makePaged } from "../paged.js";
import { button, bytes, pairs, pill } from "../parts.js";
import { address } from "../router.js";

const PAGE = 100;
const ACTIONS = ["run-now", "reschedule", "cancel"];
const WORDS = { "run-now": "Send now", reschedule: "Reschedule", cancel: "Cancel" };

export const screen = {
  path: "relay",
  title: "Relay",
  mark: "relay",
  key: "y",
  service: true,
  open,
};

function open() {
  const find = h("input", {
    class: "field",
    type: "search",
    placeholder: "A message's id",
    "aria-label": "A message's id",
    autocomplete: "off",
    on: { change: () => find.value.trim() && showMessage({ id: find.value.trim() }) },
  });
  const list = makePaged({
    title: "Waiting messages",
    aside: find,
    noun: "message",
    keyOf: (row) => row.key,
    open: showMessage,
    empty: {
      icon: "relay",
      title: "No messages are waiting",
      text: "Nothing is due within the next 31 days. To see messages kept in Kafka alone, run: hourhand relay pending",
    },
    columns: [
      { name: "State", class: "tight", cell: (row) => pill(row.state) },
      {
        name: `Due, ${zoneName()}`,
        class: "tight",
        cell: (row) =>
          h("span", {}, moment(row.due, { zone: false }), " ", h("span", { class: "faint" }, when(row.due))),
      },
      {
        name: "Id",
        class: "key",
        cell: (row) => row.id ?? h("span", { class: "faint" }, "no id"),
      },
      {
        name: "To topic",
        shown: "to",
        class: "tight",
        cell: (row) => row.topic ?? h("span", { class: "faint" }, "stored separately"),
      },
      {
        name: "Size",
        shown: "size",
        class: "right tight",
        cell: (row) => (row.sizeBytes === null ? "–" : `${count(row.sizeBytes)} B`),
      },
      { name: "", class: "tight", cell: (row) => act("cancel", [row.key]) },
    ],
    load: async (after) => {
      const page = await ask("relay/pending", { limit: PAGE, after });
      return { rows: page.messages, following: page.nextAfter };
    },
    bulk: (keys) => ACTIONS.map((name) => act(name, keys)),
  });

  function act(name, keys) {
    return button(WORDS[name], {
      kind: `small ${name === "cancel" ? "danger" : ""}`,
      disabled: whyNot() !== null,
      title: whyNot(),
      act: () => list.done(moveMessages(name, WORDS[name], keys)),
    });
  }

  list.look();
  return {
    element: h("div", { class: "screen" }, list.element),
    refresh: () => list.look(),
    close: list.close,
  };
}

async function showMessage(row) {
  if (!row.id) {
    location.hash = address("task", { key: row.key });
    return;
  }
  let found;
  try {
    found = (await ask("relay/message", { id: row.id })).message;
  } catch (error) {
    toast(error.message);
    return;
  }
  const dialog = shown(`Message ${row.id}`, [
    pairs([
      ["Due", when(found.due, { exact: true })],
      ["State", pill(found.state)],
      ["To topic", found.topic ?? "stored separately"],
      [
        "Task",
        h(
          "a",
          { href: address("task", { key: found.key }), on: { click: () => dialog.close() } },
          keyWords(found.key),
        ),
      ],
      "messageKey" in found && ["Key", bytes(found.messageKey)],
      ...(found.headers ?? []).map(([name, value]) => [name, bytes(value)]),
    ]),
    "messageValue" in found
      ? h("pre", { class: "code", tabindex: "0" }, bytes(found.messageValue))
      : null,
  ]);
}
