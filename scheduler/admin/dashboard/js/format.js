/**
 * Values as people read them: numbers, stretches of time, moments.
 *
 * What nobody knows is shown as "unknown" and never as zero or as nothing.
 */

import { h } from "./dom.js";

export const UNKNOWN = "unknown";
const NUMBER = new Intl.NumberFormat("en-US");
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const ZONE_KEY = "hourhand-utc";

let offsetMs = 0;
let inUtc = localStorage.getItem(ZONE_KEY) !== "no";

/** Learn the server's clock, so that ages are right on a machine whose clock is not. */
export function setServerTime(text) {
  offsetMs = Date.parse(text) - Date.now();
}

/** The time on the server, in milliseconds since 1970. */
export function nowMs() {
  return Date.now() + offsetMs;
}

/** Whether moments are shown in UTC, as the logs of nodes are. */
export function isUtc() {
  return inUtc;
}

/** Show moments in UTC, or in this machine's zone. */
export function setUtc(chosen) {
  inUtc = chosen;
  localStorage.setItem(ZONE_KEY, chosen ? "yes" : "no");
}

/** A count, with separators. */
export function count(value) {
  return isUnknown(value) ? UNKNOWN : NUMBER.format(value);
}

/** A count that has little room. */
export function shortCount(value) {
  if (isUnknown(value)) return UNKNOWN;
  return Math.abs(value) < 10_000
    ? NUMBER.format(Math.round(value * 10) / 10)
    : SHORT.format(value);
}

/** How many of something, in words. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A number with its unit apart, for large figures: `["1.5", "s"]`. */
export function figure(ms) {
  if (isUnknown(ms)) return [UNKNOWN, ""];
  if (ms < 1_000) return [NUMBER.format(Math.round(ms)), "ms"];
  if (ms < 60_000) return [trimmed(ms / 1_000), "s"];
  if (ms < 3_600_000) return [trimmed(ms / 60_000), "min"];
  return ms < 172_800_000 ? [trimmed(ms / 3_600_000), "h"] : [trimmed(ms / 86_400_000), "d"];
}

/** A stretch of time: `950 ms`, `1.5 s`, `3 min 20 s`, `2 d 4 h`. */
export function duration(ms) {
  if (isUnknown(ms)) return UNKNOWN;
  if (ms < 60_000) return figure(ms).join("\u202f");
  const seconds = Math.round(ms / 1_000);
  for (const [size, name, smaller, less] of [
    [86_400, "d", 3_600, "h"],
    [3_600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ]) {
    if (seconds < size) continue;
    const rest = Math.floor((seconds % size) / smaller);
    return `${NUMBER.format(Math.floor(seconds / size))}\u202f${name}${rest ? ` ${rest}\u202f${less}` : ""}`;
  }
  return UNKNOWN;
}

const UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A stretch of time as one types it, `90s` or `1h`; null where it is none. */
export function durationMs(text) {
  const found = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim());
  return found ? Math.round(Number(found[1]) * UNITS_MS[found[2]]) : null;
}

/** The same the other way: `90s`, `2h`. */
export function shortDuration(ms) {
  const units = Object.entries(UNITS_MS).reverse();
  const [name, size] = units.find(([, each]) => ms !== 0 && ms % each === 0) ?? ["s", 1_000];
  return `${ms / size}${name}`;
}

/** How far a moment is from now: `12 s ago`, `in 3 min`. */
export function away(text) {
  if (!text) return UNKNOWN;
  const ms = Date.parse(text) - nowMs();
  if (Math.abs(ms) < 1_000) return "now";
  const said = duration(Math.floor(Math.abs(ms) / 1_000) * 1_000);
  return ms < 0 ? `${said} ago` : `in ${said}`;
}

const KEY = /^[+-]?\d{4,}-\d\d-\d\dT[^,]*Z,[^,]*,[^,]*$/;

/** A task's key as one reads it, and any other text as it is; the text form escapes what commands and addresses need escaped. */
export function keyWords(text) {
  if (!KEY.test(text)) return text;
  return text
    .split(",")
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    })
    .join(",");
}

/** A moment as a picker holds it: the clock of the zone that is shown, to the millisecond if need be. */
export function picked(text) {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return "";
  const shift = inUtc ? 0 : new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - shift).toISOString().slice(0, at % 1_000 ? 23 : 19);
}

/** What was picked as RFC 3339; nothing where nothing was. */
export function pickedInstant(text) {
  const at = Date.parse(text && inUtc ? `${text}Z` : text);
  if (Number.isNaN(at)) return "";
  return `${new Date(at).toISOString().slice(0, at % 1_000 ? 23 : 19)}Z`;
}

/** Bytes of memory in words. */
export function size(bytes) {
  return `${Math.round(bytes / 1_000_000)} MB`;
}

/** The part of a total that is done, from 0 to 1. */
export function shareOf(done, total) {
  return Math.min(1, Math.max(0, done / total));
}

/** For how long something has lasted that began at a moment. */
export function since(text) {
  const ms = Math.max(0, nowMs() - Date.parse(text));
  return duration(Math.floor(ms / 1_000) * 1_000);
}

/**
 * A moment: the time of day where it is of today, else the date too, and the zone it is told in.
 * Without `zone` where something beside it names the zone: an axis, the head of a column.
 */
export function moment(text, { seconds = true, date = null, zone = true } = {}) {
  if (!text) return UNKNOWN;
  const at = new Date(text);
  const shownIn = inUtc ? { timeZone: "UTC" } : {};
  const day = new Intl.DateTimeFormat("en-CA", { ...shownIn, dateStyle: "short" });
  const time = new Intl.DateTimeFormat("en-GB", {
    ...shownIn,
    timeStyle: seconds ? "medium" : "short",
  }).format(at);
  const isToday = day.format(at) === day.format(new Date(nowMs()));
  const said = (date ?? !isToday) ? `${day.format(at)} ${time}` : time;
  return zone ? `${said} ${zoneName(at)}` : said;
}

/** The name of the zone that moments are shown in, in full: `UTC`, `Europe/Berlin`. */
export function zone() {
  return inUtc ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The same in short, as it is at a moment: `UTC`, `GMT+2`. */
export function zoneName(at = new Date(nowMs())) {
  if (inUtc) return "UTC";
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(at);
  return parts.find((each) => each.type === "timeZoneName").value;
}

/** A moment as an element: how far away, and exactly when on top of it. */
export function when(text, { exact = false, zone: isZoned = true } = {}) {
  if (!text) return unknown();
  const said = exact ? moment(text, { zone: isZoned }) : away(text);
  const full = moment(text, { date: true });
  return h("time", { datetime: text, title: exact ? `${full} (${away(text)})` : full }, said);
}

/** The word for what nobody knows. */
export function unknown() {
  return h("span", { class: "unknown", title: "No node reports on it right now" }, UNKNOWN);
}

/** Text, or the word for what nobody knows. */
export function known(value, format = count) {
  return isUnknown(value) ? unknown() : format(value);
}

function isUnknown(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

function trimmed(value) {
  return value < 10 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
}
