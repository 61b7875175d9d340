/**
 * Making something: a task, a recurring schedule; fields, a preview of what they say, what came of it.
 *
 * What a rule means, and whether there can be one, is decided by the API.
 */

import { outcomes, soon } from "./acts.js";
import { act } from "./api.js";
import { confirmed, Unreadable } from "./dialog.js";
import { count, counted, durationMs, moment, nowMs, shortDuration, zoneName } from "./format.js";
import { indented, JsonText } from "./json_text.js";
import { stateWord } from "./parts.js";

const SHOWN_MAX = 20;

/** Schedule a task; resolves to whether it was done. */
export function scheduleTask() {
  const body = ({ orderingId, scheduledTime, uniquenessKey, data, kind, priority, expires }) => ({
    orderingId,
    scheduledTime,
    uniquenessKey,
    data: parsed("Data", data || "{}"),
    kind: kind || null,
    priority: priority ? Number(priority) : null,
    expires: expires || null,
  });
  return confirmed({
    title: "Schedule a task",
    words: "The task runs at its time, after the tasks of its ordering id that are due before it.",
    verb: "Schedule",
    live: true,
    fields: [
      { name: "orderingId", label: "Ordering id", hint: "customer-7", required: true },
      {
        name: "scheduledTime",
        label: `Time, ${zoneName()}`,
        type: "moment",
        value: soon(60_000),
        required: true,
      },
      {
        name: "uniquenessKey",
        label: "Uniqueness key (the same key again is the same task)",
        value: crypto.randomUUID?.() ?? String(nowMs()),
        required: true,
      },
      { name: "kind", label: "Kind", hint: "none: the default executor runs it" },
      { name: "priority", label: "Priority", type: "number", hint: "that of its kind" },
      { name: "expires", label: "Expires", hint: "PT1H after its time, or an instant" },
      { name: "data", label: "Data (a JSON object)", type: "area", value: "{}" },
    ],
    preview: async (values) => {
      const seen = await act("tasks", { ...body(values), dryRun: true });
      const isThere = seen.state !== "unknown";
      return {
        count: 1,
        first: [seen.key],
        note: isThere ? `A task with this key is there already: ${stateWord(seen.state)}.` : null,
      };
    },
    run: async (values) => {
      const { receipt } = await act("tasks", { ...body(values), reason: values.reason });
      return [`Scheduled: ${receipt.key}`];
    },
  });
}

/** Make a recurring schedule, or change one that is there. */
export function setRecurring(known = null) {
  return confirmed({
    title: known ? `Edit ${known.name}` : "New recurring schedule",
    words: known
      ? "The new rule replaces the old one. Tasks that it has already scheduled still run."
      : "Give it a cron expression or an interval. Each time it is due, it schedules one task.",
    verb: known ? "Save" : "Create",
    noun: "schedule",
    live: true,
    fields: ruleFields(known),
    preview: async (values) => {
      if (!values.cron && !values.every) return null;
      if (values.cron && values.every)
        throw new Unreadable("Give a cron expression or an interval, and not both");
      const seen = await act("recurring/schedule", { ...ruleBody(known, values), dryRun: true });
      const times = seen.nextTimes.map(({ time }) => `next: ${moment(time, { date: true })}`);
      const note = seen.replaces && !known ? "This replaces the schedule of the same name." : null;
      return { count: 1, first: times, note };
    },
    run: async (values) =>
      outcomes(
        await act("recurring/schedule", { ...ruleBody(known, values), reason: values.reason }),
      ),
  });
}

/** Make the tasks of past times of a recurring schedule; resolves to whether it was done. */
export function backfillRecurring(name) {
  const body = ({ starts, ends }) => ({ name, starts, ends });
  const past = (each, label, ms) => ({
    name: each,
    label: `${label}, ${zoneName()}`,
    type: "moment",
    value: soon(-ms),
    required: true,
  });
  return confirmed({
    title: `Backfill ${name}`,
    words:
      "The tasks of past times are made, by its rule of today. Those that are there, open or done, are not made again.",
    verb: "Backfill",
    live: true,
    fields: [past("starts", "From", 86_400_000), past("ends", "To, left out", 60_000)],
    preview: async (values) => {
      const seen = await act("recurring/backfill", { ...body(values), dryRun: true });
      const there = seen.there.length ? `${counted(seen.there.length, "task")} there already` : null;
      return { count: seen.made.length, first: seen.made.slice(0, SHOWN_MAX), note: there };
    },
    run: async (values) => {
      const done = await act("recurring/backfill", { ...body(values), reason: values.reason });
      return [`made: ${count(done.made.length)}`, `there already: ${count(done.there.length)}`];
    },
  });
}

/** What the API is sent for the values of the form. */
export function ruleBody(known, values) {
  return {
    name: known?.name ?? values.name,
    cron: values.cron || null,
    everyMs: values.every ? readDuration("Interval", values.every) : null,
    timeZone: values.timeZone || "UTC",
    orderingId: values.orderingId || null,
    kind: values.kind || null,
    priority: values.priority ? Number(values.priority) : null,
    expiresAfterMs: values.expiresAfter ? readDuration("Expiry", values.expiresAfter) : null,
    data: hidesData(known) && !values.data ? null : parsed("Data", values.data || "{}"),
    overlap: values.overlap,
    catchUpMs: readDuration("Catch up", values.catchUp),
    jitterMs: readDuration("Jitter", values.jitter),
    starts: values.starts || null,
    ends: values.ends || null,
    exceptDates: (values.exceptDates ?? "").split(/[\s,]+/).filter(Boolean),
    countMax: values.countMax ? Number(values.countMax) : null,
  };
}

function hidesData(known) {
  return known !== null && !("data" in known.rule);
}

/** The fields of the form, with the values of a schedule that is there. */
export function ruleFields(known) {
  const rule = known?.rule;
  const isHidden = hidesData(known);
  const own = (ms, otherwise) => (rule ? shortDuration(ms) : otherwise);
  const name = { name: "name", label: "Name", hint: "nightly-report", required: true };
  return [
    ...(known ? [] : [name]),
    { name: "cron", label: "Cron expression", value: rule?.cron ?? "", hint: "30 2 * * *" },
    {
      name: "every",
      label: "Or an interval",
      value: rule?.everyMs ? shortDuration(rule.everyMs) : "",
      hint: "90s, 5m, 2h",
    },
    { name: "timeZone", label: "Time zone of the cron expression", value: rule?.timeZone ?? "UTC" },
    {
      name: "orderingId",
      label: "Ordering id of the tasks",
      value: rule?.orderingId ?? "",
      hint: "the schedule's name",
    },
    { name: "kind", label: "Kind of the tasks", value: rule?.kind ?? "", hint: "none" },
    {
      name: "priority",
      label: "Priority of the tasks",
      type: "number",
      value: rule?.priority ?? "",
      hint: "that of their kind",
    },
    {
      name: "expiresAfter",
      label: "Expiry of the tasks, after their time",
      value: rule?.expiresAfterMs ? shortDuration(rule.expiresAfterMs) : "",
      hint: "that of their kind",
    },
    {
      name: "data",
      label: "Data of the tasks (a JSON object)",
      type: "area",
      value: isHidden ? "" : indented(rule?.data ?? {}),
      hint: isHidden ? "hidden by admin.show_data; leave empty to keep it" : null,
    },
    {
      name: "overlap",
      label: "If the run before is still going",
      type: "choice",
      value: rule?.overlap ?? "skip",
      options: [
        ["skip", "Skip the new run"],
        ["buffer_one", "Run it afterwards, one at most"],
        ["allow", "Run both"],
      ],
    },
    {
      name: "catchUp",
      label: "Make up for missed runs, if no older than",
      value: own(rule?.catchUpMs, "1h"),
      required: true,
    },
    {
      name: "jitter",
      label: "Delay each run by up to",
      value: own(rule?.jitterMs, "0s"),
      required: true,
    },
    { name: "starts", label: `Not before, ${zoneName()}`, type: "moment", value: rule?.starts ?? "" },
    { name: "ends", label: `Ends at, ${zoneName()}`, type: "moment", value: rule?.ends ?? "" },
    {
      name: "exceptDates",
      label: "Not on these dates of the time zone",
      value: (rule?.exceptDates ?? []).join(", "),
      hint: "2026-12-25, 2027-01-01",
    },
    {
      name: "countMax",
      label: "Ends after so many runs",
      type: "number",
      value: rule?.countMax ?? "",
      hint: "optional",
    },
  ];
}

function parsed(name, text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Unreadable(`${name} is not valid JSON: ${error.message}`);
  }
  return new JsonText(text);
}

function readDuration(name, text) {
  const ms = durationMs(text);
  if (ms === null) throw new Unreadable(`${name}: write a number with a unit, as 90s, 5m, 2h or 1d`);
  return ms;
}
