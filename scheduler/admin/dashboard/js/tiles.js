/** The figures at a glance: one tile each, its figure with the window it is of, and its line of the last hour. */

import { makeSpark } from "./chart.js";
import { fill, h, say } from "./dom.js";
import { duration, figure, shortCount } from "./format.js";
import { freshness, latest } from "./live.js";
import { address } from "./router.js";

/** From here on lateness is worth a word, and worth somebody's night. */
export const LATE_MS = 1_000;
export const VERY_LATE_MS = 10_000;
/** So many records that are not read yet are more than a batch on its way. */
export const LAG_MANY = 10_000;

/** Make all of them; `update` takes the status, `draw` the last hour. */
export function makeTiles() {
  const plain = (value) => [shortCount(value), ""];
  const lately = (s) => `last ${duration(s.windowMs)}`;
  const now = () => "now";
  const made = [
    tile(
      "Attempts per second",
      lately,
      "accent",
      (s) => plain(s.executionsPerS),
      (p, every) => (p.started === null ? null : p.started / (every / 1_000)),
    ),
    tile(
      "Lateness p50",
      lately,
      "calm",
      (s) => late(s.latenessMs.p50),
      (p) => p.latenessMs.p50,
    ),
    tile(
      "Lateness p99",
      lately,
      "accent",
      (s) => late(s.latenessMs.p99),
      (p) => p.latenessMs.p99,
      (s) => lateTone(s.latenessMs.p99),
    ),
    tile(
      "Lateness p99.9",
      lately,
      "plum",
      (s) => late(s.latenessMs.p999),
      (p) => p.latenessMs.p999,
      (s) => lateTone(s.latenessMs.p999),
    ),
    tile(
      "In flight",
      now,
      "accent",
      (s) => plain(s.inFlight),
      (p) => p.inFlight,
      null,
      address("tasks", { state: "running" }),
    ),
    tile(
      "Failing",
      now,
      "flag",
      (s) => plain(s.failing),
      (p) => p.failing,
      (s) => (s.failing ? "warn" : ""),
      address("blocked", { kind: "failing" }),
    ),
    tile(
      "Blocked",
      now,
      "bad",
      (s) => plain(s.blocked),
      (p) => p.blocked,
      (s) => (s.blocked ? "bad" : ""),
      address("blocked"),
    ),
    tile(
      "Lag",
      now,
      "calm",
      (s) => plain(s.lag),
      (p) => p.lag,
      (s) => (s.lag > LAG_MANY ? "warn" : ""),
      address("nodes"),
    ),
  ];
  return {
    element: h(
      "div",
      { class: "tiles" },
      made.map((each) => each.element),
    ),
    update: (status) => made.forEach((each) => each.update(status)),
    draw: (times, hour) => made.forEach((each) => each.draw(times, hour)),
    close: () => made.forEach((each) => each.close()),
  };
}

function late(ms) {
  // Nothing ran, so nothing was late: that is known, and is not zero.
  return ms === null
    ? freshness().state === "live" && latest.status?.nodes.alive
      ? ["–", ""]
      : figure(null)
    : [`≤\u2009${figure(ms)[0]}`, figure(ms)[1]];
}

function lateTone(ms) {
  return ms >= VERY_LATE_MS ? "bad" : ms > LATE_MS ? "warn" : "";
}

function tile(name, windowOf, colour, valueOf, pointOf, toneOf = null, href = null) {
  const span = h("span", { class: "faint" });
  const number = h("div", { class: "figure" });
  const spark = makeSpark(colour);
  const element = h(
    href ? "a" : "div",
    { class: "card tile", href },
    h("h3", { class: "between" }, name, span),
    number,
    spark.element,
  );
  return {
    element,
    update(status) {
      const [value, unit] = valueOf(status);
      say(span, windowOf(status));
      const isKnown = value !== "unknown";
      if (number.dataset.said !== value + unit) {
        number.dataset.said = value + unit;
        fill(
          number,
          isKnown ? value : h("span", { class: "unknown" }, value),
          unit && h("small", {}, unit),
        );
      }
      element.dataset.tone = toneOf?.(status) ?? "";
    },
    draw: (times, hour) =>
      spark.update([times, hour.points.map((each) => pointOf(each, hour.everyMs) ?? null)]),
    close: spark.close,
  };
}
