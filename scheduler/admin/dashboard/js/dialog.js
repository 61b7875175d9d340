/**
 * Asking before anything is done: what, to how many, with what consequence.
 *
 * Nothing is sent before its preview was seen; what came of it is said in the same place.
 */

import { Refused } from "./api.js";
import { fill, h } from "./dom.js";
import { count, counted, keyWords, pickedInstant } from "./format.js";
import { momentInput } from "./parts.js";

/**
 * Ask, do, tell.  `preview(values)` answers `{count, first, note, nothing}`; `fields` are more
 * inputs, `{name, label, type, value, hint, required, options}`, where the type may be `area`,
 * `choice` or `moment`; `run(values, seen)` does it and answers with an array of lines or nothing.  With `live`
 * the preview is of what the fields say, anew after each change, and null while they say too
 * little.  Resolves to whether it was done.
 */
export function confirmed({
  title,
  words,
  verb,
  danger = false,
  noun = "task",
  preview = null,
  fields = [],
  live = false,
  run,
}) {
  return new Promise((resolve) => {
    let seen = null;
    let isDone = false;
    const room = h(
      "div",
      { class: "preview", "aria-live": "polite" },
      h("span", { class: "soft" }, "Checking …"),
    );
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const asked = [
      ...fields,
      { name: "reason", label: "Reason, for the audit log", hint: "optional", length: "300" },
    ];
    const inputs = Object.fromEntries(asked.map((each) => [each.name, fieldOf(each)]));
    const labels = asked.map((each) =>
      h("label", { class: "labelled" }, each.label, inputs[each.name]),
    );
    const values = () =>
      Object.fromEntries(
        Object.entries(inputs).map(([name, input]) => [name, saidIn(input)]),
      );
    const isFilled = () => fields.every((each) => !each.required || saidIn(inputs[each.name]));
    let turn = 0;
    const cancel = h(
      "button",
      { class: "button", type: "button", on: { click: () => dialog.close() } },
      "Cancel",
    );
    const go = h(
      "button",
      { class: `button main ${danger ? "danger" : ""}`, disabled: preview !== null },
      verb,
    );
    const buttons = h("div", { class: "buttons" }, cancel, go);
    const form = h(
      "form",
      { on: { submit, change: () => live && look() } },
      h("h2", { id: "asks" }, title),
      h("p", { class: "soft" }, words),
      ...(live ? labels : []),
      preview && room,
      problem,
      ...(live ? [] : labels),
      buttons,
    );
    const kind = fields.length > 5 ? "wide" : null;
    const dialog = h("dialog", { class: kind, "aria-labelledby": "asks", on: { close } }, form);

    async function look() {
      const mine = (turn += 1);
      try {
        const found = live && !isFilled() ? null : await preview(values());
        if (mine !== turn) return;
        if (found === null) {
          fill(room, h("span", { class: "soft" }, "Fill in the fields to see what will happen."));
          go.disabled = true;
          return;
        }
        seen = found;
        problem.hidden = true;
        go.disabled = seen.count === 0;
        go.textContent = seen.count > 1 ? `${verb} ${count(seen.count)}` : verb;
        fill(
          room,
          h(
            "span",
            { class: "count" },
            seen.count === 0 ? (seen.nothing ?? "Nothing to do") : counted(seen.count, noun),
          ),
          seen.note && h("span", { class: "soft" }, seen.note),
          seen.first?.length
            ? h(
                "ul",
                {},
                seen.first.map((each) => h("li", { title: keyWords(each) }, keyWords(each))),
              )
            : null,
          seen.count > (seen.first?.length ?? 0) && seen.first?.length
            ? h("span", { class: "faint" }, `and ${count(seen.count - seen.first.length)} more`)
            : null,
        );
      } catch (error) {
        if (mine !== turn) return;
        refuse(error);
        go.disabled = true;
        const nothing = live ? "Correct the fields to go on." : "Could not find out which it concerns.";
        fill(room, h("span", { class: "soft" }, nothing));
      }
    }

    async function submit(event) {
      event.preventDefault();
      if (go.disabled) return;
      go.disabled = true;
      go.textContent = "Working …";
      problem.hidden = true;
      try {
        const lines = await run(values(), seen);
        isDone = true;
        if (!lines?.length) {
          dialog.close();
          return;
        }
        const end = h(
          "button",
          { class: "button main", type: "button", on: { click: () => dialog.close() } },
          "Close",
        );
        fill(
          form,
          h("h2", { id: "asks" }, "Done"),
          h(
            "div",
            { class: "preview", role: "status" },
            lines.map((each) => h("span", {}, each)),
          ),
          h("div", { class: "buttons" }, end),
        );
        end.focus();
      } catch (error) {
        refuse(error);
        go.textContent = verb;
        go.disabled = false;
        // The count may be another one by now: look again before it is tried again.
        if (preview && error instanceof Refused && error.status === 409) look();
      }
    }

    function refuse(error) {
      problem.textContent = error.message;
      problem.hidden = false;
      if (!(error instanceof Refused || error instanceof Unreadable)) console.warn(error);
    }

    function close() {
      dialog.remove();
      resolve(isDone);
    }

    document.body.append(dialog);
    dialog.showModal();
    (fields.length ? inputs[fields[0].name] : preview ? cancel : go).focus();
    if (preview) look();
  });
}

/** What was typed into a field cannot be read. */
export class Unreadable extends Error {}

/** What a field says: a moment as RFC 3339, all else as it was typed. */
function saidIn(input) {
  return input.type === "datetime-local" ? pickedInstant(input.value) : input.value.trim();
}

function fieldOf({ type = "text", value = "", hint, required, length, options }) {
  const shared = { class: "field", required, autocomplete: "off" };
  if (type === "choice")
    return h(
      "select",
      shared,
      options.map(([each, word]) => h("option", { value: each, selected: each === value }, word)),
    );
  if (type === "moment") return momentInput(value, { required });
  if (type === "area") {
    const area = h("textarea", { ...shared, rows: "4", spellcheck: "false", placeholder: hint });
    area.value = value;
    return area;
  }
  return h("input", { ...shared, type, value, placeholder: hint, maxlength: length ?? "1000" });
}

/** Show something to read; returns the dialog, so that a link in it can close it. */
export function shown(title, children) {
  const close = h(
    "button",
    { class: "button main", type: "button", on: { click: () => dialog.close() } },
    "Close",
  );
  const dialog = h(
    "dialog",
    { "aria-labelledby": "shows", on: { close: () => dialog.remove() } },
    h(
      "div",
      { class: "body" },
      h("h2", { id: "shows" }, title),
      children,
      h("div", { class: "buttons" }, close),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
  return dialog;
}

/** Say something that passes. */
export function toast(text) {
  let room = document.querySelector(".toasts");
  if (!room) document.body.append((room = h("div", { class: "toasts", role: "status" })));
  const said = h("div", { class: "toast" }, text);
  room.append(said);
  setTimeout(() => said.remove(), 5_000);
}
