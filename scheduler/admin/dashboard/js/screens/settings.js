/** Settings: of this process with secrets hidden, and how this browser shows things. */

import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { isUtc, setUtc, zone } from "../format.js";
import { button, card, pairs, refusal, segments } from "../parts.js";
import { reopen } from "../router.js";
import { hasToken, signOut, whoami } from "../session.js";
import { setTheme, theme } from "../theme.js";

export const screen = { path: "settings", title: "Settings", mark: "gear", key: "s", open };

function open() {
  const tree = h("div", { class: "settings-tree" });
  const find = h("input", {
    class: "field",
    type: "search",
    placeholder: "Find a setting",
    "aria-label": "Find a setting",
    autocomplete: "off",
    on: { input: () => show() },
  });
  const element = h(
    "div",
    { class: "screen" },
    card(
      "This browser",
      {},
      pairs([
        [
          "Theme",
          segments(
            "Theme",
            [
              ["auto", "System"],
              ["light", "Light"],
              ["dark", "Dark"],
            ],
            theme(),
            setTheme,
          ),
        ],
        [
          "Times",
          segments(
            "Times",
            [
              [true, "UTC"],
              [false, "Local"],
            ],
            isUtc(),
            (chosen) => {
              setUtc(chosen);
              reopen();
            },
          ),
        ],
        ["Time zone", zone()],
        ["Signed in as", whoami.who],
        ["Access", whoami.mayAct ? "view and act" : "view only"],
        hasToken() && ["Token", button("Sign out", { kind: "small", act: signOut })],
      ]),
    ),
    card("This admin process", { aside: find }, tree),
  );
  let groups = [];

  async function look() {
    try {
      const { settings } = await ask("settings");
      groups = grouped("", settings);
      show();
    } catch (error) {
      fill(tree, refusal(error));
    }
  }

  function show() {
    const wanted = find.value.trim().toLowerCase();
    const found = groups
      .map(([group, entries]) => [
        group,
        entries.filter(([name]) => `${group}.${name}`.toLowerCase().includes(wanted)),
      ])
      .filter(([, entries]) => entries.length);
    fill(
      tree,
      found.map(([group, entries]) =>
        h(
          "section",
          {},
          h("h3", {}, group || "general"),
          pairs(entries.map(([name, value]) => [name, valueOf(value)])),
        ),
      ),
    );
  }

  look();
  return { element, refresh: look };
}

/** Settings by group: `[["kafka.tls", [["enabled", false], …]], …]`. */
function grouped(name, settings) {
  const entries = Object.entries(settings);
  const inner = entries.filter(([, value]) => isGroup(value) && Object.keys(value).length);
  const plain = entries.filter((each) => !inner.includes(each));
  return [
    [name, plain],
    ...inner.flatMap(([part, value]) => grouped(name ? `${name}.${part}` : part, value)),
  ];
}

function isGroup(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function valueOf(value) {
  if (value === null) return h("span", { class: "faint" }, "not set");
  if (Array.isArray(value))
    return value.length ? value.join(", ") : h("span", { class: "faint" }, "none");
  if (isGroup(value)) return h("span", { class: "faint" }, "none");
  return String(value);
}
