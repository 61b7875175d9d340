/**
 * The picture of the cluster as it changes: server-sent events, read with the token's header.
 *
 * It tells how old the picture is and never passes an old one for a new one.  A tab that nobody
 * looks at closes its stream, because a browser has few connections to one address.
 */

import { openStream, Refused } from "./api.js";
import { setServerTime } from "./format.js";

const OLD_MS = 5_000;
/** Even a store that does not answer lets the API say that it is there, every ten seconds. */
const SILENT_MS = 13_000;
/** A stream that ends is opened again within this, and nothing is missed. */
const GONE_MS = 3_000;
const AGAIN_MS = [1_000, 2_000, 5_000, 10_000];
const HIDDEN_MS = 30_000;

/** The latest of each kind: status, nodes, partitions, blocked, failing, pauses. */
export const latest = {};
const listeners = new Map();
let heardAt = null;
let isConnected = false;
let connection = null;
let tries = 0;
let hiddenTimer = null;

/** Call `act` with each new value of a kind, and at once where there is one; returns how to stop. */
export function on(kind, act) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(act);
  if (kind in latest) act(latest[kind]);
  return () => listeners.get(kind).delete(act);
}

/** How the picture is: `live`, `late` where the store or the stream is behind, `lost`. */
export function freshness() {
  const ageMs = heardAt === null ? null : performance.now() - heardAt;
  const status = latest.status;
  const pictureMs = status?.asOf
    ? Date.parse(status.time) - Date.parse(status.asOf) + (ageMs ?? 0)
    : null;
  const isLost = ageMs === null || ageMs > SILENT_MS || (!isConnected && ageMs > GONE_MS);
  const isStale = status?.stale === true || pictureMs === null || pictureMs > OLD_MS;
  return {
    state: isLost ? "lost" : isStale ? "late" : "live",
    ageMs: pictureMs ?? ageMs,
    error: status?.error ?? null,
  };
}

/** Begin to listen, and go on whatever happens. */
export function listen() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(() => connection?.abort(), HIDDEN_MS);
    else if (connection === null) follow();
  });
  follow();
}

async function follow() {
  if (connection !== null) return;
  connection = new AbortController();
  try {
    const answer = await openStream(connection.signal);
    tries = 0;
    isConnected = true;
    await read(answer.body);
  } catch (error) {
    if (!(error instanceof Refused) && error.name !== "AbortError" && !(error instanceof TypeError))
      console.warn(error);
  }
  connection = null;
  isConnected = false;
  if (document.hidden) return;
  setTimeout(follow, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]);
  tries += 1;
}

async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    events.forEach(take);
  }
}

function take(event) {
  const fields = Object.fromEntries(
    event
      .split("\n")
      .filter((line) => !line.startsWith(":"))
      .map((line) => line.split(/: ?(.*)/s, 2)),
  );
  if (!fields.event) return;
  const value = JSON.parse(fields.data);
  latest[fields.event] = value;
  if (fields.event === "status") {
    heardAt = performance.now();
    setServerTime(value.time);
  }
  for (const act of listeners.get(fields.event) ?? []) act(value);
}
