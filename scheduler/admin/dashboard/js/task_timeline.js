/** What happened to one task, from the time it was due to its end. */

import { counted, duration, nowMs, when } from "./format.js";
import { h } from "./dom.js";
import { stateTone, stateWord, trace } from "./parts.js";

export const OPEN = new Set(["pending", "limited", "running", "retrying", "snoozed", "blocked"]);

export function timeline(task) {
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
