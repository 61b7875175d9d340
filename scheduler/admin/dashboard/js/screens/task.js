/** One task: its data, what happened to it from top to bottom, and what may be done. */

import { actOnTasks, fitting, pauseOrResume, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { count, counted, keyWords, moment, nowMs, shareOf, since, when } from "../format.js";
import { indented } from "../json_text.js";
import { latest, on } from "../live.js";
import {
  button,
  card,
  copier,
  empty,
  json,
  pairs,
  pill,
  refusal,
  trace,
} from "../parts.js";
import { address } from "../router.js";
import { OPEN, timeline } from "../task_timeline.js";

const MARKS = {
  "run-now": "play",
  retry: "retry",
  reschedule: "move",
  cancel: "stop",
  "cancel-running": "stop",
  drop: "drop",
};
const WHERE = {
  thread: ", in a thread",
  loop: ", on the event loop",
  process: ", in a process",
  batch: ", in a batch",
};
const LOOK_MS = 3_000;

export const screen = { path: "task", title: "Task", hidden: true, parent: "tasks", open };

function open(parameters) {
  const key = parameters.get("key") ?? "";
  const element = h("div", { class: "screen" });
  let said = null;
  let isClosed = false;
  let lookedAt = 0;

  async function look() {
    lookedAt = performance.now();
    try {
      const [{ task }, { attempts }] = await Promise.all([
        ask("task", { key }),
        ask("attempts", { key, limit: 200, order: "oldest" }),
      ]);
      const waits =
        OPEN.has(task.state) && Date.parse(task.scheduledTime) <= nowMs()
          ? await ask("waiting", { key })
          : null;
      if (isClosed) return;
      const now = JSON.stringify([task, attempts, waits]);
      if (now === said) return;
      said = now;
      show({ ...task, attempts }, waits);
    } catch (error) {
      if (isClosed || said !== null) return;
      fill(
        element,
        h(
          "section",
          { class: "card" },
          error.code === "unknown-key"
            ? empty("search", "No such task", error.message)
            : refusal(error),
        ),
      );
    }
  }

  function show(task, waits) {
    // A trace that somebody reads stays open.
    const opened = new Set(
      [...element.querySelectorAll("details[open] > summary")].map((each) => each.textContent),
    );
    fill(
      element,
      h(
        "section",
        { class: "card", "aria-label": "Task" },
        head(task),
        h("div", { class: "inside" }, facts(task, waits)),
      ),
      h(
        "div",
        { class: "columns" },
        card("What happened", { aside: counted(task.attempts.length, "attempt") }, timeline(task)),
        task.checkpoint === undefined ? null : progress(task.checkpoint),
        task.result === undefined ? null : result(task.result),
        card(
          "Data",
          { aside: "taskData" in task ? copier(indented(task.taskData)) : null },
          "taskData" in task
            ? json(task.taskData)
            : h(
                "p",
                { class: "soft" },
                task.sealed !== undefined
                  ? `The data is ${task.sealed}: your own code, with the key, reads it.`
                  : task.offset === undefined
                  ? "The data was deleted after the task finished; its result is kept."
                  : "Hidden by admin.show_data.",
              ),
        ),
      ),
    );
    for (const each of element.querySelectorAll("summary"))
      each.parentElement.open = opened.has(each.textContent);
  }

  function result({ attempt, keptUntil, value, sealed, gone }) {
    const hidden = gone
      ? "It was kept for its time, and is forgotten."
      : sealed !== undefined
        ? `It is ${sealed}.`
        : "Hidden by admin.show_data.";
    return card(
      "Result",
      { aside: value === undefined ? null : copier(indented(value)) },
      value !== undefined ? json(value) : h("p", { class: "soft" }, hidden),
      keptUntil === undefined
        ? null
        : h("p", { class: "soft" }, `Of attempt ${attempt}, kept until `, when(keptUntil), "."),
    );
  }

  function progress({ attempt, made, done, total, value, sealed }) {
    const share = total === undefined ? null : shareOf(done, total);
    return card(
      "Progress",
      { aside: made === undefined ? null : when(made) },
      share === null
        ? null
        : h(
            "div",
            {
              class: "bar",
              role: "progressbar",
              "aria-valuemin": 0,
              "aria-valuemax": total,
              "aria-valuenow": done,
            },
            h("i", { vars: { "--share": `${100 * share}%` } }),
          ),
      share === null
        ? null
        : h("p", {}, `${count(done)} of ${count(total)}, ${Math.floor(100 * share)} %`),
      h("p", { class: "soft" }, `The last checkpoint, of attempt ${attempt}.`),
      value !== undefined
        ? json(value)
        : h(
            "p",
            { class: "soft" },
            sealed !== undefined ? `It is ${sealed}.` : "Hidden by admin.show_data.",
          ),
    );
  }

  function head(task) {
    const actions = fitting(task.state).map(([name, word]) =>
      button(word, {
        kind: name === "drop" ? "danger" : "",
        mark: MARKS[name],
        disabled: whyNot() !== null,
        title: whyNot(),
        act: () => done(actOnTasks(name, { keys: [task.key] })),
      }),
    );
    const target = { scope: "ordering", orderingId: task.orderingId };
    const pause = button("Pause ordering id", {
      mark: "pause",
      disabled: whyNot() !== null,
      title: whyNot() ?? `No attempt of ${task.orderingId} starts until you resume it`,
      act: () => done(pauseOrResume(true, [target])),
    });
    return h(
      "div",
      { class: "task-head" },
      h(
        "div",
        {},
        h("div", { class: "row" }, pill(task.state)),
        h("h2", {}, task.orderingId),
        h("span", { class: "soft mono" }, task.uniquenessKey),
      ),
      h("div", { class: "row" }, actions, pause),
    );
  }

  async function done(act) {
    if (await act) look();
  }

  look();
  const stop = on("status", () => {
    if (performance.now() - lookedAt > LOOK_MS) look();
  });
  return {
    element,
    refresh: look,
    close() {
      isClosed = true;
      stop();
    },
  };
}

/** When code that runs said last how far it is. */
function lastSaid({ checkpoint, stuck }) {
  const said = checkpoint?.made ? `, last checkpoint ${since(checkpoint.made)} ago` : "";
  return stuck ? `${said}, stuck` : said;
}

function facts(task, waits) {
  const owner = latest.partitions?.partitions[task.partition]?.owner;
  return pairs([
    [
      "Scheduled",
      h(
        "span",
        {},
        moment(task.scheduledTime, { date: true }),
        " ",
        h("span", { class: "faint" }, when(task.scheduledTime)),
      ),
    ],
    [
      "Partition",
      h(
        "a",
        { href: address("nodes", { partition: task.partition }) },
        `${task.partition}${owner ? `, owned by ${owner}` : ""}`,
      ),
    ],
    waits && [
      "Waiting behind it",
      h(
        "a",
        { href: address("tasks", { find: task.orderingId, span: "week" }) },
        `${waits.more ? "more than " : ""}${counted(waits.waiting, "due task")}`,
      ),
    ],
    task.kind && ["Kind", h("a", { href: address("tasks", { kind: task.kind }) }, task.kind)],
    task.priority !== undefined && ["Priority", String(task.priority)],
    task.expires && ["Expires", moment(task.expires)],
    task.then && [
      "Followed by",
      h("span", {}, taskLink(task.then.key), task.then.on === "any" ? " at any end" : " if it succeeds"),
    ],
    task.after && [
      "Follows",
      h(
        "ul",
        { class: "waits" },
        task.after.map((end) => h("li", {}, taskLink(end.key), ` ${end.state}`)),
      ),
    ],
    task.limited && [
      "Limited by",
      `${task.limited.limit} ${task.limited.value} since ${task.limited.since}`,
    ],
    task.waits && ["Waits", h("ul", { class: "waits" }, task.waits.map(reason))],
    task.running && [
      "Running on",
      `${task.running.node}${WHERE[task.running.where] ?? ""} (attempt ${task.running.attempt}${task.running.started ? `, for ${since(task.running.started)}` : ""}${lastSaid(task.running)})`,
    ],
    task.completion?.reason && ["Reason", task.completion.reason],
    task.completion?.movedTo && ["Moved to", when(task.completion.movedTo, { exact: true })],
    ["Key", h("span", { class: "row" }, h("code", {}, keyWords(task.key)), copier(task.key))],
    task.offset !== undefined && ["Offset in the log", count(task.offset)],
    [
      "Ordering id",
      h("a", { href: address("tasks", { find: task.orderingId, span: "week" }) }, "all its tasks"),
    ],
  ]);
}

function taskLink(key) {
  return h("a", { href: address("task", { key }) }, keyWords(key));
}

function reason(wait) {
  return h("li", {}, wait.told, wait.command && [" ", h("code", {}, wait.command)]);
}
