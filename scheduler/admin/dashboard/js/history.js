/**
 * The last hour, asked for now and then, and the moments that every chart marks.
 *
 * A rebalance is many moments, one for each partition and node; here it becomes one mark.
 */

import { ask } from "./api.js";
import { counted } from "./format.js";
import { on } from "./live.js";

const EVERY_MS = 15_000;
const TOGETHER_MS = 6_000;
const SOON_MS = 1_500;

/** Call `act` with the last hour, again and again; returns how to stop. */
export function follow(partition, act) {
  let isClosed = false;
  let timer = null;
  let owners = null;

  async function look() {
    clearTimeout(timer);
    try {
      const value = await ask("history", { partition });
      if (isClosed) return;
      act({ ...value, marks: marksOf(value.moments) });
    } catch {
      // The notice on top says that nothing is heard; the chart stays as it is.
    }
    if (!isClosed) timer = setTimeout(look, EVERY_MS);
  }

  const stop = on("partitions", ({ partitions }) => {
    const said = partitions.map((each) => each.owner).join();
    if (owners !== null && said !== owners) {
      clearTimeout(timer);
      timer = setTimeout(look, SOON_MS);
    }
    owners = said;
  });
  look();
  return () => {
    isClosed = true;
    clearTimeout(timer);
    stop();
  };
}

/**
 * Return the last hour with the status as its last point, so that charts end with the figures that
 * stand beside them.
 */
export function upToNow(hour, status) {
  const { executionsPerS, failuresPerS, windowMs } = status;
  const perPoint = (rate) => (rate === null ? null : (rate * hour.everyMs) / 1_000);
  const last = { ...status, started: perPoint(executionsPerS), failed: perPoint(failuresPerS) };
  const from = Date.parse(status.time);
  const points = hour.points.filter((each) => Date.parse(each.time) < from);
  return { ...hour, windowMs, points: [...points, last] };
}

/** Return the moments as marks: `{from, to, words}`, in milliseconds since 1970. */
export function marksOf(moments) {
  const marks = [];
  for (const each of moments) {
    const at = Date.parse(each.time);
    const isRebuild = each.what === "rebuilt";
    const last = marks.at(-1);
    if (last && at - last.to < TOGETHER_MS && last.isRebuild === isRebuild) {
      last.to = at;
      last.of.push(each);
    } else {
      marks.push({ from: at, to: at, isRebuild, of: [each] });
    }
  }
  return marks.map(({ from, to, isRebuild, of }) => ({
    from,
    to,
    words: isRebuild ? `tree rebuilt: ${of[0].detail}` : rebalanceWords(of),
  }));
}

function rebalanceWords(moments) {
  const moved = new Set(
    moments.filter((each) => each.what === "assigned").map((each) => each.partition),
  );
  const lost = new Set(
    moments.filter((each) => each.what === "lost").map((each) => each.partition),
  );
  const parts = [
    `rebalance: ${counted(moved.size || new Set(moments.map((each) => each.partition)).size, "partition")} moved`,
  ];
  if (lost.size) parts.push(`${counted(lost.size, "partition")} lost`);
  return parts.join(", ");
}
