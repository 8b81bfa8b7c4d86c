// Where a layer's value differs, as the result file has it: a small plane of cells, and elements by the size of their error.
import { h, svg } from "./dom";
import type { Layer } from "./document";
import { count, short } from "./format";
import { bars } from "./parts";

// As src/verify/judging/difference.cpp has them.
const STOPS = [[59, 15, 112], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]];
const NOTHING = [24, 24, 27];
const MISSING = [0, 190, 255];

function colour(cell: string): string {
  let rgb = cell === "." ? NOTHING : MISSING;
  if (cell >= "a" && cell <= "z") {
    const at = ((cell.charCodeAt(0) - 97) / 25) * (STOPS.length - 1);
    const i = Math.min(Math.floor(at), STOPS.length - 2);
    rgb = STOPS[i].map((from, k) => Math.round(from + (STOPS[i + 1][k] - from) * (at - i)));
  }
  return `rgb(${rgb.join(" ")})`;
}

// In words, for those who cannot see the colour.
function words(cell: string, largest: number): string {
  if (cell === ".") return "equal";
  if (cell === "!") return "a number on one side only";
  return `about ${short(largest / 2 ** (122 - cell.charCodeAt(0)))}`;
}

// The cell that holds an element.
function cellOf(at: number[], shape: number[], rows: number, columns: number): [number, number] {
  const width = shape[shape.length - 1] ?? 1;
  const height = shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const row = at.slice(0, -1).reduce((index, place, axis) => index * shape[axis] + place, 0);
  return [Math.floor((row * rows) / height), Math.floor(((at[at.length - 1] ?? 0) * columns) / width)];
}

function scale(): SVGElement {
  const letters = [..."abcdefghijklmnopqrstuvwxyz"];
  return svg("svg", { class: "heat-scale", viewBox: "0 0 26 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    letters.map((letter, i) => svg("rect", { x: i, y: 0, width: 1.05, height: 1, fill: colour(letter) })));
}

export function heatmap(layer: Layer): HTMLElement | "" {
  const picture = layer.picture;
  if (!picture) return "";
  const { rows, columns, cells, largest } = picture;
  const cell = Math.max(8, Math.min(16, Math.floor(416 / columns)));
  const high = Math.max(cell, Math.min(2 * cell, Math.floor(160 / rows)));
  const boxes = [...cells].map((letter, i) => {
    const box = svg("rect", { x: (i % columns) * cell, y: Math.floor(i / columns) * high, width: cell, height: high, fill: colour(letter) });
    box.append(svg("title", {}, words(letter, largest)));
    return box;
  });
  const worst = layer.largest_difference;
  const [row, column] = worst ? cellOf(worst, layer.shape, rows, columns) : [-1, -1];
  // Black around white shows on every colour.
  const frame = (cls: string, by: number) => svg("rect", { class: cls, x: column * cell - by, y: row * high - by, width: cell + 2 * by, height: high + 2 * by });
  const mark = row < 0 ? "" : [frame("around", 1), frame("worst", -1)];
  const missing = cells.includes("!") ? "; blue: a number on one side only" : "";
  const plane = layer.shape.length > 1 ? `down: [${layer.shape.slice(0, -1).join(", ")}], across: the last axis, ${layer.shape[layer.shape.length - 1]}` : `across: ${layer.shape[0] ?? 1}`;
  return h("figure", { class: "heatmap" },
    h("h3", {}, "Where it differs"),
    svg("svg", { class: "heat-cells", viewBox: `0 0 ${columns * cell} ${rows * high}`, width: columns * cell, role: "img", "aria-label": `differences of ${layer.tap}, largest ${short(largest)}${worst ? ` at [${worst.join(", ")}]` : ""}` }, boxes, mark),
    h("div", { class: "heat-key" }, h("span", {}, short(largest / 2 ** 25)), scale(), h("span", {}, short(largest))),
    h("figcaption", {}, `${plane}. A cell is the largest difference in it; black: equal${missing}.`, worst ? ` Framed: the largest, at [${worst.join(", ")}].` : ""));
}

function histogram(title: string, counts: number[], labels: string[], caption: string): HTMLElement {
  const total = counts.reduce((a, b) => a + b, 0);
  const said = counts.map((n, i) => `${labels[i]}: ${n}`).join(", ");
  return h("figure", { class: "histogram" }, h("h3", {}, title), bars(counts, `${title}: ${said}`, 260, 60),
    h("div", { class: "ends" }, h("span", {}, labels[0]), h("span", {}, labels[labels.length - 1])),
    h("figcaption", {}, `${caption} (${count(total)} elements)`));
}

export function histograms(layer: Layer): HTMLElement | "" {
  const shown: HTMLElement[] = [];
  if (layer.errors) {
    const { first, counts } = layer.errors;
    shown.push(histogram("Errors by size", counts, counts.map((_, i) => `1e${first + i}`), "elements that differ, by powers of ten"));
  }
  if (layer.ulps.length > 1) {
    const labels = layer.ulps.map((_, i) => (i < 2 ? String(i) : i === 12 ? "2048+" : `${2 ** (i - 1)}\u2013${2 ** i - 1}`));
    shown.push(histogram("Units in the last place", layer.ulps, labels, "by how many representable numbers ours and PyTorch's are apart"));
  }
  return shown.length ? h("div", { class: "histograms" }, shown) : "";
}
