/**
 * Elements from words: everything that is shown is built here.
 *
 * Text goes in as text and never as markup, so whatever a task, an error or a header says stays
 * something to read.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element.  Attributes: `on` holds listeners, `data` and `vars` hold data attributes and
 * CSS variables, `true` sets an attribute without a value, null and false leave it out.
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on")
      for (const [type, act] of Object.entries(value)) element.addEventListener(type, act);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "vars")
      for (const [each, said] of Object.entries(value)) element.style.setProperty(each, said);
    else if (key === "class") element.className = value;
    else if (
      key in element &&
      ["value", "checked", "disabled", "hidden", "indeterminate"].includes(key)
    )
      element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

/** Put other children into an element. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Set an element's text where it is another one, so that a reader's selection stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((each) => each !== null && each !== undefined && each !== false);
}

const PATHS = {
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.2 2",
  now: "M3 12h4l3-8 4 16 3-8h4",
  ahead: "M4 20V10M9.3 20V4M14.7 20v-7M20 20V8",
  heat: "M4 4h4v4H4zM10 4h4v4h-4zM16 4h4v4h-4zM4 10h4v4H4zM10 10h4v4h-4zM16 10h4v4h-4zM4 16h4v4H4zM10 16h4v4h-4z",
  map: "M3 5h18v14H3zM3 12h18M9 5v14M15 5v14",
  list: "M8 6h13M8 12h13M8 18h13M3.5 6h.01M3.5 12h.01M3.5 18h.01",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  nodes: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  repeat: "M17 2l4 4-4 4M3 11V9a3 3 0 0 1 3-3h15M7 22l-4-4 4-4M21 13v2a3 3 0 0 1-3 3H3",
  bell: "M6 9a6 6 0 1 1 12 0c0 6 2.5 7 2.5 7h-17S6 15 6 9M10 20a2.2 2.2 0 0 0 4 0",
  relay: "M4 7h11l-3-3M20 17H9l3 3",
  letter: "M3 6h18v13H3zM3 7l9 7 9-7",
  journal: "M6 3h12v18H6zM9.5 8h5M9.5 12h5M9.5 16h3",
  gear: "M12 15.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4ZM12 3v2.5M12 18.5V21M3 12h2.5M18.5 12H21M5.6 5.6l1.8 1.8M16.6 16.6l1.8 1.8M18.4 5.6l-1.8 1.8M7.4 16.6l-1.8 1.8",
  good: "M5 12.5l4.5 4.5L19 7.5",
  alert: "M12 8v5M12 16.5h.01M12 3l9.5 17h-19z",
  question: "M9 9a3 3 0 1 1 4.2 2.8c-.8.4-1.2 1-1.2 2.2M12 17.5h.01",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.5v15l12-7.5z",
  retry: "M20 11a8 8 0 1 0-2.3 6M20 5v6h-6",
  drop: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  stop: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM8.5 8.5l7 7M15.5 8.5l-7 7",
  move: "M5 5h14v15H5zM5 10h14M9 3v4M15 3v4",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM16 16l5 5",
  more: "M4 7h16M4 12h16M4 17h16",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  back: "M15 5l-7 7 7 7",
};

/** Draw an icon; it is decoration, the word beside it is what is read out. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const marks = {
    viewBox: "0 0 24 24",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.8",
  };
  for (const [key, value] of Object.entries({
    ...marks,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
