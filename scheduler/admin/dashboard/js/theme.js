/**
 * Light or dark: as the machine says, unless somebody chose.  Tells charts when colours change.
 */

const KEY = "hourhand-theme";
const ORDER = ["auto", "light", "dark"];
const probes = new Map();

/** `auto`, `light` or `dark`. */
export function theme() {
  const kept = localStorage.getItem(KEY);
  return ORDER.includes(kept) ? kept : "auto";
}

/** Choose. */
export function setTheme(chosen) {
  localStorage.setItem(KEY, chosen);
  apply();
}

/** Take the other scheme than the one that is shown. */
export function switchTheme() {
  const isDark =
    theme() === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : theme() === "dark";
  setTheme(isDark ? "light" : "dark");
}

/** Show what was chosen, now and whenever the machine changes its mind. */
export function beginTheme() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply();
}

/** Call `act` when colours change; returns how to stop. */
export function onColours(act) {
  addEventListener("colours", act);
  return () => removeEventListener("colours", act);
}

/** Return what a colour of the design system is right now, as a canvas takes it. */
export function colour(name) {
  let found = probes.get(name);
  if (!found) {
    const probe = document.createElement("i");
    probe.hidden = true;
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    found = getComputedStyle(probe).color;
    probe.remove();
    probes.set(name, found);
  }
  return found;
}

/** The same colour, let through. */
export function faded(name, share) {
  return colour(name).replace(
    /^rgb\((.*)\)$/,
    (_, parts) => `rgba(${parts.replaceAll(" ", "").split(",").join(", ")}, ${share})`,
  );
}

function apply() {
  if (theme() === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
  changed();
}

function changed() {
  probes.clear();
  dispatchEvent(new Event("colours"));
}
