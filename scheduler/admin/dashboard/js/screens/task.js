/** One task: its data, what happened to it from top to bottom, and what may be done. */

import { actOnTasks, fitting, pauseOrResume, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { count, counted, duration, keyWords, moment, nowMs, shareOf, since, when } from "../format.js";
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
  stateTone,
  stateWord,
  trace,
} from "../parts.js";
import { address } from "../router.js";

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
const OPEN = new Set(["pending", "limited", "running", "retrying", "snoozed", "blocked"]);
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

function reason(wait) {
  return h("li", {}, wait.told, wait.command && [" ", h("code", {}, wait.command)]);
}

function timeline(task) {
  const due = Date.parse(task.scheduledTime);
  const steps = [
    {
      tone: due > nowMs() ? "next" : "",
      title: "Due",
      at: task.scheduledTime,
    },
  ];
  for (const each of task.attempts) {
    const late =
      each.attempt === 1
        ? `, ${duration(Math.max(0, Date.parse(each.started) - due))} after it was due`
        : "";
    const took = each.finished
      ? `, took ${duration(Date.parse(each.finished) - Date.parse(each.started))}`
      : "";
    steps.push({
      tone: stateTone(each.result) || "calm",
      title: `Attempt ${each.attempt}: ${stateWord(each.result)}`,
      at: each.started,
      words: `${late}${took}`.replace(/^, /, ""),
      error: each.errorClass && `${each.errorClass}: ${each.errorMessage ?? ""}`,
      stack: each.errorStack && [`Trace of attempt ${each.attempt}`, each.errorStack],
    });
    if (each.nextAttempt && each === task.attempts.at(-1) && OPEN.has(task.state))
      steps.push({ tone: "next", title: "Next attempt", at: each.nextAttempt });
  }
  if (task.running && !task.attempts.some((each) => each.attempt === task.running.attempt))
    steps.push({
      tone: "calm",
      title: `Attempt ${task.running.attempt} is running on ${task.running.node}`,
      at: task.running.started,
    });
  if (task.state === "blocked")
    steps.push({
      tone: "bad",
      title: "Blocked: waiting for an operator",
      words:
        "It has no attempts left, and its ordering id waits. Retry it, or drop it so that the tasks behind it can run.",
    });
  if (task.state === "cancelling")
    steps.push({
      tone: "warn",
      title: "Cancelled, and still running",
      words:
        "Its code may end, and no further attempt starts. Cancel what runs to ask it to end; where a thread does not look at self.cancelled, stop the node it runs on.",
    });
  else if (task.completion && !OPEN.has(task.state)) {
    const { started, finished, attempts } = task.completion;
    const took =
      started && finished ? `, took ${duration(Date.parse(finished) - Date.parse(started))}` : "";
    const tried =
      attempts && !task.attempts.length ? `after ${counted(attempts, "attempt")}${took}` : "";
    steps.push({
      tone: stateTone(task.state) || "calm",
      title: `Finished: ${stateWord(task.state)}`,
      at: finished,
      words: tried,
    });
  }
  return h(
    "ol",
    { class: "timeline" },
    steps.map((each) =>
      h(
        "li",
        { data: { tone: each.tone } },
        h(
          "div",
          { class: "between" },
          h("strong", {}, each.title),
          each.at && h("span", { class: "faint" }, when(each.at, { exact: true })),
        ),
        each.words && h("span", { class: "soft" }, each.words),
        each.error && h("span", {}, each.error),
        each.stack && trace(...each.stack),
      ),
    ),
  );
}
