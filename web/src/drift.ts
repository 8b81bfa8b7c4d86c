// Drift: how far each layer is from the exact value, along the depth of the model.
import { h, name, replace, svg } from "./dom";
import { type Layer, layerName, rank, type Report, VERDICTS } from "./document";
import { short, size } from "./format";
import { layerDetail } from "./detail";
import { List } from "./list";
import { howTo, matcher, search, sign, sorted, sortHead, type Tab } from "./parts";
import { go, keep } from "./route";

const HEIGHT = 190;
const LEFT = 46;
const BOTTOM = 20;

// Errors on a log scale; what is exact lies on the lowest line.
interface Chart {
  element: SVGElement;
  point: (layer: number) => void; // moves the line of the selected layer
}

function chart(layers: Layer[], width: number, select: (layer: Layer) => void, tell: (layer?: Layer) => void): Chart {
  const finite = layers.flatMap((l) => [l.error_rms, l.floor_rms, l.whole_rms]).map(size).filter((v) => v > 0 && v < Infinity);
  const low = finite.length ? Math.floor(Math.log10(Math.min(...finite))) - 1 : -9;
  const high = finite.length ? Math.max(low + 2, Math.ceil(Math.log10(Math.max(...finite)))) : 0;
  const x = (i: number) => LEFT + ((width - LEFT - 8) * (i + 0.5)) / Math.max(1, layers.length);
  const y = (value: number) => {
    const log = value <= 0 ? low : Math.min(high, Math.max(low, value === Infinity ? high : Math.log10(value)));
    return 6 + (HEIGHT - BOTTOM - 6) * (1 - (log - low) / (high - low));
  };
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const grid: SVGElement[] = [];
  for (let power = low; power <= high; power += every)
    grid.push(svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(10 ** power), y2: y(10 ** power) }),
      svg("text", { class: "axis", x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, power === low ? "exact" : `1e${power}`));
  const line = (value: (l: Layer) => number | undefined) => {
    let path = "";
    let pen = false;
    layers.forEach((layer, i) => {
      const v = value(layer);
      if (v === undefined) return void (pen = false);
      path += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    });
    return path;
  };
  const few = layers.length <= 3000;
  const many = layers.length > width / 3; // dots would cover each other
  const dots = layers.map((layer, i) => {
    const cls = VERDICTS[rank(layer.verdict)]?.cls ?? "";
    if (!few && cls === "good") return "";
    const [cx, cy] = [x(i).toFixed(1), y(size(layer.error_rms)).toFixed(1)];
    const mark = cls === "bad" ? svg("path", { class: `dot ${cls}`, d: `M${cx} ${cy}m-5-5l10 10m0-10l-10 10` }) : svg("circle", { class: `dot ${cls}`, cx, cy, r: many ? 1.3 : 2.6 });
    return mark;
  });
  const cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT - BOTTOM });
  const picture = svg("svg", { class: many ? "chart many" : "chart", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "error of each layer along the depth of the model, logarithmic" },
    grid,
    svg("path", { class: "floor", d: line((l) => size(l.floor_rms)) }),
    svg("path", { class: "whole", d: line((l) => (l.whole_rms === undefined ? undefined : size(l.whole_rms))) }),
    cursor,
    dots,
    svg("text", { class: "axis", x: LEFT, y: HEIGHT - 4 }, "first layer"),
    svg("text", { class: "axis", x: width - 8, y: HEIGHT - 4, "text-anchor": "end" }, "last layer"));
  const under = (event: Event) => {
    const box = picture.getBoundingClientRect();
    const at = (((event as MouseEvent).clientX - box.left) / box.width) * width;
    const index = Math.floor(((at - LEFT) / (width - LEFT - 8)) * layers.length);
    return layers[Math.min(layers.length - 1, Math.max(0, index))];
  };
  picture.addEventListener("click", (event) => select(under(event)));
  picture.addEventListener("mousemove", (event) => tell(under(event)));
  picture.addEventListener("mouseleave", () => tell());
  const point = (layer: number) => {
    cursor.setAttribute("x1", String(x(layer)));
    cursor.setAttribute("x2", String(x(layer)));
  };
  return { element: picture, point };
}

const COLUMNS = [
  { key: "verdict", title: "verdict", cls: "c-sign" },
  { key: "tap", title: "layer", cls: "c-name" },
  { key: "op", title: "op", cls: "c-op" },
  { key: "error", title: "error", cls: "number" },
  { key: "floor", title: "floor", cls: "number wide" },
  { key: "ratio", title: "\u00d7 floor", cls: "number" },
  { key: "whole", title: "whole run", cls: "number wide" },
];

const ratio = (l: Layer): number => (size(l.floor_rms) > 0 ? size(l.error_rms) / size(l.floor_rms) : size(l.error_rms) > 0 ? Infinity : 0);

function keyOf(layer: Layer, key: string): number | string {
  if (key === "verdict") return rank(layer.verdict);
  if (key === "error") return size(layer.error_rms);
  if (key === "floor") return size(layer.floor_rms);
  if (key === "ratio") return ratio(layer);
  if (key === "whole") return size(layer.whole_rms);
  return key === "op" ? layer.op : layer.tap;
}

export function drift(report: Report): Tab {
  if (!report.layers.length)
    return { element: h("div", { class: "page" }, howTo("Drift shows the error of every layer beside its rounding floor. It is read from the result of a verification:",
      report.raw.summary.next[0]?.command ?? "pycandle verify MODEL --out result.jsonl")) };
  let options: Record<string, string> = {};
  let selected: Layer | undefined;
  const plot = h("div", { class: "plot" });
  const detail = h("div", { class: "side", "aria-live": "polite" });
  const head = h("div", {});
  const choose = (layer: Layer) => go("drift", layerName(layer), options);
  const list = new List<Layer>({
    label: "layers",
    role: "listbox",
    height: 26,
    select: choose,
    row: (layer, now) =>
      h("div", { class: `row ${now ? "selected" : ""}` },
        h("span", { class: "cell c-sign" }, sign(rank(layer.verdict))),
        h("span", { class: "cell c-name" }, name(layer.tap), layer.input ? h("span", { class: "dim" }, ` ${layer.input}`) : ""),
        h("span", { class: "cell c-op" }, layer.op),
        h("span", { class: "cell number" }, short(layer.error_rms)),
        h("span", { class: "cell number wide" }, short(layer.floor_rms)),
        h("span", { class: "cell number" }, ratio(layer) === 0 ? "" : short(ratio(layer) === Infinity ? "inf" : ratio(layer))),
        h("span", { class: "cell number wide" }, layer.whole_rms === undefined ? "" : short(layer.whole_rms))),
  });
  const status = h("span", { class: "dim", role: "status" });
  const refresh = () => {
    const matches = matcher(options.q ?? "");
    const shown = sorted(report.layers.filter((l) => (!options.v || l.verdict === options.v) && matches(`${l.tap} ${l.op} ${l.python} ${l.verdict} ${l.input}`)), options.sort ?? "", keyOf);
    replace(head, sortHead(COLUMNS, options.sort ?? "", (sort) => change({ sort })));
    list.set(shown, selected ? shown.indexOf(selected) : -1);
    status.textContent = shown.length === report.layers.length ? `${shown.length} layers` : `${shown.length} of ${report.layers.length} layers`;
  };
  const change = (some: Record<string, string>) => {
    options = { ...options, ...some };
    keep({ options: some });
    refresh();
  };
  // The layer that the pointer is above.
  const pointed = h("span", { class: "l-pointed" });
  const tell = (layer?: Layer) => replace(pointed, layer ? [sign(rank(layer.verdict)), name(layer.tap), ` ${layer.op}: error ${short(layer.error_rms)}, floor ${short(layer.floor_rms)}`, layer.whole_rms === undefined ? "" : `, whole run ${short(layer.whole_rms)}`] : "");
  let drawn: Chart | undefined;
  let width = 0;
  const draw = () => {
    if (!drawn || plot.clientWidth !== width) {
      width = plot.clientWidth;
      drawn = chart(report.layers, Math.max(280, width), choose, tell);
      replace(plot, drawn.element);
    }
    if (selected) drawn.point(selected.id);
  };
  addEventListener("resize", () => plot.isConnected && draw());
  const input = search("find a layer, op or file", "", (q) => change({ q }));
  const filter = h("select", { "aria-label": "verdict", onchange: () => change({ v: filter.value }) },
    h("option", { value: "" }, "all verdicts"),
    VERDICTS.filter((v) => report.raw.result.counts[v.name]).map((v) => h("option", { value: v.name }, v.name))) as HTMLSelectElement;
  return {
    element: h("div", { class: "column" },
      h("figure", { class: "card" }, plot,
        h("figcaption", { class: "legend" }, h("span", { class: "l-local" }, "error of the layer from golden inputs"), h("span", { class: "l-floor" }, "its rounding floor"), h("span", { class: "l-whole" }, "error in the whole run"), pointed)),
      h("div", { class: "split" },
        h("div", { class: "master wide-master" }, h("div", { class: "bar" }, input, filter, status), head, list.element), detail)),
    show: (tap, given) => {
      options = { ...given };
      input.value = options.q ?? "";
      filter.value = options.v ?? "";
      selected = report.layerByName(tap) ?? report.wrong()[0] ?? report.layers[0];
      refresh();
      list.show();
      draw();
      replace(detail, layerDetail(report, selected));
      detail.scrollTop = 0;
    },
  };
}
