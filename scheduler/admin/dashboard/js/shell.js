/**
 * The frame around the screens: where one can go, how fresh the picture is, what holds everywhere.
 */

import { ask } from "./api.js";
import { fill, h, icon, say } from "./dom.js";
import { count, counted, duration, isUtc, setUtc, zone, zoneName } from "./format.js";
import { showKeys } from "./keys.js";
import { freshness, latest, on } from "./live.js";
import { address, reopen } from "./router.js";
import { whoami } from "./session.js";
import { switchTheme } from "./theme.js";

const LOOK_MS = 500;
const SERVICES_MS = 60_000;
const BOTTOM = ["now", "tasks", "blocked", "nodes"];

/** Make the frame; `show` puts a screen into it. */
export function makeShell(screens) {
  const listed = screens.filter((each) => !each.hidden);
  const tallies = [];
  const links = [];
  const heads = [];
  let inUse = {};
  const places = h("nav", { class: "places", "aria-label": "Screens", id: "places" });
  const title = h("h1", { tabindex: "-1" });
  const pulse = h("span", { class: "pulse", role: "status" });
  const notices = h("div", { class: "notices" });
  const main = h("main", { class: "content", id: "main", tabindex: "-1" });
  const more = h(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      "aria-controls": "places",
      on: { click: () => openPlaces(!places.classList.contains("open")) },
    },
    icon("more"),
    "More",
  );
  const bottom = h("nav", { class: "bottom", "aria-label": "Main screens" });
  const keys = h(
    "button",
    {
      class: "button plain wide-only",
      type: "button",
      "aria-label": "Keyboard shortcuts",
      title: "Keyboard shortcuts (?)",
      on: { click: () => showKeys(listed) },
    },
    h("kbd", {}, "?"),
  );
  const scheme = h(
    "button",
    {
      class: "button plain",
      type: "button",
      "aria-label": "Light or dark",
      title: "Light or dark (d)",
      on: { click: switchTheme },
    },
    icon("theme"),
  );
  const zoneButton = h("button", {
    class: "button plain",
    type: "button",
    title: "Switch between UTC and this browser's time zone",
    on: { click: switchZone },
  });
  document.body.append(
    h(
      "div",
      { class: "shell" },
      places,
      h(
        "div",
        { class: "page" },
        h("header", { class: "top" }, title, pulse, zoneButton, scheme, keys),
        notices,
        main,
      ),
      bottom,
    ),
  );
  let shown = null;

  function switchZone() {
    setUtc(!isUtc());
    reopen();
  }

  function nameZone() {
    say(zoneButton, zoneName());
    zoneButton.setAttribute("aria-label", `Times are in ${zone()}`);
  }

  function place(screen) {
    const tally = h("span", { class: "tally", hidden: true });
    if (screen.path === "blocked") tallies.push(tally);
    const link = h(
      "a",
      { class: "place", href: address(screen.path), data: { path: screen.path } },
      icon(screen.mark),
      screen.short ?? screen.title,
      tally,
    );
    if (screen.service) link.dataset.service = screen.path;
    links.push(link);
    if (!screen.group) return link;
    const head = h("h3", {}, screen.group);
    const services = listed.filter((each) => each.service).map((each) => each.path);
    if (screen.service) head.dataset.service = services.join(" ");
    heads.push(head);
    return [head, link];
  }

  function bottomPlace(path) {
    const screen = listed.find((each) => each.path === path);
    const tally = h("span", { class: "tally", hidden: true });
    if (path === "blocked") tallies.push(tally);
    const link = h(
      "a",
      { href: address(path), data: { path } },
      icon(screen.mark),
      screen.short ?? screen.title.split(" ")[0],
      tally,
    );
    links.push(link);
    return link;
  }

  function openPlaces(isOpen) {
    places.classList.toggle("open", isOpen);
    more.setAttribute("aria-expanded", String(isOpen));
  }

  function begin() {
    fill(
      places,
      h("a", { class: "brand", href: address("now") }, icon("clock"), "Hourhand"),
      listed.map(place),
      h(
        "div",
        { class: "foot" },
        h("div", {}, whoami.who, whoami.mayAct ? "" : " (view only)"),
        h("div", {}, `version ${whoami.version}`),
      ),
    );
    fill(bottom, BOTTOM.map(bottomPlace), more);
    on("blocked", ({ count: number }) => {
      for (const tally of tallies) {
        tally.hidden = !number;
        tally.dataset.tone = "bad";
        say(tally, count(number));
      }
    });
    setInterval(look, LOOK_MS);
    look();
    setInterval(lookServices, SERVICES_MS);
    lookServices();
  }

  /** A service that keeps nothing has no place in the navigation; its keys and address still work. */
  async function lookServices() {
    try {
      inUse = await ask("doors");
    } catch {
      // What was known stays; the notice on top says that nothing is heard.
    }
    showServices();
  }

  function showServices() {
    for (const link of [...links, ...heads]) {
      const paths = link.dataset.service?.split(" ");
      if (!paths) continue;
      link.hidden = !paths.some((path) => inUse[path]?.inUse || shown?.screen.path === path);
    }
  }

  function show(screen, opened) {
    openPlaces(false);
    shown = { screen, opened };
    document.body.dataset.place = screen.path;
    document.title = `${screen.title} – Hourhand`;
    say(title, screen.title);
    for (const link of links) {
      if (link.dataset.path === (screen.parent ?? screen.path))
        link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    showServices();
    nameZone();
    fill(main, opened.element);
    scrollTo(0, 0);
    if (document.activeElement === document.body || document.activeElement?.closest(".places"))
      main.focus({ preventScroll: true });
  }

  /** How old the picture is, said in words and never left to be guessed. */
  function look() {
    const { state, ageMs, error } = freshness();
    pulse.dataset.state = state;
    say(
      pulse,
      state === "live"
        ? "live"
        : ageMs === null
          ? "connecting …"
          : `${duration(Math.floor(ageMs / 1_000) * 1_000)} old`,
    );
    const found = [];
    if (state === "lost" && ageMs !== null)
      found.push([
        "bad",
        "alert",
        `The admin API does not answer. These figures are ${duration(Math.floor(ageMs / 1_000) * 1_000)} old and may be wrong; trying again.`,
      ]);
    else if (state === "late")
      found.push([
        "bad",
        "alert",
        `The store has not been read for ${duration(ageMs === null ? null : Math.floor(ageMs / 1_000) * 1_000)}${error ? `: ${error}` : ""}. These figures may be wrong.`,
      ]);
    const status = latest.status;
    if (state === "live" && status?.partitions.unknown)
      found.push([
        "warn",
        "question",
        `No node reports on ${counted(status.partitions.unknown, "partition")}: their figures are unknown.`,
        "nodes",
        "See which",
      ]);
    if (status?.paused.all)
      found.push([
        "warn",
        "pause",
        "Everything is paused: no attempt starts.",
        "activity",
        "See who paused it",
      ]);
    const said = JSON.stringify(found);
    if (notices.dataset.said === said) return;
    notices.dataset.said = said;
    fill(
      notices,
      found.map(([tone, mark, words, path, link]) =>
        h(
          "div",
          { class: "notice", role: "alert", data: { tone } },
          icon(mark),
          h("span", {}, words),
          path && h("a", { href: address(path) }, link),
        ),
      ),
    );
  }

  return {
    begin,
    show,
    shown: () => shown,
    refuse: (error) =>
      fill(
        main,
        h(
          "div",
          { class: "empty", role: "alert" },
          icon("alert"),
          h("strong", {}, "The dashboard could not start"),
          h("span", {}, error.message),
        ),
      ),
  };
}
