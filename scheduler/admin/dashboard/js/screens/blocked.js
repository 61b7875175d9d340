/** Blocked keys: whose, since when, why, how much waits behind; and what may be done about it. */

import { actOnTasks, pauseOrResume, unblock, unblockError, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { fill, h, say } from "../dom.js";
import { makeErrorChips } from "../errors.js";
import { count, counted, unknown, when } from "../format.js";
import { on } from "../live.js";
import { button, segments } from "../parts.js";
import { go, note } from "../router.js";
import { makeTable } from "../table.js";

const ASKED_MAX = 40;
/** The API takes no more at a time. */
const ACTED_MAX = 1_000;
const AT_ONCE = 4;
const AGAIN_MS = 15_000;

export const screen = { path: "blocked", title: "Blocked keys", mark: "lock", key: "b", open };

function open(parameters) {
  let kind = parameters.get("kind") === "failing" ? "failing" : "blocked";
  /** The class of error that is looked at; null for all. */
  let error = parameters.get("error");
  let rows = [];
  let picture = null;
  let isClosed = false;
  /** Key of a task to what the store says: `{waiting, more, last, at}`, the last attempt among it. */
  const behind = new Map();

  const room = h("div");
  const foot = h("span");
  const bulk = h("div", { class: "bulk", hidden: true });
  const gaps = h("p", { class: "filters soft", hidden: true });
  const everyone = h("div", { class: "row" });
  const errors = makeErrorChips(chooseError);
  const choice = segments(
    "Which",
    [
      ["blocked", "Blocked"],
      ["failing", "Failing"],
    ],
    kind,
    (chosen) => {
      kind = chosen;
      error = null;
      noteChoice();
      build();
    },
  );
  const element = h(
    "div",
    { class: "screen" },
    h(
      "section",
      { class: "card", "aria-label": "Blocked keys" },
      h("header", {}, choice, h("div", { class: "aside" }, everyone)),
      gaps,
      errors.element,
      room,
      bulk,
      h("div", { class: "table-foot" }, foot),
    ),
  );
  let table = null;
  let stop = () => {};

  function noteChoice() {
    note("blocked", { kind: kind === "failing" ? kind : null, error });
  }

  function build() {
    stop();
    rows = [];
    bulk.hidden = true;
    table = makeTable({
      label: kind === "blocked" ? "Blocked ordering ids" : "Failing tasks",
      keyOf: (row) => row.key,
      open: (row) => go("task", { key: row.key }),
      chosen: showBulk,
      empty:
        kind === "blocked"
          ? {
              title: "No ordering id is blocked",
              text: "A task blocks its ordering id when it has no attempts left and its retry policy says 'block'.",
            }
          : {
              title: "No tasks are failing",
              text: "Tasks whose last attempt failed and that will be tried again appear here.",
            },
      columns: columns(),
    });
    fill(room, table.element);
    stop = on(kind, show);
  }

  function columns() {
    return [
      {
        name: "Ordering id",
        class: "key",
        cell: (row) => h("span", { title: row.orderingId }, row.orderingId),
      },
      { name: "Kind", class: "kind", cell: (row) => row.kind ?? "" },
      { name: "Since", class: "tight", cell: (row) => when(row.since) },
      { name: "Why", class: "words", cell: whyCell },
      {
        name: "Behind",
        shown: "behind",
        class: "right tight",
        title: "Due tasks of the same ordering id that wait behind it",
        cell: waitingCell,
      },
      {
        name: "Attempts",
        shown: "attempts",
        class: "right tight",
        cell: (row) => String(Math.max(row.attempts, behind.get(row.key)?.last?.attempt ?? 0)),
      },
      {
        name: "Partition",
        shown: "partition",
        class: "right tight",
        cell: (row) => String(row.partition),
      },
      { name: "", class: "tight", cell: actionCell },
    ];
  }

  function actionCell(row) {
    const why = whyNot();
    const retry = () =>
      done(
        kind === "blocked"
          ? unblock("retry", [row.orderingId], behind.get(row.key)?.waiting ?? null)
          : actOnTasks("retry", { keys: [row.key] }),
      );
    const drop = () =>
      done(
        kind === "blocked"
          ? unblock("drop", [row.orderingId], behind.get(row.key)?.waiting ?? null)
          : actOnTasks("drop", { keys: [row.key] }),
      );
    return h(
      "div",
      { class: "row" },
      button("Retry", { kind: "small", act: retry, disabled: why !== null, title: why }),
      button("Drop", { kind: "small danger", act: drop, disabled: why !== null, title: why }),
    );
  }

  function whyCell(row) {
    const last = behind.get(row.key)?.last;
    if (last?.errorClass)
      return h(
        "span",
        {},
        h("strong", {}, last.errorClass),
        last.errorMessage && `: ${last.errorMessage}`,
      );
    return row.error || h("span", { class: "faint" }, "no error recorded");
  }

  function waitingCell(row) {
    const found = behind.get(row.key);
    if (!found) return h("span", { class: "faint" }, "…");
    return found.waiting === null ? unknown() : `${count(found.waiting)}${found.more ? "+" : ""}`;
  }

  function show(value) {
    picture = value;
    errors.update(value[kind].map(errorOf), error);
    rows = error === null ? value[kind] : value[kind].filter((each) => errorOf(each) === error);
    table.update(rows);
    table.element.classList.toggle("kindless", !rows.some((each) => each.kind));
    const listed =
      error !== null
        ? `${counted(rows.length, "task")} with ${error}`
        : rows.length < value.count
          ? `oldest ${count(rows.length)} of ${count(value.count)}`
          : counted(value.count, kind === "blocked" ? "blocked ordering id" : "failing task");
    say(foot, listed);
    gaps.hidden = value.unknownPartitions.length === 0;
    say(
      gaps,
      `No node reports on ${counted(value.unknownPartitions.length, "partition")} (${value.unknownPartitions.slice(0, 12).join(", ")}${value.unknownPartitions.length > 12 ? ", …" : ""}): what is ${kind} there is unknown.`,
    );
    const ids = rows.slice(0, ACTED_MAX).map((each) => each.orderingId);
    const said = `${kind} ${ids.length} ${error}`;
    if (everyone.dataset.said !== said) {
      everyone.dataset.said = said;
      fill(everyone, kind === "blocked" && (error !== null || ids.length > 1) && all(ids));
    }
    lookBehind();
  }

  /** Acts on all that are listed; on all of one error, also those that no list has room for. */
  function all(ids) {
    const part = ids.length < rows.length ? "the first" : "all";
    const name = error === null ? `${part} ${count(ids.length)}` : "all with this error";
    const listed = () => rows.slice(0, ACTED_MAX).map((each) => each.orderingId);
    const one = (how, word, mark, kinds) =>
      button(`${word} ${name}`, {
        kind: kinds,
        mark,
        disabled: whyNot() !== null,
        title: whyNot(),
        act: () => done(error === null ? unblock(how, listed()) : unblockError(how, error)),
      });
    return [one("retry", "Retry", "retry", "small"), one("drop", "Drop", "drop", "small danger")];
  }

  /** An owner that took over a partition does not know why; the store does. */
  function errorOf(row) {
    return row.error || behind.get(row.key)?.last?.errorClass || "";
  }

  function chooseError(chosen) {
    error = chosen;
    noteChoice();
    table.clear();
    if (picture) show(picture);
  }

  /** Ask for those that are seen first, a few at a time, and again only after a while. */
  let isLooking = false;
  async function lookBehind() {
    if (isLooking) return;
    isLooking = true;
    const due = rows
      .slice(0, ASKED_MAX)
      .filter((each) => performance.now() - (behind.get(each.key)?.at ?? -Infinity) > AGAIN_MS);
    while (due.length && !isClosed) {
      const some = due.splice(0, AT_ONCE);
      await Promise.all(
        some.map(async ({ key }) => {
          try {
            const [waits, { attempts }] = await Promise.all([
              ask("waiting", { key }),
              ask("attempts", { key, limit: 1 }),
            ]);
            behind.set(key, { ...waits, last: attempts[0] ?? null, at: performance.now() });
          } catch {
            behind.set(key, { waiting: null, more: false, last: null, at: performance.now() });
          }
        }),
      );
      if (!isClosed && picture) show(picture);
    }
    isLooking = false;
  }

  function showBulk(keys) {
    bulk.hidden = keys.size === 0;
    const chosen = rows.filter((each) => keys.has(each.key));
    const ids = [...new Set(chosen.map((each) => each.orderingId))];
    const waits = chosen.reduce((sum, each) => sum + (behind.get(each.key)?.waiting ?? 0), 0);
    const why = whyNot();
    const one = (word, act, danger = "") =>
      button(word, {
        kind: `small ${danger}`,
        act: () => done(act()),
        disabled: why !== null,
        title: why,
      });
    fill(
      bulk,
      h(
        "strong",
        {},
        `${count(chosen.length)} selected${waits ? `, ${counted(waits, "task")} behind` : ""}`,
      ),
      one("Retry", () =>
        kind === "blocked"
          ? unblock("retry", ids, waits)
          : actOnTasks("retry", { keys: [...keys] }),
      ),
      one(
        "Drop",
        () =>
          kind === "blocked"
            ? unblock("drop", ids, waits)
            : actOnTasks("drop", { keys: [...keys] }),
        "danger",
      ),
      one("Pause", () =>
        pauseOrResume(
          true,
          ids.map((orderingId) => ({ scope: "ordering", orderingId })),
        ),
      ),
      button("Clear", { kind: "plain small", act: () => table.clear() }),
    );
  }

  async function done(act) {
    if (await act) {
      behind.clear();
      table.clear();
      if (picture) show(picture);
    }
  }

  build();
  return {
    element,
    close() {
      isClosed = true;
      stop();
    },
  };
}
