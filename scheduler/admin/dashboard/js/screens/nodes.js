/** Nodes and partitions: who owns what, how far it came, and what the last rebalance cost. */

import { pauseOrResume, whyNot } from "../acts.js";
import { fill, h, say } from "../dom.js";
import { away, count, counted, duration, known, shortCount, size, when } from "../format.js";
import { latest, on } from "../live.js";
import { button, card, pairs, pill } from "../parts.js";
import { address } from "../router.js";
import { makeTable } from "../table.js";

const LEASE_MS = 10_000;
const LOW_LEASE_MS = 2_000;
const LONG_GAP_MS = 1_000;

export const screen = {
  path: "nodes",
  title: "Nodes and partitions",
  short: "Nodes",
  mark: "nodes",
  key: "o",
  open,
};

function open(parameters) {
  const cards = h("div", { class: "node-cards" });
  const known_ = new Map();
  const foot = h("span");
  const bulk = h("div", { class: "bulk", hidden: true });
  const table = makeTable({
    label: "Partitions",
    keyOf: (row) => String(row.partition),
    chosen: showBulk,
    dense: true,
    columns: [
      { name: "#", class: "right tight", cell: (row) => h("strong", {}, String(row.partition)) },
      { name: "State", class: "tight", cell: stateCell },
      {
        name: "Owner",
        class: "key",
        cell: (row) => known(row.owner, (name) => h("span", { title: name }, name)),
      },
      {
        name: "Lag",
        shown: "lag",
        class: "right tight",
        title: "Log records that the owner has not read yet",
        cell: (row) => known(row.lag),
      },
      {
        name: "Watermark",
        shown: "watermark",
        class: "right tight",
        title: "Every task due before this time is finished",
        cell: (row) => known(row.watermark, () => when(row.watermark)),
      },
      {
        name: "Loaded until",
        shown: "loaded until",
        class: "right tight",
        title: "Tasks due before this time are in the owner's memory",
        cell: (row) => known(row.loadedUntil, () => when(row.loadedUntil)),
      },
      {
        name: "Waiting",
        shown: "waiting",
        class: "right tight",
        title: "Tasks in the owner's memory that are not due yet",
        cell: (row) => known(row.waiting),
      },
      {
        name: "Running",
        shown: "running",
        class: "right tight",
        title: "Attempts that run right now",
        cell: (row) => known(row.running),
      },
      {
        name: "Failing",
        shown: "failing",
        class: "right tight",
        title: "Tasks whose last attempt failed and that will be tried again",
        cell: (row) => known(row.failing),
      },
      {
        name: "Blocked",
        shown: "blocked",
        class: "right tight",
        title: "Tasks that block their ordering ids until an operator decides",
        cell: (row) =>
          known(row.blocked, (number) =>
            number ? h("strong", { class: "bad" }, count(number)) : "0",
          ),
      },
      {
        name: "Oldest open",
        shown: "oldest open",
        class: "right tight",
        title: "How long ago the oldest unfinished task was due",
        cell: (row) => known(row.overdueMs, (ms) => (ms ? duration(ms) : "–")),
      },
      {
        name: "Rebalanced",
        shown: "rebalanced",
        class: "right tight",
        title: "When the owner got it, and for how long nothing of it ran meanwhile",
        cell: rebalanceCell,
      },
      { name: "", class: "tight", cell: pauseCell },
    ],
  });
  const element = h(
    "div",
    { class: "screen" },
    cards,
    h(
      "section",
      { class: "card", "aria-label": "Partitions" },
      h("header", {}, h("h2", {}, "Partitions"), h("div", { class: "aside" }, pauseAll())),
      table.element,
      bulk,
      h("div", { class: "table-foot" }, foot),
    ),
  );

  function showBulk(keys) {
    bulk.hidden = keys.size === 0;
    const targets = [...keys].map((each) => ({ scope: "partition", partition: Number(each) }));
    const why = whyNot();
    fill(
      bulk,
      h("strong", {}, `${counted(keys.size, "partition")} selected`),
      button("Pause", {
        kind: "small",
        mark: "pause",
        disabled: why !== null,
        title: why,
        act: () => pauseOrResume(true, targets),
      }),
      button("Resume", {
        kind: "small",
        mark: "play",
        disabled: why !== null,
        title: why,
        act: () => pauseOrResume(false, targets),
      }),
      button("Clear", { kind: "plain small", act: () => table.clear() }),
    );
  }

  const stops = [
    on("nodes", ({ nodes }) => showNodes(cards, known_, nodes)),
    on("partitions", ({ partitions }) => {
      table.update(partitions);
      const unknown = partitions.filter((each) => each.owner === null).length;
      say(
        foot,
        `${counted(partitions.length, "partition")}${unknown ? `, ${count(unknown)} without an owner that reports` : ", all owned"}`,
      );
    }),
  ];
  const wanted = parameters.get("partition");
  if (wanted) {
    queueMicrotask(() => {
      const row = table.element.querySelectorAll("tbody tr")[Number(wanted)];
      row?.focus();
      row?.scrollIntoView({ block: "center" });
    });
  }
  return { element, close: () => stops.forEach((stop) => stop()) };
}

function stateCell(row) {
  if (row.owner === null) return pill("unknown", "unknown", "none");
  if (row.paused) return pill("paused", row.pauseKnown ? "paused" : "pausing …", "warn");
  return pill(row.state, row.state, row.state === "running" ? "good" : "warn");
}

function rebalanceCell(row) {
  const gapMs = row.catchUpMs ?? null;
  const words = [
    gapMs !== null && `nothing ran for ${duration(gapMs)}`,
    row.epoch !== null && `epoch ${row.epoch}`,
  ];
  const gap = gapMs >= LONG_GAP_MS && h("span", { class: "faint" }, `, gap ${duration(gapMs)}`);
  return known(row.assigned, () =>
    h("span", { title: words.filter(Boolean).join(", ") }, away(row.assigned), gap),
  );
}

function pauseCell(row) {
  const target = { scope: "partition", partition: row.partition };
  return button(row.paused ? "Resume" : "Pause", {
    kind: "small",
    disabled: whyNot() !== null,
    title: whyNot(),
    act: () => pauseOrResume(!row.paused, [target]),
  });
}

function pauseAll() {
  const why = whyNot();
  const isPaused = () => latest.status?.paused.all === true;
  return [
    button("Pause everything", {
      kind: "small danger",
      mark: "pause",
      disabled: why !== null,
      title: why,
      act: () => pauseOrResume(true, [{ scope: "all" }]),
    }),
    button("Resume everything", {
      kind: "small",
      mark: "play",
      disabled: why !== null,
      title: why ?? (isPaused() ? null : "Lifts a pause of everything"),
      act: () => pauseOrResume(false, [{ scope: "all" }]),
    }),
  ];
}

function showNodes(cards, cardsKnown, nodes) {
  const names = new Set(nodes.map((each) => each.node));
  for (const [name, each] of cardsKnown) {
    if (names.has(name)) continue;
    each.remove();
    cardsKnown.delete(name);
  }
  for (const node of nodes) {
    let each = cardsKnown.get(node.node);
    if (!each) {
      each = h("section", { class: "card node-card", "aria-label": node.node });
      cardsKnown.set(node.node, each);
      cards.append(each);
    }
    each.dataset.state = node.state;
    fill(
      each,
      h("header", {}, h("h2", { title: node.node }, node.node), pill(node.state)),
      h("div", { class: "inside" }, nodeFacts(node)),
    );
  }
  cards.hidden = nodes.length === 0;
}

/** The processes in which a node runs user code. */
function poolWords({ places, alive, busy, residentBytes, deaths }) {
  const ended = deaths ? `, ${count(deaths)} replaced` : "";
  return `${count(busy)} of ${count(places)} busy, ${count(alive)} alive, ${size(residentBytes)}${ended}`;
}

function nodeFacts(node) {
  const lease = node.leaseLeftMs;
  const tone = lease === null ? "" : lease <= 0 ? "bad" : lease < LOW_LEASE_MS ? "warn" : "good";
  const share = lease === null ? "0%" : `${Math.min(100, Math.max(0, (lease / LEASE_MS) * 100))}%`;
  return [
    pairs([
      ["Last report", when(node.asOf)],
      [
        "Partitions",
        node.partitions.length
          ? h(
              "span",
              { class: "cells" },
              node.partitions
                .slice(0, 40)
                .map((each) =>
                  h(
                    "a",
                    {
                      class: "cell",
                      href: address("nodes", { partition: each }),
                      data: { tone: node.state === "silent" ? "none" : "good" },
                    },
                    String(each),
                  ),
                ),
              node.partitions.length > 40 && `and ${count(node.partitions.length - 40)} more`,
            )
          : "none",
      ],
      ["Attempts per second", known(node.executionsPerS, shortCount)],
      ["Failures per second", known(node.failuresPerS, shortCount)],
      ["In flight", known(node.inFlight)],
      ["Failing", known(node.failing)],
      ["Blocked", known(node.blocked)],
      node.processes && ["Processes", poolWords(node.processes)],
      [
        "Lease",
        node.leaseByLock
          ? "file lock (one node)"
          : known(lease, (ms) => (ms > 0 ? `${duration(ms)} left` : "expired")),
      ],
      !node.leaseByLock &&
        lease !== null && [
          "",
          h("div", { class: "bar", data: { tone } }, h("i", { vars: { "--share": share } })),
        ],
      [
        "Started",
        h(
          "span",
          {},
          when(node.started),
          " ",
          h("span", { class: "faint" }, `version ${node.version}`),
        ),
      ],
      node.treeFailures > 0 && ["Actor tree rebuilt", counted(node.treeFailures, "time")],
      node.address && ["Admin API", node.address],
    ]),
  ];
}
