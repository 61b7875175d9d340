/** Tasks: found by key, ordering id, state, partition and time; page by page, never all at once. */

import { actOnTasks, fitting, whyNot } from "../acts.js";
import { ask } from "../api.js";
import { toast } from "../dialog.js";
import { fill, h, say } from "../dom.js";
import { count, counted, moment, nowMs, when } from "../format.js";
import { button, pill, refusal, STATES, stateWord } from "../parts.js";
import { go, note } from "../router.js";
import { whoami } from "../session.js";
import { makeTable } from "../table.js";

const HOUR_MS = 3_600_000;
const PAGE = 50;
const KEY = /^\s*(TaskKey\(|\d{4}-\d\d-\d\dT[^,]*,)/;
const WINDOWS = [
  ["hour", "±1 hour", -HOUR_MS, HOUR_MS],
  ["past", "Last 24 h", -24 * HOUR_MS, 60_000],
  ["next", "Next 24 h", 0, 24 * HOUR_MS],
  ["week", "±7 days", -168 * HOUR_MS, 168 * HOUR_MS],
];

export const screen = { path: "tasks", title: "Tasks", mark: "list", key: "t", open };

function open(parameters) {
  const wanted = {
    find: parameters.get("find") ?? "",
    states: new Set(parameters.getAll("state")),
    partition: parameters.get("partition"),
    span: parameters.get("span") ?? (parameters.get("from") ? "own" : "hour"),
    from: parameters.get("from"),
    to: parameters.get("to"),
  };
  let asked = null;
  let rows = [];
  let following = null;

  const table = makeTable({
    label: "Tasks",
    keyOf: (row) => row.key,
    open: (row) => go("task", { key: row.key }),
    chosen: showBulk,
    empty: {
      icon: "search",
      title: "No task matches",
      text: "Try another stretch of time, or fewer states.",
    },
    columns: [
      { name: "State", class: "tight", cell: (row) => pill(row.state) },
      {
        name: "Ordering id",
        class: "key",
        cell: (row) => h("span", { title: row.orderingId }, row.orderingId),
      },
      {
        name: "Uniqueness key",
        class: "key",
        cell: (row) =>
          h("span", { class: "soft mono", title: row.uniquenessKey }, row.uniquenessKey),
      },
      {
        name: "Scheduled",
        class: "tight",
        cell: (row) =>
          h(
            "span",
            {},
            moment(row.scheduledTime),
            " ",
            h("span", { class: "faint" }, when(row.scheduledTime)),
          ),
      },
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
    ],
  });
  const problem = h("div", { hidden: true });
  const foot = h("span");
  const more = button("Show more", { act: () => look(following) });
  const bulk = h("div", { class: "bulk", hidden: true });
  const find = h("input", {
    class: "field",
    type: "search",
    id: "find",
    value: wanted.find,
    placeholder: "Ordering id, or a task key",
    autocomplete: "off",
    spellcheck: "false",
  });
  const from = timeInput("From", wanted.from);
  const to = timeInput("To", wanted.to);
  const span = h(
    "select",
    {
      class: "field",
      "aria-label": "Stretch of time",
      on: {
        change: () => {
          wanted.span = span.value;
          showOwn();
          if (wanted.span !== "own") search();
        },
      },
    },
    [...WINDOWS, ["own", "From … to …"]].map(([value, word]) =>
      h("option", { value, selected: value === wanted.span }, word),
    ),
  );
  const partition = h(
    "select",
    { class: "field", "aria-label": "Partition", on: { change: search } },
    h("option", { value: "" }, "All partitions"),
    Array.from({ length: whoami.partitionCount }, (_, each) =>
      h(
        "option",
        { value: String(each), selected: wanted.partition === String(each) },
        `Partition ${each}`,
      ),
    ),
  );
  const chips = STATES.map((state) =>
    h(
      "button",
      {
        class: "chip",
        type: "button",
        "aria-pressed": String(wanted.states.has(state)),
        on: {
          click: (event) => {
            toggle(wanted.states, state);
            event.currentTarget.setAttribute("aria-pressed", String(wanted.states.has(state)));
            search();
          },
        },
      },
      stateWord(state),
    ),
  );
  const allMatching = h("div", { class: "row" });
  const element = h(
    "div",
    { class: "screen" },
    h(
      "section",
      { class: "card", "aria-label": "Tasks" },
      h(
        "form",
        {
          class: "filters",
          role: "search",
          on: {
            submit: (event) => {
              event.preventDefault();
              search();
            },
          },
        },
        h("label", { class: "labelled grow" }, "Find", find),
        h("label", { class: "labelled" }, "Time", span),
        from.label,
        to.label,
        h("label", { class: "labelled" }, "Partition", partition),
        h("button", { class: "button main" }, "Search"),
      ),
      h(
        "div",
        { class: "filters between" },
        h("div", { class: "chips", role: "group", "aria-label": "States" }, chips),
        allMatching,
      ),
      problem,
      table.element,
      bulk,
      h("div", { class: "table-foot" }, foot, more),
    ),
  );
  showOwn();
  search();

  function showOwn() {
    from.label.hidden = to.label.hidden = wanted.span !== "own";
    if (wanted.span === "own" && !from.input.value) {
      from.input.value = local(nowMs() - HOUR_MS);
      to.input.value = local(nowMs() + HOUR_MS);
    }
  }

  function search() {
    const text = find.value.trim();
    if (KEY.test(text)) {
      go("task", { key: text });
      return;
    }
    const [, , before, after] = WINDOWS.find(([name]) => name === wanted.span) ?? [
      null,
      null,
      0,
      0,
    ];
    const isOwn = wanted.span === "own";
    asked = {
      from: isOwn ? whole(from.input.value) : new Date(nowMs() + before).toISOString(),
      to: isOwn ? whole(to.input.value) : new Date(nowMs() + after).toISOString(),
      state: [...wanted.states],
      orderingId: text || null,
      partition: partition.value || null,
    };
    note("tasks", {
      find: text,
      span: isOwn ? null : wanted.span,
      state: asked.state,
      partition: partition.value,
      ...(isOwn ? { from: asked.from, to: asked.to } : {}),
    });
    rows = [];
    look(null);
  }

  async function look(after) {
    const mine = asked;
    more.disabled = true;
    say(foot, "Looking …");
    try {
      const page = await ask("tasks", { ...mine, limit: PAGE, after });
      if (mine !== asked) return;
      rows = [...rows, ...page.tasks];
      following = page.nextAfter;
      problem.hidden = true;
      table.update(rows);
      more.hidden = following === null;
      const some = rows.length ? `the first ${count(rows.length)}` : "none so far: look further";
      say(foot, following === null ? counted(rows.length, "task") : some);
      showAll();
    } catch (error) {
      if (mine !== asked) return;
      table.update([]);
      fill(problem, refusal(error)).hidden = false;
      more.hidden = true;
      say(foot, "");
    }
    more.disabled = false;
  }

  /** A filter acts on all that match only where states are chosen: never on "whatever there is". */
  function showAll() {
    const states = asked.state;
    const common = states.length
      ? fitting(states[0]).filter(([name]) =>
          states.every((each) => fitting(each).some(([other]) => other === name)),
        )
      : [];
    const filter = { from: asked.from, to: asked.to, states, orderingId: asked.orderingId };
    const canFilter = common.length > 0 && rows.length > 0 && asked.partition === null;
    fill(
      allMatching,
      canFilter && h("span", { class: "faint" }, "All that match:"),
      canFilter && common.map(([name, word]) => actButton(name, word, { filter })),
    );
  }

  function showBulk(keys) {
    bulk.hidden = keys.size === 0;
    const chosen = rows.filter((each) => keys.has(each.key));
    const common = chosen.length
      ? fitting(chosen[0].state).filter(([name]) =>
          chosen.every((each) => fitting(each.state).some(([other]) => other === name)),
        )
      : [];
    fill(
      bulk,
      h("strong", {}, `${counted(keys.size, "task")} selected`),
      common.map(([name, word]) => actButton(name, word, { keys: [...keys] })),
      common.length === 0 && h("span", { class: "faint" }, "they have no action in common"),
      button("Clear", { kind: "plain small", act: table.clear }),
    );
  }

  function actButton(name, word, chosen) {
    const run = async () => {
      if (!(await actOnTasks(name, chosen))) return;
      toast(`${word}: sent`);
      table.clear();
      search();
    };
    return button(word, { kind: "small", act: run, disabled: whyNot() !== null, title: whyNot() });
  }

  return { element, focus: () => find.focus(), refresh: search };
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}

function timeInput(name, value) {
  const input = h("input", {
    class: "field",
    type: "text",
    value: value ?? "",
    placeholder: "2026-02-09T01:41:12Z",
    "aria-label": name,
  });
  return { input, label: h("label", { class: "labelled" }, `${name} (RFC 3339)`, input) };
}

function local(ms) {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

function whole(text) {
  return text.trim();
}
