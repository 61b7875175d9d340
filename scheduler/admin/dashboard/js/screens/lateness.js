/** Lateness: when were tasks late, and by how much; the whole cluster, or one partition. */

import { makeChart } from "../chart.js";
import { fill, h, say } from "../dom.js";
import { count, counted, duration, moment, shortCount } from "../format.js";
import { makeGrid } from "../grid.js";
import { follow } from "../history.js";
import { card } from "../parts.js";
import { note } from "../router.js";
import { whoami } from "../session.js";
import { faded } from "../theme.js";

const COLUMNS = 120;
const WARN_MS = 1_000;
const BAD_MS = 10_000;
const CHIPS_MAX = 128;

export const screen = { path: "lateness", title: "Lateness", mark: "heat", key: "l", open };

function open(parameters) {
  let partition = parameters.get("partition") === null ? null : Number(parameters.get("partition"));
  let hour = null;
  let columns = [];
  let stop = () => {};

  const grid = makeGrid({
    label: "Attempts of the last hour: time by lateness",
    labelWidth: 84,
    rowHeight: 17,
    rowName: (row) => boundName(rowBucket(row)),
    columnName: (column) =>
      columns[column] && moment(columns[column].time, { seconds: false, date: false, zone: false }),
    tell: cellWords,
    paint: (context, row, column, { x, y, width, height }) => {
      const bucket = rowBucket(row);
      const number = columns[column]?.counts[bucket] ?? null;
      context.fillStyle = !columns[column]
        ? faded("line", 0.35)
        : number
          ? faded(toneOf(bucket), shade(number))
          : faded("line", 0.5);
      context.fillRect(x, y, width, height);
    },
    overlay: (context, { box, height }) => {
      for (const mark of hour?.marks ?? []) {
        const column = columns.findIndex(
          (each) =>
            each &&
            Date.parse(each.time) >= mark.from &&
            Date.parse(each.time) - each.ms <= mark.from,
        );
        if (column < 0) continue;
        context.strokeStyle = faded("flag", 1);
        context.lineWidth = 1.5;
        context.setLineDash([4, 3]);
        context.beginPath();
        context.moveTo(box(0, column).x, 0);
        context.lineTo(box(0, column).x, height);
        context.stroke();
        context.setLineDash([]);
      }
    },
  });
  const quantiles = makeChart({
    label: "Quantiles of lateness in the last hour",
    log: true,
    series: [
      { name: "p50", colour: "calm" },
      { name: "p99", colour: "accent" },
      { name: "p99.9", colour: "plum" },
    ],
    format: duration,
  });
  const sum = h("span");
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Partition" });
  const key = h(
    "div",
    { class: "legend" },
    swatch("good", "on time"),
    swatch("flag", `over ${duration(WARN_MS)}`),
    swatch("bad", `over ${duration(BAD_MS)}`),
    h("span", {}, "a stronger colour means more attempts"),
    h("span", {}, h("i", { class: "swatch mark" }), "owners changed"),
  );
  const element = h(
    "div",
    { class: "screen" },
    card(
      "Time by lateness",
      { aside: sum },
      chips,
      h("div", { class: "grid-pad" }, grid.element),
      key,
    ),
    card(
      "Quantiles",
      { aside: "each figure is an upper bound of what was measured" },
      quantiles.element,
    ),
  );
  showChips();
  begin();

  function begin() {
    stop();
    stop = follow(partition, (value) => {
      hour = value;
      show();
    });
  }

  function choose(chosen) {
    partition = chosen;
    note("lateness", { partition });
    showChips();
    begin();
  }

  function showChips() {
    const chip = (value, word) =>
      h(
        "button",
        {
          class: "chip",
          type: "button",
          "aria-pressed": String(value === partition),
          on: { click: () => choose(value) },
        },
        word,
      );
    fill(
      chips,
      chip(null, "All partitions"),
      Array.from({ length: Math.min(CHIPS_MAX, whoami.partitionCount) }, (_, number) =>
        chip(number, String(number)),
      ),
    );
  }

  function show() {
    const { points, everyMs, latenessBoundsMs: bounds } = hour;
    const perColumn = Math.max(1, Math.ceil(points.length / COLUMNS));
    const made = [];
    for (let start = 0; start < points.length; start += perColumn) {
      const some = points.slice(start, start + perColumn);
      made.push({
        time: some.at(-1).time,
        ms: everyMs * some.length,
        counts: some[0].lateness.map((_, bucket) =>
          some.reduce((all, each) => all + each.lateness[bucket], 0),
        ),
      });
    }
    // What was not seen yet stays empty on the left, so that a column keeps its width.
    const left = Math.max(0, Math.min(COLUMNS, 60) - made.length);
    columns = [...Array(left).fill(null), ...made];
    grid.update(bounds.length + 1, columns.length);
    const times = points.map((each) => Date.parse(each.time) / 1e3);
    quantiles.update(
      [times, ...["p50", "p99", "p999"].map((name) => points.map((each) => each.latenessMs[name]))],
      hour.marks,
    );
    const all = points.reduce((number, each) => number + each.started, 0);
    say(
      sum,
      points.length
        ? `${counted(all, "attempt")} in the last ${duration(points.length * everyMs)}`
        : "collecting data",
    );
  }

  function rowBucket(row) {
    return hour.latenessBoundsMs.length - row;
  }

  function boundName(bucket) {
    const bounds = hour.latenessBoundsMs;
    return bucket < bounds.length
      ? `≤ ${duration(bounds[bucket])}`
      : `> ${duration(bounds.at(-1))}`;
  }

  function toneOf(bucket) {
    const bound = hour.latenessBoundsMs[bucket] ?? Infinity;
    return bound > BAD_MS ? "bad" : bound > WARN_MS ? "flag" : "good";
  }

  function shade(number) {
    const most = Math.max(2, ...columns.flatMap((each) => each?.counts ?? []));
    return 0.18 + 0.82 * (Math.log1p(number) / Math.log1p(most));
  }

  function cellWords(row, column) {
    const found = columns[column];
    if (!found) return null;
    const number = found.counts[rowBucket(row)];
    const all = found.counts.reduce((a, b) => a + b, 0);
    return `${moment(found.time)}\n${boundName(rowBucket(row))} late: ${count(number)} of ${shortCount(all)}`;
  }

  return {
    element,
    close() {
      stop();
      grid.close();
      quantiles.close();
    },
  };
}

function swatch(tone, words) {
  return h("span", {}, h("i", { class: "swatch", vars: { "--swatch": `var(--${tone})` } }), words);
}
