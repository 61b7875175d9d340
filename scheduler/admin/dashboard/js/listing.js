/**
 * Lists of tasks: the columns they are shown in, and the pages they come in.
 *
 * What is active stands first: what runs, then what failed, what is blocked, and what waits.
 */

import { ask } from "./api.js";
import { h } from "./dom.js";
import { away, moment, nowMs, shareOf, since, when, zoneName } from "./format.js";
import { pill } from "./parts.js";

const PAGE = 50;
/** What is active comes in larger pages, so that few of them hold what needs somebody. */
const ACTIVE_PAGE = 100;
/** A stretch of time that begins about now is one of what is to come. */
const FROM_NOW_MS = 2_000;
/** Before every task. */
export const EVER = "0001-01-01T00:00:00Z";
const RANKS = {
  running: 0,
  cancelling: 1,
  retrying: 2,
  blocked: 3,
  limited: 4,
  snoozed: 5,
  pending: 6,
};
/** States in which user code runs: nodes name these tasks at once. */
const EXECUTED = ["running", "cancelling"];

/** Whether a task in some state is not finished. */
export function isActiveState(state) {
  return state in RANKS;
}

/** Load tasks of a stretch of time: what is to come the soonest first, else the newest first. */
export function loadRange(asked, after) {
  const order = Date.parse(asked.from) >= nowMs() - FROM_NOW_MS ? "key" : "newest";
  return ask("tasks", { ...asked, limit: PAGE, order, after });
}

/** Load open tasks; the first page has all that runs, wherever the rest begins. */
export async function loadActive({ from, ...asked }, after) {
  const executed = asked.state.length ? asked.state : EXECUTED;
  const running = () => ask("tasks", { ...asked, from, state: executed, limit: ACTIVE_PAGE });
  if (executed.every((each) => EXECUTED.includes(each)) && asked.state.length) return running();
  const [open, { tasks }] = await Promise.all([
    ask("tasks/open", { ...asked, limit: ACTIVE_PAGE, after }),
    after === null && !asked.state.length ? running() : { tasks: [] },
  ]);
  return { ...open, tasks: [...tasks, ...open.tasks] };
}

/** Return each of these tasks once, what runs first. */
export function ranked(tasks) {
  const once = [...new Map(tasks.map((each) => [each.key, each])).values()];
  return once.sort((a, b) => RANKS[a.state] - RANKS[b.state]);
}

/** The columns of a table of tasks; it may do without a kind where none has one. */
export function taskColumns() {
  return [
    { name: "State", class: "tight", cell: stateCell },
    {
      name: "Ordering id",
      class: "key",
      cell: (row) => h("span", { title: row.orderingId }, row.orderingId),
    },
    {
      name: "Kind",
      class: "kind",
      cell: (row) => row.kind && h("span", { title: row.kind }, row.kind),
    },
    {
      name: "Uniqueness key",
      class: "key unique",
      cell: (row) =>
        h("span", { class: "soft mono", title: row.uniquenessKey }, row.uniquenessKey),
    },
    {
      name: `Scheduled, ${zoneName()}`,
      class: "tight due",
      cell: scheduledCell,
    },
    { name: "Error", class: "words brief", cell: errorCell },
    {
      name: "Attempts",
      shown: "attempts",
      class: "right tight",
      cell: (row) => String(row.attemptCount),
    },
    {
      name: "Partition",
      shown: "partition",
      class: "right tight",
      cell: (row) => String(row.partition),
    },
  ];
}

/** What runs says for how long, and where. */
function stateCell({ state, running }) {
  if (!running) return pill(state);
  const ran = running.started && since(running.started);
  const title = `attempt ${running.attempt} on ${running.node}`;
  const { done, total } = running.checkpoint ?? {};
  const share = total === undefined ? null : Math.floor(100 * shareOf(done, total));
  return h(
    "span",
    { class: "row", title },
    pill(state),
    running.stuck && pill("stuck", "stuck", "warn"),
    ran && h("span", { class: "faint" }, share === null ? ran : `${ran}, ${share} %`),
  );
}

/** Of today how long ago, too; a date says that well enough. */
function scheduledCell({ scheduledTime }) {
  const said = when(scheduledTime, { exact: true, zone: false });
  const isOfToday = moment(scheduledTime, { zone: false }).length <= "23:59:59".length;
  const distance = isOfToday && h("span", { class: "faint" }, away(scheduledTime));
  return h("span", {}, said, " ", distance);
}

function errorCell({ lastError }) {
  if (!lastError) return "";
  const { errorClass, errorMessage } = lastError;
  const words = errorMessage && `: ${errorMessage}`;
  return h("span", { title: `${errorClass}${words}` }, h("strong", {}, errorClass), words);
}
