/**
 * What one may do to tasks, ordering ids and partitions: each with its consequence in words, a
 * preview that the API counted, and what came of it.
 */

import { act } from "./api.js";
import { confirmed } from "./dialog.js";
import { count, counted, nowMs, zoneName } from "./format.js";
import { whoami } from "./session.js";

const SAID = {
  "run-now": [
    "Run now",
    "The task is moved to the current time and runs as soon as its ordering id is free. It gets a new key.",
  ],
  retry: [
    "Retry",
    "The task is reopened with its data and a full set of attempts. If it is due, it runs at once. Failed and dropped tasks keep their data for days; where it is gone, the outcome says so.",
  ],
  reschedule: ["Reschedule", "The task is moved to another time. It gets a new key."],
  cancel: [
    "Cancel",
    "No further attempt is made; an attempt that is running may finish. Scheduling the same key again reopens it.",
  ],
  "cancel-running": [
    "Cancel what runs",
    "No further attempt is made, and the code that runs is asked to end: a coroutine is cancelled, a process is ended, and a thread sees self.cancelled. Nothing that it comes to counts. Scheduling the same key again reopens it.",
  ],
  drop: [
    "Drop",
    "The task is closed for good, and the tasks behind it go on. This cannot be undone.",
  ],
};
const UNBLOCKED = {
  retry:
    "The task that blocks each ordering id gets a full set of attempts. If it succeeds, the tasks behind it run in order.",
  drop: "The task that blocks each ordering id is closed for good, and the tasks behind it run in order. This cannot be undone.",
};
const DANGEROUS = new Set(["cancel", "cancel-running", "drop"]);
/** Which actions make sense in which state. */
const FITTING = {
  pending: ["run-now", "reschedule", "cancel", "drop"],
  limited: ["reschedule", "cancel", "drop"],
  running: ["cancel", "cancel-running", "drop"],
  cancelling: ["cancel-running"],
  retrying: ["retry", "run-now", "reschedule", "cancel", "drop"],
  snoozed: ["retry", "cancel", "drop"],
  blocked: ["retry", "cancel", "drop"],
  failure: ["retry"],
  dropped: ["retry"],
  expired: ["retry"],
};

/** The actions for a task in some state, as pairs of name and word. */
export function fitting(state) {
  return (FITTING[state] ?? []).map((name) => [name, SAID[name][0]]);
}

/** The actions that tasks in all of these states have in common. */
export function fittingAll(states) {
  const [first, ...others] = [...new Set(states)].map(fitting);
  const hasName = (actions, name) => actions.some(([other]) => other === name);
  return (first ?? []).filter(([name]) => others.every((each) => hasName(each, name)));
}

/** Why nothing may be done here, or null. */
export function whyNot() {
  return whoami.mayAct ? null : "Your token is view-only";
}

/** Do something to tasks by their keys, or to all that a filter finds. */
export function actOnTasks(name, { keys = null, filter = null }) {
  const [verb, words] = SAID[name];
  const chosen = keys ? { keys } : { filter };
  const fields = name === "reschedule" ? [timeField()] : [];
  return confirmed({
    title: `${verb} ${keys?.length === 1 ? "this task" : "these tasks"}?`,
    words,
    verb,
    danger: DANGEROUS.has(name),
    fields,
    preview: () =>
      act(`actions/${name}`, {
        ...chosen,
        dryRun: true,
        ...(fields.length ? { to: fields[0].value } : {}),
      }),
    run: async ({ to, reason }, seen) =>
      outcomes(
        await act(`actions/${name}`, {
          ...chosen,
          ...(to ? { to } : {}),
          ...(filter ? { expected: seen.count } : {}),
          reason,
        }),
      ),
  });
}

/** Retry or drop the tasks that block ordering ids. */
export function unblock(how, orderingIds, behind = null) {
  const verb = how === "retry" ? "Retry" : "Drop";
  const words = UNBLOCKED[how];
  const waits = behind === null ? null : `${counted(behind, "task")} waiting behind`;
  return confirmed({
    title: `${verb} what blocks ${orderingIds.length === 1 ? orderingIds[0] : counted(orderingIds.length, "ordering id")}?`,
    words,
    verb,
    danger: how === "drop",
    noun: "blocking task",
    preview: async () => {
      const seen = await act("actions/unblock", { orderingIds, how, dryRun: true });
      const gone = seen.notBlocked.length
        ? `${counted(seen.notBlocked.length, "id")} no longer blocked`
        : null;
      return {
        ...seen,
        note: [waits, gone].filter(Boolean).join("; "),
        nothing: "None of them is blocked any longer",
      };
    },
    run: async ({ reason }) => outcomes(await act("actions/unblock", { orderingIds, how, reason })),
  });
}

/** Retry or drop everything that one class of error blocks, listed or not. */
export function unblockError(how, errorClass) {
  const verb = how === "retry" ? "Retry" : "Drop";
  return confirmed({
    title: `${verb} everything blocked by ${errorClass}?`,
    words: UNBLOCKED[how],
    verb,
    danger: how === "drop",
    noun: "blocking task",
    preview: async () => ({
      ...(await act("actions/unblock", { errorClass, how, dryRun: true })),
      nothing: "Nothing is blocked by this error any longer",
    }),
    run: async ({ reason }, seen) =>
      outcomes(await act("actions/unblock", { errorClass, how, expected: seen.count, reason })),
  });
}

/** Pause or resume; a target is `{scope, partition, orderingId}`. */
export function pauseOrResume(isPause, targets) {
  const [first] = targets;
  const what =
    targets.length > 1
      ? counted(targets.length, "target")
      : first.scope === "all"
        ? "everything"
        : first.scope === "partition"
          ? `partition ${first.partition}`
          : first.orderingId;
  const words = isPause
    ? "No attempt starts there until you resume it; running attempts finish. Tasks that become due wait in the store and run in order afterwards."
    : "Attempts start again. Tasks that became due meanwhile run now, in order.";
  return confirmed({
    title: `${isPause ? "Pause" : "Resume"} ${what}?`,
    words,
    verb: isPause ? "Pause" : "Resume",
    danger: isPause && first.scope === "all",
    noun: "target",
    preview: async () => ({ count: targets.length, first: targets.map(targetWords) }),
    run: async ({ reason }) => {
      await act(isPause ? "pauses" : "pauses/resume", { targets, reason });
    },
  });
}

/** What a pause holds up, in words. */
export function targetWords(target) {
  if (target.scope === "all") return "everything";
  return target.scope === "partition" ? `partition ${target.partition}` : target.orderingId;
}

const CHANGES = {
  pause: [
    "Pause",
    "No further run is scheduled until you resume it. Tasks that it has already scheduled still run.",
  ],
  resume: ["Resume", "It runs by its rule again. Runs that were due during the pause are not made up."],
  trigger: ["Trigger", "One extra run is scheduled now; its rule is unchanged."],
  delete: [
    "Delete",
    "It ends for good. Tasks that it has already scheduled still run. This cannot be undone.",
  ],
};
const MOVED = {
  "run-now": "The message is sent now.",
  reschedule: "The message is moved to another time.",
  cancel: "The message is never sent. This cannot be undone.",
};

/** Change recurring schedules. */
export function changeRecurring(change, names) {
  const [verb, words] = CHANGES[change];
  return changed(`recurring/${change}`, {
    verb,
    words,
    noun: "schedule",
    danger: change === "delete",
    body: { names },
  });
}

/** End timers. */
export function deleteTimers(ids) {
  const words = "The timer ends and makes no further callbacks. This cannot be undone.";
  return changed("timers/delete", {
    verb: "End",
    words,
    noun: "timer",
    danger: true,
    body: { ids },
  });
}

/** Cancel messages that wait, move them, or pass them on now. */
export function moveMessages(name, verb, keys) {
  const fields = name === "reschedule" ? [timeField()] : [];
  return changed(`relay/${name}`, {
    verb,
    words: MOVED[name],
    noun: "message",
    danger: name === "cancel",
    body: { keys },
    fields,
  });
}

/** A time so far ahead, as a field holds it. */
export function soon(ms) {
  return `${new Date(nowMs() + ms).toISOString().slice(0, 19)}Z`;
}

function changed(path, { verb, words, noun, danger, body, fields = [] }) {
  const [named] = Object.values(body);
  const [field] = fields;
  return confirmed({
    title: `${verb} ${named.length === 1 ? `this ${noun}` : counted(named.length, noun)}?`,
    words,
    verb,
    danger,
    noun,
    fields,
    preview: async () => {
      const seen = await act(path, {
        ...body,
        dryRun: true,
        ...(field ? { to: field.value } : {}),
      });
      return {
        ...seen,
        note: seen.unknown.length ? `${counted(seen.unknown.length, noun)} no longer there` : null,
      };
    },
    run: async ({ to, reason }) =>
      outcomes(await act(path, { ...body, ...(to ? { to } : {}), reason })),
  });
}

function timeField() {
  return {
    name: "to",
    label: `New time, ${zoneName()}`,
    type: "moment",
    value: soon(3_600_000),
    required: true,
  };
}

/** Bring back the tasks of dead letters, by their places or all that a filter finds. */
export function replayLetters({ places = null, filter = null }) {
  const chosen = places ? { places } : { filter };
  return confirmed({
    title: `Replay ${places?.length === 1 ? "this dead letter" : "these dead letters"}?`,
    words:
      "Each failed task is reopened with the data of its letter and a full set of attempts. A task that ended well, waits or runs is not run again: the outcome says so.",
    verb: "Replay",
    noun: "dead letter",
    preview: () => act("dead-letters/replay", { ...chosen, dryRun: true }),
    run: async ({ reason }, seen) =>
      outcomes(
        await act("dead-letters/replay", {
          ...chosen,
          ...(filter ? { expected: seen.count } : {}),
          reason,
        }),
      ),
  });
}

function counts(outcomes) {
  return Object.entries(outcomes).map(([word, number]) => `${word}: ${count(number)}`);
}

/** What came of an act, in lines. */
export function outcomes(report) {
  const lines = report.said ?? counts(report.outcomes);
  const details = report.results
    .filter((each) => each.detail)
    .slice(0, 3)
    .map((each) => each.detail);
  const undecided = report.outcomes.undecided
    ? ["Undecided commands are in the log; the owners of their partitions will decide them."]
    : [];
  return [...(lines.length ? lines : ["nothing was sent"]), ...details, ...undecided];
}
