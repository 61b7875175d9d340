/** The figures at a glance: one tile each, its figure with the window it is of, and its line of the last hour. */

import { makeSpark } from "./chart.js";
import { fill, h, say } from "./dom.js";
import { duration, figure, shortCount } from "./format.js";
import { freshness, latest } from "./live.js";
import { address } from "./router.js";

/** As the verdict of the API has them: from here on a figure is worth a word, or a night. */
const LATE_MS = 1_000;
const VERY_LATE_MS = 10_000;
const MANY_FAIL = 10;
const MOST_FAIL = 50;
const LIMITED_MANY = 100;
/** So many records that are not read yet are more than a batch on its way. */
export const LAG_MANY = 10_000;

/** Make all of them; `update` takes the status, `draw` the last hour. */
export function makeTiles() {
  const plain = (value) => [shortCount(value), ""];
  const lately = (s) => `last ${duration(s.windowMs)}`;
  const now = () => "now";
  const made = [
    tile(
      "Attempts/s",
      lately,
      "accent",
      (s) => plain(s.executionsPerS),
      (p, every) => (p.started === null ? null : p.started / (every / 1_000)),
    ),
    tile(
      "Attempts failed",
      lately,
      "bad",
      (s) => failedShare(s.failuresPerS, s.executionsPerS),
      (p) => shareOf(p.failed, p.started),
      (s) => failedTone(shareOf(s.failuresPerS, s.executionsPerS)),
      address("blocked", { kind: "failing" }),
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
      "Limited",
      now,
      "flag",
      (s) => plain(s.limited),
      (p) => p.limited,
      (s) => (s.limited >= LIMITED_MANY ? "warn" : ""),
      address("tasks", { state: "limited" }),
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

/** Of a hundred attempts how many failed; null where none ran. What failed may have started before. */
function shareOf(failed, started) {
  const ended = Math.max(failed ?? 0, started ?? 0);
  return ended ? (100 * (failed ?? 0)) / ended : null;
}

function failedShare(failed, started) {
  if (failed === null || failed === undefined) return figure(null);
  const share = shareOf(failed, started);
  return share === null ? ["–", ""] : [shortCount(Math.round(share)), "%"];
}

function failedTone(share) {
  return share >= MOST_FAIL ? "bad" : share > MANY_FAIL ? "warn" : "";
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
    h("h2", { class: "between" }, name, span),
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
