/** Ahead: what the next minutes, hours and days will bring, and where it all comes at once. */

import { ask } from "../api.js";
import { makeChart } from "../chart.js";
import { fill, h, say } from "../dom.js";
import { count, counted, moment, shortCount, when, zoneName } from "../format.js";
import { card, partitionChoice, refusal, segments } from "../parts.js";
import { go, note } from "../router.js";
import { whoami } from "../session.js";
import { makeTable } from "../table.js";

const UNITS = {
  minute: { word: "Minutes", bars: 90, widthMs: 60_000 },
  hour: { word: "Hours", bars: 72, widthMs: 3_600_000 },
  day: { word: "Days", bars: 30, widthMs: 86_400_000 },
};
const EVERY_MS = 10_000;
const HERD_TIMES = 3;
const HERD_TASKS_MIN = 20;
const HERD_DEVIATIONS = 5;
const LISTED = 8;

export const screen = { path: "ahead", title: "Ahead", mark: "ahead", key: "a", open };

function open(parameters) {
  let unit = parameters.get("unit") in UNITS ? parameters.get("unit") : "minute";
  let partition = parameters.get("partition");
  let timer = null;
  let isClosed = false;

  const chart = makeChart({
    label: "Tasks due ahead",
    height: 300,
    whole: true,
    series: [
      { name: "due", colour: "accent", bars: true },
      { name: "stands out", colour: "flag", bars: true },
    ],
    format: shortCount,
    open: (at) => openBar(at),
  });
  const seconds = makeChart({
    label: "Open tasks of three days by second of their minute",
    height: 150,
    whole: true,
    series: [{ name: "due", colour: "calm", bars: true }],
    format: shortCount,
    plain: (value) => `:${String(value).padStart(2, "0")}`,
  });
  const secondsCard = card(
    "Within the minute",
    { aside: "open tasks of the next three days, by second" },
    seconds.element,
  );
  const total = h("span");
  const words = h("p", { class: "soft" });
  const problem = h("div", { hidden: true });
  const busiest = makeTable({
    label: "Busiest",
    keyOf: (row) => row.time,
    open: (row) => openBar(Date.parse(row.time)),
    empty: {
      icon: "ahead",
      title: "Nothing is due",
      text: "No open task in this time range. Schedule one: hourhand schedule --ordering-id ID --in 1h",
    },
    columns: [
      {
        name: `When, ${zoneName()}`,
        cell: (row) =>
          h(
            "span",
            {},
            moment(row.time, { seconds: false, zone: false }),
            " ",
            h("span", { class: "faint" }, when(row.time)),
          ),
      },
      { name: "Due", class: "right tight", cell: (row) => count(row.due) },
      {
        name: "Compared with the median",
        class: "right tight",
        cell: (row) => (row.times ? `${shortCount(row.times)}×` : "–"),
      },
    ],
  });
  const element = h(
    "div",
    { class: "screen" },
    h(
      "div",
      { class: "between" },
      segments(
        "Unit",
        Object.entries(UNITS).map(([value, { word }]) => [value, word]),
        unit,
        choose,
      ),
      partitionChoice(whoami.partitionCount, partition, choosePartition),
    ),
    problem,
    card("Due ahead", { aside: total }, words, chart.element),
    h(
      "div",
      { class: "columns" },
      card("Busiest", { inside: false }, busiest.element),
      secondsCard,
    ),
  );
  look();

  function choose(chosen) {
    unit = chosen;
    note("ahead", { unit, partition });
    look();
  }

  function choosePartition(chosen) {
    partition = chosen;
    note("ahead", { unit, partition });
    look();
  }

  function openBar(atMs) {
    const { widthMs } = UNITS[unit];
    const from = Math.floor(atMs / widthMs) * widthMs;
    go("tasks", {
      from: new Date(from).toISOString(),
      to: new Date(from + widthMs).toISOString(),
      partition,
      state: ["pending", "retrying", "snoozed"],
    });
  }

  async function look() {
    clearTimeout(timer);
    try {
      const found = await ask("ahead", { unit, bars: UNITS[unit].bars, partition });
      if (isClosed || found.unit !== unit) return;
      problem.hidden = true;
      show(found);
    } catch (error) {
      if (!isClosed) fill(problem, refusal(error)).hidden = false;
    }
    if (!isClosed) timer = setTimeout(look, EVERY_MS);
  }

  function show({ bars, total: sum, secondsOfMinute }) {
    const ordered = bars.map((each) => each.due).sort((a, b) => a - b);
    const median = ordered[Math.floor(ordered.length / 2)];
    // Few tasks lie unevenly by chance: only what chance would hardly do stands out.
    const herdMin = Math.max(
      HERD_TASKS_MIN,
      HERD_TIMES * median,
      median + HERD_DEVIATIONS * Math.sqrt(median),
    );
    const isHerd = (due) => due >= herdMin;
    const times = bars.map((each) => Date.parse(each.time) / 1e3);
    chart.update([
      times,
      bars.map((each) => (isHerd(each.due) ? null : each.due)),
      bars.map((each) => (isHerd(each.due) ? each.due : null)),
    ]);
    say(total, `${counted(sum, "task")} in the next ${counted(bars.length, unit)}`);
    const herds = bars.filter((each) => isHerd(each.due));
    say(
      words,
      herds.length
        ? `${counted(herds.length, `${unit} stands`, `${unit}s stand`)} out: the next is ${moment(herds[0].time, { seconds: false })} with ${counted(herds[0].due, "task")}; the median is ${count(median)}.`
        : sum
          ? `The load is even: no ${unit} stands out.`
          : "",
    );
    busiest.update(
      [...bars]
        .filter((each) => each.due > 0)
        .sort((a, b) => b.due - a.due)
        .slice(0, LISTED)
        .map((each) => ({ ...each, times: median ? each.due / median : null })),
    );
    secondsCard.hidden = !secondsOfMinute;
    if (secondsOfMinute)
      seconds.update([secondsOfMinute.map((_, second) => second), secondsOfMinute]);
  }

  return {
    element,
    refresh: look,
    close() {
      isClosed = true;
      clearTimeout(timer);
      chart.close();
      seconds.close();
    },
  };
}
