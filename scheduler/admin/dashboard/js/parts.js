/**
 * Pieces that several screens show: cards, states in a word, choices, data with its colours.
 */

import { fill, h, icon } from "./dom.js";
import { count, picked, pickedInstant, zoneName } from "./format.js";
import { indented } from "./json_text.js";

const TONES = {
  pending: ["accent", "pending"],
  limited: ["warn", "limited"],
  running: ["calm", "running"],
  cancelling: ["warn", "cancelling"],
  retrying: ["warn", "retrying"],
  snoozed: ["accent", "snoozed"],
  blocked: ["bad", "blocked"],
  success: ["good", "done"],
  failure: ["bad", "failed"],
  dropped: ["", "dropped"],
  expired: ["", "expired"],
  cancelled: ["", "cancelled"],
  moved: ["", "moved"],
  alive: ["good", "alive"],
  silent: ["none", "silent"],
  started: ["calm", "running"],
};
const TOKENS =
  /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

/** The states a task can be in, as one chooses among them. */
export const STATES = [
  "pending",
  "limited",
  "running",
  "cancelling",
  "retrying",
  "snoozed",
  "blocked",
  "success",
  "failure",
  "dropped",
  "expired",
  "cancelled",
  "moved",
];

/** What a state is called. */
export function stateWord(state) {
  return TONES[state]?.[1] ?? state;
}

/** What a state feels like: `good`, `warn`, `bad`, `calm`, `accent` or nothing. */
export function stateTone(state) {
  return TONES[state]?.[0] ?? "";
}

/** A state as a pill. */
export function pill(state, word = stateWord(state), tone = stateTone(state)) {
  return h("span", { class: "pill", data: { tone } }, word);
}

/** A card with a heading. */
export function card(title, { aside = null, inside = true, label = null } = {}, ...children) {
  const id = `card-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return h(
    "section",
    { class: "card", "aria-labelledby": label ? null : id, "aria-label": label },
    h("header", {}, h("h2", { id }, title), h("div", { class: "aside" }, aside)),
    inside ? h("div", { class: "inside" }, children) : children,
  );
}

/** A button with an icon. */
export function button(word, { kind = "", mark = null, act, ...more } = {}) {
  return h(
    "button",
    { class: `button ${kind}`, type: "button", on: act ? { click: act } : {}, ...more },
    mark && icon(mark),
    word,
  );
}

/** A choice of one: `options` are pairs of value and word. */
export function segments(label, options, value, choose) {
  const element = h("div", { class: "segments", role: "group", "aria-label": label });
  const show = (chosen) =>
    fill(
      element,
      options.map(([each, word]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(each === chosen),
            on: {
              click: () => {
                show(each);
                choose(each);
              },
            },
          },
          word,
        ),
      ),
    );
  show(value);
  return element;
}

/** A choice of a partition, or of all. */
export function partitionChoice(count, value, choose) {
  const options = [
    ["", "All partitions"],
    ...Array.from({ length: count }, (_, number) => [String(number), `Partition ${number}`]),
  ];
  return h(
    "select",
    {
      class: "field",
      "aria-label": "Partition",
      on: {
        change: (event) => choose(event.target.value === "" ? null : Number(event.target.value)),
      },
    },
    options.map(([each, word]) =>
      h("option", { value: each, selected: String(value ?? "") === each }, word),
    ),
  );
}

/** An input in which a moment is picked, in the zone that is shown; `value` is RFC 3339. */
export function momentInput(value, more = {}) {
  const held = picked(value ?? "");
  const step = held.includes(".") ? "0.001" : "1";
  return h("input", { class: "field", type: "datetime-local", step, value: held, ...more });
}

/** A labelled one; `input.value` is RFC 3339, or nothing. */
export function timeInput(name, value) {
  const element = momentInput(value, { "aria-label": name });
  const input = {
    get value() {
      return pickedInstant(element.value);
    },
    set value(text) {
      element.value = picked(text);
    },
  };
  return { input, label: h("label", { class: "labelled" }, `${name}, ${zoneName()}`, element) };
}

/** A value as JSON that is easy on the eye. */
export function json(value) {
  return cut(indented(value), coloured);
}

function coloured(text) {
  const pre = h("pre", { class: "code", tabindex: "0" });
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    pre.append(text.slice(end, found.index));
    const [whole, string, colon, number] = found;
    const kind = string ? (colon ? "k" : "s") : number ? "n" : "w";
    pre.append(h("span", { class: kind }, string ?? whole), colon ?? "");
    end = found.index + whole.length;
  }
  pre.append(text.slice(end));
  return pre;
}

/** Bytes as the API tells them: text, or base64 where they are not text. */
export function bytes(value) {
  if (value === null || value === undefined) return "nothing";
  return value.text ?? `base64 ${value.base64}`;
}

/** Lines of a long text that are shown before somebody asks for the rest. */
const CUT_CHARS = 4_000;

/** An element whose text is cut, with a button that shows all of it. */
export function cut(text, shown) {
  if (text.length <= CUT_CHARS) return shown(text);
  const room = h("div", {});
  const all = button(`Show all ${count(text.length)} characters`, {
    kind: "small",
    act: () => fill(room, shown(text)),
  });
  fill(room, shown(`${text.slice(0, CUT_CHARS)} …`), h("div", { class: "table-foot" }, all));
  return room;
}

/** A long text that opens on demand. */
export function trace(title, text) {
  return h(
    "details",
    { class: "trace" },
    h("summary", {}, title),
    h("pre", { class: "code", tabindex: "0" }, text),
  );
}

/** Names and values. */
export function pairs(entries) {
  return h(
    "dl",
    { class: "pairs" },
    entries.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** Words for a place that shows nothing yet. */
export function empty(mark, title, text) {
  return h(
    "div",
    { class: "empty" },
    icon(mark),
    h("strong", {}, title),
    text && h("span", {}, text),
  );
}

/** A refusal, where what was asked for would stand. */
export function refusal(error) {
  return h(
    "div",
    { class: "empty", role: "alert" },
    icon("alert"),
    h("strong", {}, "This could not be shown"),
    h("span", {}, error.message),
  );
}

/** A button that copies a text. */
export function copier(text) {
  const made = button("Copy", {
    kind: "small plain",
    mark: "copy",
    act: async () => {
      await navigator.clipboard?.writeText(text);
      made.lastChild.textContent = "Copied";
    },
  });
  return made;
}
