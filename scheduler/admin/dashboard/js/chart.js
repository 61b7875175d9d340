/**
 * Charts over time: uPlot with this dashboard's colours, its clock, and the marks of rebalances.
 */

import { fill, h } from "./dom.js";
import { isUtc, moment, nowMs } from "./format.js";
import { colour, faded, onColours } from "./theme.js";

const { uPlot } = window;
const SHORTEST_S = 300;
const POWERS = Array.from({ length: 12 }, (_, power) => 10 ** power);
const WHOLE_STEPS = POWERS.flatMap((ten) => [ten, 2 * ten, 5 * ten]);

/**
 * Make a chart.  `series`: `{name, colour, fill, format, bars, dash}`; `log` draws the values
 * on a scale where ten times is one step, `whole` names no part of a unit; `open` is called with a moment that was clicked;
 * `plain` names the places of an axis that is not time.
 */
export function makeChart({
  label,
  series,
  height = 190,
  log = false,
  whole = false,
  format = String,
  open = null,
  plain = null,
}) {
  const room = h("div", {
    class: "chart",
    role: "img",
    "aria-label": label,
    tabindex: open ? "0" : null,
  });
  const legend = h("div", { class: "legend" });
  const element = h("figure", {}, room, legend);
  let plot = null;
  let data = null;
  let marks = [];

  function build() {
    plot?.destroy();
    plot = null;
    if (!data) return;
    tell();
    if (!hasValues()) {
      fill(room, h("div", { class: "no-data", vars: { "--height": `${height}px` } }, "Not enough data yet"));
      return;
    }
    if (room.clientWidth === 0) return;
    fill(room);
    plot = new uPlot(options(), data, room);
    tell();
  }

  /** Axes around nothing, or around one point, would name times and numbers that mean nothing. */
  function hasValues() {
    if (data[0].length < 2) return false;
    return data.slice(1).some((values) => values.some((each) => each !== null && each !== undefined));
  }

  function options() {
    const line = {
      stroke: colour("ink-faint"),
      font: "11px Inter, sans-serif",
      ticks: { show: false },
      grid: { stroke: faded("line-strong", 0.45), width: 1 },
    };
    return {
      width: room.clientWidth,
      height,
      // Room for half of a time below the last line.
      padding: [8, 24, 0, 0],
      legend: { show: false },
      tzDate: (at) => (isUtc() ? uPlot.tzDate(new Date(at * 1e3), "Etc/UTC") : new Date(at * 1e3)),
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { time: plain === null, range: series[0].bars ? roomForBars : atLeastMinutes },
        y: log
          ? {
              distr: 3,
              range: (_, low, high) => [Math.max(1, low ?? 1), Math.max(10, (high ?? 10) * 1.3)],
            }
          : { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.08)] },
      },
      axes: [
        {
          ...line,
          grid: { show: false },
          size: 26,
          values: (_, splits) => splits.map((at) => (plain ? plain(at) : axisTime(at, splits))),
        },
        {
          ...line,
          grid: { ...line.grid, ...(log ? { filter: wholeSteps } : {}) },
          size: log ? 58 : 44,
          ...(whole ? { incrs: WHOLE_STEPS } : {}),
          values: (_, splits) => splits.map((value) => (value === null ? "" : format(value))),
        },
      ],
      series: [{}, ...series.map(drawn)],
      hooks: { draw: [drawMarks], setCursor: [tell] },
    };
  }

  function drawn(each) {
    const stroke = colour(each.colour);
    const filled = each.bars
      ? faded(each.colour, 0.85)
      : each.fill
        ? faded(each.colour, 0.12)
        : undefined;
    return {
      label: each.name,
      stroke: each.bars ? undefined : stroke,
      fill: filled,
      width: each.bars ? 0 : 1.75,
      dash: each.dash,
      points: { show: false },
      spanGaps: false,
      ...(each.bars ? { paths: uPlot.paths.bars({ size: [0.78, 40], radius: 0.15 }) } : {}),
    };
  }

  /** Of a scale by tens only the tens have a line. */
  function wholeSteps(u, splits) {
    return splits.map((each) => (Number.isInteger(Math.log10(each)) ? each : null));
  }

  /** The first and last bar stand inside, whole. */
  function roomForBars(u, low, high) {
    const half = (high - low) / Math.max(1, data[0].length - 1) / 2;
    return [low - half, high + half];
  }

  /** What is drawn since a moment ago stands on the right, and is not blown up. */
  function atLeastMinutes(u, low, high) {
    const end = high ?? nowMs() / 1e3;
    return [Math.min(low ?? end, end - SHORTEST_S), end];
  }

  function axisTime(at, splits) {
    const isDays = splits.length > 1 && splits[1] - splits[0] >= 86_400;
    const text = new Date(at * 1e3).toISOString();
    if (isDays) return moment(text, { date: true, zone: false }).slice(5, 10);
    const seconds = splits.length > 1 && splits[1] - splits[0] < 60;
    return moment(text, { seconds, date: false, zone: false });
  }

  function drawMarks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    for (const mark of marks) {
      if (mark.to / 1e3 < u.scales.x.min || mark.from / 1e3 > u.scales.x.max) continue;
      const left = Math.max(bbox.left, u.valToPos(mark.from / 1e3, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(mark.to / 1e3, "x", true));
      ctx.fillStyle = faded("flag", 0.16);
      ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
      ctx.strokeStyle = faded("flag", 0.9);
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function tell() {
    const place = plot?.cursor.idx ?? null;
    const at = place === null ? null : data[0][place];
    const near =
      at === null
        ? null
        : marks.find((each) => at * 1e3 >= each.from - 20_000 && at * 1e3 <= each.to + 20_000);
    fill(
      legend,
      series.map((each, number) => {
        const value = data[number + 1]?.at(place ?? -1);
        const said = value === null || value === undefined ? "–" : (each.format ?? format)(value);
        // The last bar is not the latest figure, as the end of a line is.
        const isTold = place !== null || !each.bars;
        return h(
          "span",
          {},
          h("i", { class: "swatch", vars: { "--swatch": `var(--${each.colour})` } }),
          each.name,
          " ",
          isTold && h("b", {}, said),
        );
      }),
      at !== null && h("span", {}, plain ? plain(at) : moment(new Date(at * 1e3).toISOString())),
      (near || marks.length > 0) &&
        h("span", {}, h("i", { class: "swatch mark" }), near ? near.words : "owners changed"),
    );
  }

  const sizes = new ResizeObserver(() => {
    if (!plot) build();
    else if (room.clientWidth && Math.abs(plot.width - room.clientWidth) > 1)
      plot.setSize({ width: room.clientWidth, height });
  });
  sizes.observe(room);
  const stop = onColours(build);
  if (open) {
    room.addEventListener(
      "click",
      () => plot?.cursor.idx !== null && plot && open(data[0][plot.cursor.idx] * 1e3),
    );
    room.addEventListener("keydown", keyed);
  }

  function keyed(event) {
    if (!plot) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      const place = Math.min(
        data[0].length - 1,
        Math.max(0, (plot.cursor.idx ?? data[0].length - 1) + step),
      );
      plot.setCursor({ left: plot.valToPos(data[0][place], "x"), top: 10 });
    } else if (event.key === "Enter" && plot.cursor.idx !== null) {
      open(data[0][plot.cursor.idx] * 1e3);
    }
  }

  /** Show other values: `[times in seconds, values of each series …]`. */
  function update(values, marked = []) {
    data = values;
    marks = marked;
    if (plot && hasValues()) {
      plot.setData(values);
      tell();
    } else {
      build();
    }
  }

  return {
    element,
    update,
    close() {
      sizes.disconnect();
      stop();
      plot?.destroy();
    },
  };
}

/** A line without axes, for the foot of a tile. */
export function makeSpark(name) {
  const element = h("div", { class: "chart", "aria-hidden": "true" });
  let plot = null;
  let data = null;

  function build() {
    plot?.destroy();
    plot = null;
    if (!data || element.clientWidth === 0) return;
    plot = new uPlot(
      {
        width: element.clientWidth,
        height: 30,
        padding: [3, 0, 1, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_, _low, high) => [0, Math.max(1, (high ?? 1) * 1.1)] } },
        axes: [{ show: false }, { show: false }],
        series: [
          {},
          { stroke: colour(name), fill: faded(name, 0.1), width: 1.5, points: { show: false } },
        ],
      },
      data,
      element,
    );
  }

  const sizes = new ResizeObserver(build);
  sizes.observe(element);
  const stop = onColours(build);
  return {
    element,
    update(values) {
      data = values;
      if (plot) plot.setData(values);
      else build();
    },
    close() {
      sizes.disconnect();
      stop();
      plot?.destroy();
    },
  };
}
