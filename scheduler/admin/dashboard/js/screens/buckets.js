/** Bucket map: each partition's hours, filled by what became of their tasks; a click opens them. */

import { ask } from "../api.js";
import { fill, h, say } from "../dom.js";
import { count, counted, moment, nowMs, shortCount, UNKNOWN, zone } from "../format.js";
import { makeGrid } from "../grid.js";
import { latest } from "../live.js";
import { card, refusal, segments } from "../parts.js";
import { go, note } from "../router.js";
import { whoami } from "../session.js";
import { colour, faded } from "../theme.js";

const HOUR_MS = 3_600_000;
const SPANS = {
  day: { word: "Day", back: 12, on: 12 },
  days: { word: "3 days", back: 24, on: 48 },
  week: { word: "Week", back: 72, on: 96 },
};
/** Parts of a cell from the bottom up: what needs somebody first. */
const PARTS = [
  ["blocked", "flag"],
  ["failed", "bad"],
  ["pending", "accent"],
  ["done", "good"],
  ["other", "line-strong"],
];
const BAD = new Set(["blocked", "failed"]);
const EVERY_MS = 10_000;

export const screen = { path: "buckets", title: "Bucket map", mark: "map", key: "m", open };

function open(parameters) {
  let span = parameters.get("span") in SPANS ? parameters.get("span") : "day";
  let firstMs = 0;
  let columns = 0;
  let most = 1;
  let cells = new Map();
  let timer = null;
  let isClosed = false;

  const grid = makeGrid({
    label: "Partitions by hour",
    labelWidth: 48,
    rowHeight: whoami.partitionCount > 40 ? 14 : 22,
    gap: 2,
    rowName: String,
    columnName: (column) => hourName(firstMs + column * HOUR_MS),
    tell: cellWords,
    open: (row, column) => go("tasks", { from: iso(column), to: iso(column + 1), partition: row }),
    paint,
    overlay: (context, { box, height }) => {
      const share = (nowMs() - firstMs) / HOUR_MS;
      const { x, width } = box(0, Math.floor(share));
      const at = x + (share % 1) * (width + 2);
      context.strokeStyle = colour("ink");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(at, 0);
      context.lineTo(at, height);
      context.stroke();
    },
  });
  const totals = h("div", { class: "legend" });
  const sum = h("span");
  const problem = h("div", { hidden: true });
  const element = h(
    "div",
    { class: "screen" },
    h(
      "div",
      { class: "between" },
      segments(
        "Time range",
        Object.entries(SPANS).map(([value, { word }]) => [value, word]),
        span,
        choose,
      ),
      h("span", { class: "faint" }, `Click a cell to see its tasks. The line marks now; times are ${zone()}.`),
    ),
    problem,
    card(
      "Partition by hour",
      { aside: sum },
      totals,
      h("div", { class: "grid-pad" }, grid.element),
    ),
  );
  look();

  function choose(chosen) {
    span = chosen;
    note("buckets", { span });
    look();
  }

  async function look() {
    clearTimeout(timer);
    const { back, on } = SPANS[span];
    const first = Math.floor(nowMs() / HOUR_MS) * HOUR_MS - back * HOUR_MS;
    try {
      const { buckets } = await ask("buckets", {
        from: new Date(first).toISOString(),
        to: new Date(first + (back + on) * HOUR_MS).toISOString(),
      });
      if (isClosed) return;
      [firstMs, columns] = [first, back + on];
      problem.hidden = true;
      show(buckets);
    } catch (error) {
      if (!isClosed) fill(problem, refusal(error)).hidden = false;
    }
    if (!isClosed) timer = setTimeout(look, EVERY_MS);
  }

  function show(buckets) {
    cells = new Map(
      buckets.map((each) => [
        place(each.partition, Math.round((Date.parse(each.hour) - firstMs) / HOUR_MS)),
        {
          ...each,
          isKnown: each.blocked !== null,
          blocked: each.blocked ?? 0,
          pending: each.pending - (each.blocked ?? 0),
          other: each.dropped + each.cancelled + each.moved,
        },
      ]),
    );
    most = Math.max(1, ...[...cells.values()].map(size));
    grid.update(whoami.partitionCount, columns);
    const added = (name) => [...cells.values()].reduce((all, each) => all + each[name], 0);
    const isKnown = [...cells.values()].every((each) => each.isKnown);
    const words = {
      blocked: "blocked",
      failed: "failed",
      pending: "pending",
      done: "done",
      other: "dropped, cancelled or moved",
    };
    fill(
      totals,
      PARTS.map(([name, tone]) =>
        h(
          "span",
          {},
          h("i", { class: "swatch", vars: { "--swatch": `var(--${tone})` } }),
          words[name],
          " ",
          h("b", {}, name === "blocked" && !isKnown ? UNKNOWN : shortCount(added(name))),
        ),
      ),
    );
    say(sum, `${counted(whoami.partitionCount, "partition")}, ${counted(columns, "hour")}`);
  }

  function paint(context, row, column, { x, y, width, height }) {
    context.fillStyle = faded("line", 0.45);
    context.fillRect(x, y, width, height);
    const cell = cells.get(place(row, column));
    if (!cell || size(cell) === 0) return;
    // How full a cell is says how many; a tenth at least, or few would pass for none.
    const tall = Math.max(height * 0.16, height * Math.sqrt(size(cell) / most));
    let top = y + height;
    for (const [name, tone] of PARTS) {
      const part = (cell[name] / size(cell)) * tall;
      const shown = cell[name] && BAD.has(name) ? Math.max(4, part) : part;
      context.fillStyle = colour(tone);
      context.fillRect(x, Math.max(y, top - shown), width, Math.min(shown, top - y));
      top -= shown;
    }
    if (cell.blocked || cell.failed) {
      // A few among thousands would be a line that nobody sees.
      context.strokeStyle = colour(cell.blocked ? "flag" : "bad");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }
    if (latest.partitions?.partitions[row]?.paused && firstMs + (column + 1) * HOUR_MS > nowMs()) {
      context.fillStyle = faded("flag", 0.25);
      context.fillRect(x, y, width, height);
    }
  }

  function cellWords(row, column) {
    const head = `Partition ${row}, ${moment(iso(column), { seconds: false, date: true })}`;
    const cell = cells.get(place(row, column));
    if (!cell) return `${head}\nno tasks`;
    const parts = [
      ["blocked", cell.blocked],
      ["pending", cell.pending],
      ["done", cell.done],
      ["failed", cell.failed],
      ["dropped", cell.dropped],
      ["cancelled", cell.cancelled],
      ["moved", cell.moved],
    ];
    return [
      head,
      ...(cell.isKnown ? [] : ["blocked: unknown"]),
      ...parts.filter(([, number]) => number).map(([name, number]) => `${count(number)} ${name}`),
    ].join("\n");
  }

  function iso(column) {
    return new Date(firstMs + column * HOUR_MS).toISOString();
  }

  function hourName(ms) {
    const text = new Date(ms).toISOString();
    const time = moment(text, { seconds: false, date: false, zone: false });
    if (time === "00:00") return moment(text, { date: true, zone: false }).slice(5, 10);
    return columns < 100 && Number(time.slice(0, 2)) % (columns > 30 ? 6 : 2) === 0 ? time : "";
  }

  return {
    element,
    refresh: look,
    close() {
      isClosed = true;
      clearTimeout(timer);
      grid.close();
    },
  };
}

function place(partition, column) {
  return `${partition}:${column}`;
}

function size(cell) {
  return cell.blocked + cell.pending + cell.done + cell.failed + cell.other;
}
