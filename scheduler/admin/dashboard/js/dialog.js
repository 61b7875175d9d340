/**
 * Asking before anything is done: what, to how many, with what consequence.
 *
 * Nothing is sent before its preview was seen; what came of it is said in the same place.
 */

import { Refused } from "./api.js";
import { fill, h } from "./dom.js";
import { count, counted } from "./format.js";

/**
 * Ask, do, tell.  `preview()` answers `{count, first, note, nothing}`; `fields` are more inputs,
 * `{name, label, type, value, hint, required}`; `run(values, seen)` does it and answers with an
 * array of lines or nothing.  Resolves to whether it was done.
 */
export function confirmed({
  title,
  words,
  verb,
  danger = false,
  noun = "task",
  preview = null,
  fields = [],
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
    const inputs = Object.fromEntries(
      [...fields, { name: "reason", label: "Reason, for the audit log", hint: "optional" }].map(
        (each) => [
          each.name,
          h("input", {
            class: "field",
            type: each.type ?? "text",
            value: each.value ?? "",
            placeholder: each.hint,
            required: each.required,
            maxlength: "300",
            step: each.step,
            autocomplete: "off",
          }),
        ],
      ),
    );
    const labels = [...fields, { name: "reason", label: "Reason, for the audit log" }].map((each) =>
      h("label", { class: "labelled" }, each.label, inputs[each.name]),
    );
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
      { on: { submit } },
      h("h2", { id: "asks" }, title),
      h("p", { class: "soft" }, words),
      preview && room,
      problem,
      ...labels,
      buttons,
    );
    const dialog = h("dialog", { "aria-labelledby": "asks", on: { close } }, form);

    async function look() {
      try {
        seen = await preview();
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
                seen.first.map((each) => h("li", { title: each }, each)),
              )
            : null,
          seen.count > (seen.first?.length ?? 0) && seen.first?.length
            ? h("span", { class: "faint" }, `and ${count(seen.count - seen.first.length)} more`)
            : null,
        );
      } catch (error) {
        refuse(error);
        fill(room, h("span", { class: "soft" }, "Could not find out which it concerns."));
      }
    }

    async function submit(event) {
      event.preventDefault();
      if (go.disabled) return;
      go.disabled = true;
      go.textContent = "Working …";
      problem.hidden = true;
      try {
        const lines = await run(
          Object.fromEntries(
            Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]),
          ),
          seen,
        );
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
      if (!(error instanceof Refused)) console.warn(error);
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
