/**
 * A map of cells, rows by columns: drawn on one canvas, walked through by mouse or arrow keys.
 *
 * It decides where a cell is; how one is filled and what it says are the caller's.
 */

import { h } from "./dom.js";
import { colour, onColours } from "./theme.js";

const AXIS_HEIGHT = 22;

/**
 * Make a map.  `paint(context, row, column, box)` fills a cell, `tell(row, column)` says what it
 * holds (null for nothing to say), `open(row, column)` is called where one is clicked.
 */
export function makeGrid({
  label,
  labelWidth = 64,
  rowHeight = 18,
  gap = 1,
  rowName,
  columnName,
  paint,
  tell,
  open = null,
  overlay = null,
}) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const tip = h("div", { class: "tip", hidden: true });
  const spoken = h("div", { class: "unseen", "aria-live": "polite" });
  const element = h("div", { class: "grid-room" }, canvas, tip, spoken);
  let rows = 0;
  let columns = 0;
  let at = null;

  function box(row, column) {
    const width = (element.clientWidth - labelWidth) / columns;
    const x = labelWidth + column * width;
    return { x, y: row * rowHeight, width: Math.max(1, width - gap), height: rowHeight - gap };
  }

  function draw() {
    const width = element.clientWidth;
    if (!width || !rows || !columns) return;
    const height = rows * rowHeight + AXIS_HEIGHT;
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(devicePixelRatio, devicePixelRatio);
    context.font = "11px Inter, sans-serif";
    context.textBaseline = "middle";
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1)
        paint(context, row, column, box(row, column));
    }
    names(context, width, height);
    overlay?.(context, { box, height: rows * rowHeight, columns });
    if (at) {
      const { x, y, width: w, height: tall } = box(at.row, at.column);
      context.strokeStyle = colour("ink");
      context.lineWidth = 1.5;
      context.strokeRect(x - 0.5, y - 0.5, w + 1, tall + 1);
    }
  }

  function names(context, width, height) {
    context.fillStyle = colour("ink-faint");
    context.textAlign = "right";
    const everyRow = Math.ceil(14 / rowHeight);
    for (let row = 0; row < rows; row += everyRow)
      context.fillText(rowName(row), labelWidth - 8, row * rowHeight + rowHeight / 2);
    context.textAlign = "center";
    let end = 0;
    for (let column = 0; column < columns; column += 1) {
      const name = columnName(column);
      if (!name) continue;
      const { x, width: w } = box(0, column);
      const half = context.measureText(name).width / 2;
      const middle = Math.min(width - half, Math.max(labelWidth + half, x + w / 2));
      if (middle - half < end + 12) continue;
      context.fillText(name, middle, height - AXIS_HEIGHT / 2 + 2);
      end = middle + half;
    }
  }

  function cellAt(event) {
    const bounds = canvas.getBoundingClientRect();
    const width = (bounds.width - labelWidth) / columns;
    const column = Math.floor((event.clientX - bounds.left - labelWidth) / width);
    const row = Math.floor((event.clientY - bounds.top) / rowHeight);
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  }

  function show(cell) {
    at = cell;
    const said = cell && tell(cell.row, cell.column);
    tip.hidden = !said;
    canvas.style.cursor = said && open ? "pointer" : "default";
    if (said) {
      tip.textContent = said;
      const { x, y, width } = box(cell.row, cell.column);
      const room = element.clientWidth;
      tip.style.top = `${y + rowHeight + 6}px`;
      tip.style.left = `${Math.max(0, Math.min(x + width / 2 - tip.offsetWidth / 2, room - tip.offsetWidth))}px`;
    }
    draw();
  }

  canvas.addEventListener("mousemove", (event) => {
    const cell = cellAt(event);
    if (cell?.row !== at?.row || cell?.column !== at?.column) show(cell);
  });
  canvas.addEventListener("mouseleave", () => show(null));
  canvas.addEventListener("blur", () => show(null));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell && open && tell(cell.row, cell.column)) open(cell.row, cell.column);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    if (step && rows && columns) {
      event.preventDefault();
      const from = at ?? { row: 0, column: Math.floor(columns / 2) };
      show({
        row: (from.row + step[0] + rows) % rows,
        column: (from.column + step[1] + columns) % columns,
      });
      spoken.textContent = tell(at.row, at.column) ?? "nothing";
    } else if (event.key === "Enter" && at && open && tell(at.row, at.column)) {
      open(at.row, at.column);
    }
  });
  const sizes = new ResizeObserver(draw);
  sizes.observe(element);
  const stop = onColours(draw);

  return {
    element,
    /** Draw so many rows and columns anew. */
    update(rowCount, columnCount) {
      [rows, columns] = [rowCount, columnCount];
      draw();
    },
    close() {
      sizes.disconnect();
      stop();
    },
  };
}
