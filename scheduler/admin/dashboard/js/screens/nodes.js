/** Nodes and partitions: who owns what, how far it came, and what the last rebalance cost. */

import { pauseOrResume, whyNot } from "../acts.js";
import { fill, h, say } from "../dom.js";
import { count, counted, duration, known, shortCount, when } from "../format.js";
import { latest, on } from "../live.js";
import { button, card, pairs, pill } from "../parts.js";
import { address } from "../router.js";
import { makeTable } from "../table.js";

const LEASE_MS = 10_000;
const LOW_LEASE_MS = 2_000;

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
        title: "Records of the log that the owner has not read",
        cell: (row) => known(row.lag),
      },
      {
        name: "Watermark",
        shown: "watermark",
        class: "right tight",
        title: "Every task before it is closed",
        cell: (row) => known(row.watermark, () => when(row.watermark)),
      },
      {
        name: "Loaded until",
        shown: "loaded until",
        class: "right tight",
        title: "Tasks up to then are in the owner's memory",
        cell: (row) => known(row.loadedUntil, () => when(row.loadedUntil)),
      },
      {
        name: "Waiting",
        shown: "waiting",
        class: "right tight",
        title: "Tasks in memory that are not due",
        cell: (row) => known(row.waiting),
      },
      {
        name: "Running",
        shown: "running",
        class: "right tight",
        cell: (row) => known(row.executing),
      },
      {
        name: "Held",
        shown: "held",
        class: "right tight",
        title: "Ordering ids that wait for a retry, an operator or slow code",
        cell: (row) => known(row.held),
      },
      {
        name: "Oldest open",
        shown: "oldest open",
        class: "right tight",
        title: "How long ago the oldest open task fell due",
        cell: (row) => known(row.overdueMs, (ms) => (ms ? duration(ms) : "–")),
      },
      { name: "Epoch", shown: "epoch", class: "right tight", cell: (row) => known(row.epoch) },
      {
        name: "Rebalanced",
        shown: "rebalanced",
        class: "right tight",
        title: "When its owner got it, and how long nothing ran of it then",
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
      h("strong", {}, `${counted(keys.size, "partition")} chosen`),
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
        `${counted(partitions.length, "partition")}${unknown ? `, ${count(unknown)} of them with no owner that answers` : ", all owned"}`,
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
  const gap =
    row.catchUpMs === null || row.catchUpMs === undefined
      ? null
      : h("span", { class: "faint" }, ` gap ${duration(row.catchUpMs)}`);
  return known(row.assigned, () => h("span", {}, when(row.assigned), gap));
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

function nodeFacts(node) {
  const lease = node.leaseLeftMs;
  const tone = lease === null ? "" : lease <= 0 ? "bad" : lease < LOW_LEASE_MS ? "warn" : "good";
  const share = lease === null ? "0%" : `${Math.min(100, Math.max(0, (lease / LEASE_MS) * 100))}%`;
  return [
    pairs([
      [node.state === "silent" ? "Last heard" : "Heard", when(node.asOf)],
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
      ["Failing, blocked", h("span", {}, known(node.failing), ", ", known(node.blocked))],
      [
        "Lease",
        node.leaseByLock
          ? "held by a lock"
          : known(lease, (ms) => (ms > 0 ? `${duration(ms)} left` : "ended")),
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
      node.treeFailures > 0 && ["Tree rebuilt", counted(node.treeFailures, "time")],
      node.address && ["Admin API", node.address],
    ]),
  ];
}
