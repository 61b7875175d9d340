/** Now: is it late, where, why, and what needs somebody?  One sentence first, figures after. */

import { makeChart } from "../chart.js";
import { fill, h, icon, say } from "../dom.js";
import { count, counted, duration, shortCount } from "../format.js";
import { follow, upToNow } from "../history.js";
import { freshness, latest, on } from "../live.js";
import { card } from "../parts.js";
import { address } from "../router.js";
import { LAG_MANY, makeTiles } from "../tiles.js";

export const screen = { path: "now", title: "Now", mark: "now", key: "n", open };

function open() {
  const verdict = h("section", { class: "card verdict", "aria-live": "polite" });
  const tiles = makeTiles();
  const runs = makeChart({
    label: "Attempts started and failed per second in the last hour",
    series: [
      { name: "started", colour: "accent", fill: true },
      { name: "failed", colour: "bad" },
    ],
    format: shortCount,
  });
  const lateness = makeChart({
    label: "Lateness in the last hour",
    log: true,
    series: [
      { name: "p50", colour: "calm" },
      { name: "p99", colour: "accent" },
      { name: "p99.9", colour: "plum" },
    ],
    format: (value) => `≤\u2009${duration(value)}`,
  });
  const flight = makeChart({
    label: "Attempts in flight and records not read yet in the last hour",
    series: [
      { name: "in flight", colour: "accent", fill: true },
      { name: "lag", colour: "flag" },
    ],
    whole: true,
    format: shortCount,
  });
  const trouble = makeChart({
    label: "Blocked and failing tasks in the last hour",
    series: [
      { name: "blocked", colour: "bad", fill: true },
      { name: "failing", colour: "flag" },
    ],
    whole: true,
    format: shortCount,
  });
  const charts = [runs, lateness, flight, trouble];
  const owners = h("div", { class: "owners" });
  const since = h("span");
  const element = h(
    "div",
    { class: "screen" },
    verdict,
    tiles.element,
    h(
      "div",
      { class: "columns" },
      card("Attempts per second", { aside: since }, runs.element),
      card("Lateness", { aside: "from due to started" }, lateness.element),
      card("In flight and lag", {}, flight.element),
      card("Blocked and failing", {}, trouble.element),
    ),
    card(
      "Partitions by owner",
      { aside: h("a", { href: address("nodes") }, "Nodes and partitions") },
      owners,
    ),
  );

  let past = null;
  const stops = [
    on("status", (status) => {
      showVerdict(verdict, status);
      tiles.update(status);
      draw();
    }),
    on("partitions", ({ partitions }) => showOwners(owners, partitions)),
    follow(null, (hour) => {
      past = hour;
      draw();
    }),
  ];

  /** The last point of every chart is the status that the tiles show. */
  function draw() {
    if (past === null || !latest.status) return;
    const hour = upToNow(past, latest.status);
    const times = hour.points.map((each) => Date.parse(each.time) / 1e3);
    const drawn = (chart, names, valueOf) =>
      chart.update([times, ...names.map((name) => hour.points.map(valueOf(name)))], hour.marks);
    const perS = (name) => (each) =>
      each[name] === null ? null : each[name] / (hour.everyMs / 1_000);
    drawn(runs, ["started", "failed"], perS);
    drawn(lateness, ["p50", "p99", "p999"], (name) => (each) => each.latenessMs[name]);
    drawn(flight, ["inFlight", "lag"], (name) => (each) => each[name]);
    drawn(trouble, ["blocked", "failing"], (name) => (each) => each[name]);
    tiles.draw(times, hour);
    const before = hour.points.length - 1;
    say(
      since,
      before < 2
        ? "collecting data"
        : `last ${duration(before * hour.everyMs)}, a point every ${duration(hour.everyMs)}`,
    );
  }

  return {
    element,
    close() {
      for (const each of [...charts, tiles]) each.close();
      for (const stop of stops) stop();
    },
  };
}

/** What the cluster is like, worst first: `{tone, words, needs}`. */
function judged(status) {
  const needs = [];
  const need = (tone, words, path, parameters) =>
    needs.push({ tone, words, href: address(path, parameters) });
  if (status.nodes.alive === 0) need("bad", "no node is alive", "nodes");
  else if (status.nodes.silent)
    need("warn", `${counted(status.nodes.silent, "node")} silent`, "nodes");
  if (status.partitions.unknown)
    need("bad", `no node reports on ${counted(status.partitions.unknown, "partition")}`, "nodes");
  if (status.paused.all) need("warn", "everything is paused", "activity");
  else if (status.paused.partitions || status.paused.orderingIds)
    need("warn", pausedWords(status.paused), "activity");
  if (status.blocked) need("bad", `${counted(status.blocked, "ordering id")} blocked`, "blocked");
  if (status.failing)
    need("warn", `${counted(status.failing, "task")} failing`, "blocked", { kind: "failing" });
  if (status.limited)
    need("", `${counted(status.limited, "task")} limited`, "tasks", { state: "limited" });
  if (status.lag > LAG_MANY)
    need("warn", `${shortCount(status.lag)} records not read yet`, "nodes");
  const fresh = freshness();
  if (fresh.state !== "live")
    return { tone: "warn", words: "Unknown: the figures are out of date", needs };
  const { tone, words, nextStep } = status.verdict;
  return { tone, words, needs, nextStep };
}

function pausedWords(paused) {
  const parts = [];
  if (paused.partitions) parts.push(counted(paused.partitions, "partition"));
  if (paused.orderingIds) parts.push(counted(paused.orderingIds, "ordering id"));
  return `${parts.join(" and ")} paused`;
}

function showVerdict(element, status) {
  const { tone, words, needs, nextStep } = judged(status);
  const said = JSON.stringify([tone, words, needs, nextStep]);
  if (element.dataset.said === said) return;
  element.dataset.said = said;
  element.dataset.tone = tone;
  fill(
    element,
    h("div", { class: "sign" }, icon(tone === "good" ? "good" : "alert")),
    h(
      "div",
      {},
      h("strong", {}, words),
      h(
        "span",
        { class: "soft" },
        `${counted(status.nodes.alive, "node")} alive, ${count(status.partitions.owned)} of ${counted(status.partitions.count, "partition")} owned`,
      ),
      nextStep && h("p", {}, "Next: ", h("code", {}, nextStep)),
    ),
    h(
      "ul",
      {},
      needs.map((each) =>
        h(
          "li",
          {},
          h("a", { class: "need", href: each.href, data: { tone: each.tone } }, each.words),
        ),
      ),
    ),
  );
}

function showOwners(element, partitions) {
  const said = JSON.stringify(partitions.map((each) => [each.owner, each.state, each.paused]));
  if (element.dataset.said === said) return;
  element.dataset.said = said;
  const owners = new Map();
  for (const each of partitions) owners.set(each.owner, [...(owners.get(each.owner) ?? []), each]);
  const names = [...owners.keys()].sort(
    (a, b) => (a === null) - (b === null) || String(a).localeCompare(String(b)),
  );
  fill(
    element,
    names.map((name) =>
      h(
        "div",
        { class: "owner" },
        h(
          "div",
          { class: name === null ? "unknown" : "name", title: name },
          name ?? "no owner reports",
        ),
        h(
          "div",
          { class: "cells" },
          owners.get(name).map((each) =>
            h(
              "a",
              {
                class: "cell",
                href: address("nodes", { partition: each.partition }),
                title: `partition ${each.partition}: ${each.paused ? "paused" : each.state}`,
                data: {
                  tone:
                    each.owner === null
                      ? "none"
                      : each.paused || each.state !== "running"
                        ? "warn"
                        : "good",
                },
              },
              String(each.partition),
            ),
          ),
        ),
      ),
    ),
  );
}
