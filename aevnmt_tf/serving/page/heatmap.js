// Attention as a heat map that is a grid for the keyboard, and as a table of numbers.

import { build, piece } from "./text.js";

const HINT = "Point at a square, or move through them with the arrow keys.";

// Without the padding: the server may have put the sentence into a batch with longer ones.
export function unpadded({ source_pieces, target_pieces, attention }) {
  const source = source_pieces.slice(0, lastNonEmpty(source_pieces));
  const target = target_pieces.slice(0, lastNonEmpty(target_pieces));
  const weights = attention.slice(0, target.length).map((row) => row.slice(0, source.length));
  return { source, target, weights };
}

function lastNonEmpty(pieces) {
  let end = pieces.length;
  while (end && pieces[end - 1] === "") end--;
  return end;
}

// [B, Ty, Tx] of one sentence: rows are pieces of the translation, columns of the source.
export function heatMap({ source, target, weights }) {
  const readout = build("p", { class: "readout", "aria-hidden": "true" }, HINT);
  const table = build("table", {
    class: source.length > 26 ? "heat dense" : "heat",
    role: "grid",
    "aria-label": "Attention. Rows: pieces of the translation. Columns: pieces of the source.",
  });
  const columns = source.map((text) => build("th", { scope: "col" }, piece(text)));
  table.append(build("thead", {}, build("tr", {}, build("td"), ...columns)));
  const body = build("tbody");
  const rows = target.map((text) => build("th", { scope: "row" }, piece(text)));
  const cells = weights.map((row, y) => row.map((weight, x) => {
    const cell = build("td", {
      tabindex: "-1",
      role: "gridcell",
      "aria-label": `${target[y]} looks at ${source[x]}: ${weight.toFixed(2)}`,
    });
    cell.style.setProperty("--weight", weight.toFixed(3));
    Object.assign(cell.dataset, { x, y });
    return cell;
  }));
  cells.forEach((row, y) => body.append(build("tr", {}, rows[y], ...row)));
  table.append(body);

  let marked = null;
  const mark = (cell) => {
    if (marked) for (const head of marked) head.classList.remove("on");
    marked = null;
    readout.replaceChildren(HINT);
    if (!cell) return;
    const { x, y } = position(cell);
    marked = [rows[y], columns[x], cell];
    for (const head of marked) head.classList.add("on");
    const value = build("strong", {}, weights[y][x].toFixed(2));
    readout.replaceChildren(piece(target[y]), " looks at ", piece(source[x]), ": ", value);
  };
  wire(table, cells, mark);
  return [build("div", { class: "scroll" }, table), readout];
}

function position(cell) {
  return { x: Number(cell.dataset.x), y: Number(cell.dataset.y) };
}

// Hover and focus show a value; one cell is in the tab order, arrows move from there.
function wire(table, cells, mark) {
  let current = cells[0]?.[0];
  if (!current) return;
  current.tabIndex = 0;
  const focused = () => (table.contains(document.activeElement) ? document.activeElement : null);
  table.addEventListener("mouseover", (event) => {
    mark(event.target.closest("td[data-x]") ?? focused());
  });
  table.addEventListener("mouseleave", () => mark(focused()));
  table.addEventListener("focusin", (event) => {
    const cell = event.target.closest("td[data-x]");
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    mark(cell);
  });
  table.addEventListener("focusout", () => mark(null));
  table.addEventListener("click", (event) => event.target.closest("td[data-x]")?.focus());
  table.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey) return;
    const { x, y } = position(current);
    const whole = event.ctrlKey;
    const [bottom, right] = [cells.length - 1, cells[0].length - 1];
    const moves = {
      ArrowLeft: [y, x - 1], ArrowRight: [y, x + 1], ArrowUp: [y - 1, x], ArrowDown: [y + 1, x],
      Home: [whole ? 0 : y, 0], End: [whole ? bottom : y, right],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    cells[Math.min(Math.max(move[0], 0), bottom)][Math.min(Math.max(move[1], 0), right)].focus();
  });
}

// The same numbers in a plain table, made when it is opened.
export function numbers({ source, target, weights }) {
  const details = build("details", { class: "numbers" }, build("summary", {}, "As numbers"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const head = source.map((text) => build("th", { scope: "col" }, piece(text)));
    const rows = weights.map((row, y) => build(
      "tr", {}, build("th", { scope: "row" }, piece(target[y])),
      ...row.map((weight) => build("td", {}, weight.toFixed(2))),
    ));
    const table = build(
      "table", {},
      build("caption", { class: "visually-hidden" }, "Attention weights"),
      build("thead", {}, build("tr", {}, build("td"), ...head)),
      build("tbody", {}, ...rows),
    );
    details.append(build("div", { class: "scroll", tabindex: "0" }, table));
  });
  return details;
}
