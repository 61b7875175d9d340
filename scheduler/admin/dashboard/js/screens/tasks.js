/**
 * Tasks: what is active first; found by key, ordering id, state, error, partition and time; page by
 * page, never all at once.
 */

import { actOnTasks, fittingAll, whyNot } from "../acts.js";
import { toast } from "../dialog.js";
import { fill, h, say } from "../dom.js";
import { count, counted, nowMs } from "../format.js";
import { EVER, isActiveState, loadActive, loadRange, ranked, taskColumns } from "../listing.js";
import { on } from "../live.js";
import { scheduleTask } from "../making.js";
import { button, partitionChoice, refusal, STATES, stateWord, timeInput } from "../parts.js";
import { go, note } from "../router.js";
import { whoami } from "../session.js";
import { makeTable } from "../table.js";

const HOUR_MS = 3_600_000;
/** States of which the status tells how many there are. */
const COUNTED = {
  running: (status) => status.inFlight,
  retrying: (status) => status.failing,
  blocked: (status) => status.blocked,
};
const KEY = /^\s*(TaskKey\(|\d{4}-\d\d-\d\dT[^,]*,)/;
const WINDOWS = [
  ["active", "Active", null, 24 * HOUR_MS],
  ["past", "Last 24 h", -24 * HOUR_MS, 60_000],
  ["hour", "±1 hour", -HOUR_MS, HOUR_MS],
  ["next", "Next 24 h", 0, 24 * HOUR_MS],
  ["week", "±7 days", -168 * HOUR_MS, 168 * HOUR_MS],
];

export const screen = { path: "tasks", title: "Tasks", mark: "list", key: "t", open };

function open(parameters) {
  const wanted = {
    find: parameters.get("find") ?? "",
    states: new Set(parameters.getAll("state")),
    partition: parameters.get("partition"),
    span: parameters.get("span") ?? (parameters.get("from") ? "own" : "active"),
    error: parameters.get("error") ?? "",
    kind: parameters.get("kind") ?? "",
    system: parameters.get("system") !== null,
    from: parameters.get("from"),
    to: parameters.get("to"),
  };
  let asked = null;
  let isActive = false;
  let rows = [];
  let following = null;

  const table = makeTable({
    label: "Tasks",
    keyOf: (row) => row.key,
    open: (row) => go("task", { key: row.key }),
    chosen: showBulk,
    empty: {
      icon: "search",
      title: "No matching tasks",
      text: "Try another time range or fewer states, or schedule one: hourhand schedule --ordering-id ID --in 10s",
    },
    columns: taskColumns(),
  });
  table.element.classList.add("task-table");
  const problem = h("div", { hidden: true });
  const foot = h("span");
  const more = button("Show more", { act: () => look(following) });
  const bulk = h("div", { class: "bulk", hidden: true });
  const find = h("input", {
    class: "field",
    type: "search",
    id: "find",
    value: wanted.find,
    placeholder: "Ordering id or task key",
    autocomplete: "off",
    spellcheck: "false",
  });
  const error = shortInput(wanted.error, "TimeoutError", search);
  const kind = shortInput(wanted.kind, "send-mail", search);
  const system = h("input", {
    type: "checkbox",
    checked: wanted.system,
    on: { change: search },
  });
  const from = timeInput("From", wanted.from);
  const to = timeInput("To", wanted.to);
  const span = h(
    "select",
    {
      class: "field",
      "aria-label": "Time range",
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
  const partition = partitionChoice(whoami.partitionCount, wanted.partition, search);
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
            if (!isActiveState(state) && span.value === "active") {
              span.value = wanted.span = "past";
              showOwn();
            }
            event.currentTarget.setAttribute("aria-pressed", String(wanted.states.has(state)));
            search();
          },
        },
      },
      stateWord(state),
      COUNTED[state] && h("b", { data: { state } }),
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
        h("label", { class: "labelled" }, "Kind", kind),
        h("label", { class: "labelled" }, "Error", error),
        h("label", { class: "labelled" }, "Time", span),
        from.label,
        to.label,
        h("label", { class: "labelled" }, "Partition", partition),
        h("button", { class: "button main" }, "Search"),
        button("Schedule a task", {
          disabled: whyNot() !== null,
          title: whyNot(),
          act: async () => (await scheduleTask()) && search(),
        }),
      ),
      h(
        "div",
        { class: "filters between" },
        h("div", { class: "chips", role: "group", "aria-label": "States" }, chips),
        h("label", { class: "row soft" }, system, "Show internal tasks"),
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
    const [, , before, after] = WINDOWS.find(([name]) => name === wanted.span) ?? [];
    const isOwn = wanted.span === "own";
    isActive = wanted.span === "active";
    asked = {
      from: isOwn
        ? from.input.value.trim()
        : isActive
          ? EVER
          : new Date(nowMs() + before).toISOString(),
      to: isOwn ? to.input.value.trim() : new Date(nowMs() + after).toISOString(),
      state: [...wanted.states],
      orderingId: text || null,
      errorClass: error.value.trim() || null,
      kind: kind.value.trim() || null,
      partition: partition.value || null,
      system: system.checked || null,
    };
    note("tasks", {
      find: text,
      span: isOwn || isActive ? null : wanted.span,
      state: asked.state,
      error: asked.errorClass,
      kind: asked.kind,
      system: system.checked ? "yes" : null,
      partition: partition.value,
      ...(isOwn ? { from: asked.from, to: asked.to } : {}),
    });
    rows = [];
    look(null);
  }

  async function look(after) {
    const mine = asked;
    more.disabled = true;
    say(foot, "Loading …");
    try {
      const page = await (isActive ? loadActive : loadRange)(mine, after);
      if (mine !== asked) return;
      rows = isActive ? ranked([...rows, ...page.tasks]) : [...rows, ...page.tasks];
      following = page.nextAfter;
      problem.hidden = true;
      table.update(rows);
      table.element.classList.toggle("kindless", !rows.some((each) => each.kind));
      more.hidden = following === null;
      const some = rows.length
        ? `first ${counted(rows.length, "task")}`
        : "None found yet; there may be more";
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
    const common = fittingAll(states);
    const filter = {
      from: asked.from,
      to: asked.to,
      states,
      orderingId: asked.orderingId,
      errorClass: asked.errorClass,
      kind: asked.kind,
      partition: asked.partition === null ? null : Number(asked.partition),
      system: system.checked,
    };
    const canFilter = common.length > 0 && rows.length > 0;
    fill(
      allMatching,
      canFilter && h("span", { class: "faint" }, "All that match:"),
      canFilter && common.map(([name, word]) => actButton(name, word, { filter })),
    );
  }

  function showBulk(keys) {
    bulk.hidden = keys.size === 0;
    const chosen = rows.filter((each) => keys.has(each.key));
    const common = fittingAll(chosen.map((each) => each.state));
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

  const stop = on("status", (status) => {
    for (const each of element.querySelectorAll(".chip b")) {
      const number = COUNTED[each.dataset.state](status);
      say(each, number ? count(number) : "");
    }
  });
  return { element, focus: () => find.focus(), refresh: search, close: stop };
}

function shortInput(value, placeholder, change) {
  return h("input", {
    class: "field short",
    type: "search",
    value,
    placeholder,
    autocomplete: "off",
    spellcheck: "false",
    on: { change },
  });
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}

function local(ms) {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
