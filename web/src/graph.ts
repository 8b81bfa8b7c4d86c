// Graph: the program as boxes and arrows. Modules are folded until they are opened, so that a large model stays readable.
import dagre from "@dagrejs/dagre";
import { h, name, replace, svg } from "./dom";
import { rank, type Report, VERDICTS } from "./document";
import { search, sign, type Tab } from "./parts";
import { go, keep, link } from "./route";

const MOST = 400; // boxes at a time: more is not readable, and takes the layout seconds
const LONGEST = 26;

interface Box {
  id: string;
  title: string;
  note: string;
  worst: number;
  call: number; // of a folded module; -1: a node
  node: number;
}

const cut = (text: string): string => (text.length > LONGEST ? text.slice(0, LONGEST - 1) + "\u2026" : text);

class Drawing {
  readonly opened = new Set<number>();
  readonly element = svg("svg", { class: "graph", tabindex: 0, role: "application", "aria-label": "graph of the program" });
  private readonly world = svg("g");
  private scale = 1;
  private x = 0;
  private y = 0;
  private readonly places = new Map<string, { x: number; y: number }>();

  constructor(
    private readonly report: Report,
    private readonly select: (id: string) => void,
  ) {
    this.element.append(this.world);
    this.listen();
  }

  // The box that shows a node: itself, or the outermost folded module around it.
  private boxOf(node: number): string {
    const path = [...this.report.above(this.report.nodes[node].call)].reverse();
    for (const call of path) if (!this.opened.has(call.id)) return `c${call.id}`;
    return `n${node}`;
  }

  private boxes(): Map<string, Box> {
    const found = new Map<string, Box>();
    for (const node of this.report.nodes) {
      const id = this.boxOf(node.id);
      if (found.has(id)) continue;
      if (id[0] === "n") {
        const layer = node.layer >= 0 ? rank(this.report.layers[node.layer].verdict) : -1;
        found.set(id, { id, title: node.op, note: node.results.length ? this.report.type(node.results[0]) : "", worst: layer, call: -1, node: node.id });
      } else {
        const call = this.report.calls[Number(id.slice(1))];
        const parent = call.parent >= 0 ? this.report.calls[call.parent].path : "";
        const short = parent && call.path.startsWith(parent + ".") ? call.path.slice(parent.length + 1) : call.path || "(root)";
        found.set(id, { id, title: short, note: call.class.split(".").pop() ?? "", worst: call.worst, call: call.id, node: -1 });
      }
    }
    return found;
  }

  // How many boxes there would be with these modules open.
  count(): number {
    return this.boxes().size;
  }

  // Opens modules level by level while the picture stays small.
  openSome(most: number): void {
    for (let level = this.report.calls.filter((c) => c.parent < 0); level.length; ) {
      const before = [...this.opened];
      for (const call of level) this.opened.add(call.id);
      if (this.count() > most) {
        this.opened.clear();
        for (const id of before) this.opened.add(id);
        return;
      }
      level = level.flatMap((call) => call.children.map((id) => this.report.calls[id]));
    }
  }

  draw(selected: string): void {
    const boxes = this.boxes();
    const graph = new dagre.graphlib.Graph({ multigraph: false, compound: false });
    graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 20, marginy: 20, ranker: boxes.size > 150 ? "longest-path" : "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    const width = (text: string) => 30 + 7.2 * Math.min(LONGEST, text.length);
    for (const box of boxes.values()) graph.setNode(box.id, { width: Math.max(width(box.title) + (box.call >= 0 ? 20 : 0), width(box.note) * 0.9, 70), height: 42 });
    for (const node of this.report.nodes) {
      const to = this.boxOf(node.id);
      for (const value of node.operands) {
        const made = this.report.producer.get(value);
        if (made === undefined) continue;
        const from = this.boxOf(made);
        if (from !== to) graph.setEdge(from, to);
      }
    }
    dagre.layout(graph);
    this.places.clear();
    const edges = graph.edges().map((edge: any) => {
      const points = graph.edge(edge).points as { x: number; y: number }[];
      return svg("path", { class: "edge", "marker-end": "url(#arrow)", d: points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("") });
    });
    const shapes = [...boxes.values()].map((box) => {
      const place = graph.node(box.id);
      this.places.set(box.id, place);
      return this.shape(box, place, this.nameOf(box) === selected);
    });
    replace(this.world, svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "tip", d: "M0 0L8 4L0 8z" }))), edges, shapes);
  }

  private nameOf(box: Box): string {
    return box.call >= 0 ? this.report.callName(box.call) : `%${this.report.nodes[box.node].results[0] ?? ""}`;
  }

  private shape(box: Box, place: any, selected: boolean): SVGElement {
    const cls = VERDICTS[box.worst]?.cls ?? "none";
    const mark = VERDICTS[box.worst]?.sign ?? "";
    const shape = svg(
      "g",
      { class: `box ${cls} ${box.call >= 0 ? "folded" : ""} ${selected ? "selected" : ""}`, transform: `translate(${place.x - place.width / 2},${place.y - place.height / 2})`,
        onclick: () => this.select(this.nameOf(box)), ondblclick: () => box.call >= 0 && this.open(box.call) },
      svg("rect", { width: place.width, height: place.height, rx: box.call >= 0 ? 8 : 3 }),
      svg("text", { class: "title", x: 10, y: 18 }, `${mark} ${cut(box.title)}`.trim()),
      svg("text", { class: "note", x: 10, y: 33 }, cut(box.note)),
      box.call >= 0
        ? svg("text", { class: "plus", x: place.width - 14, y: 18, onclick: (e) => { e.stopPropagation(); this.open(box.call); } }, "+")
        : "",
    );
    shape.append(svg("title", {}, box.call >= 0 ? this.report.callName(box.call) : this.report.nodes[box.node].text));
    return shape;
  }

  onOpen: (call: number) => void = () => {};
  private open(call: number): void {
    this.onOpen(call);
  }

  // Puts a box, or the first one, into the middle.
  centre(id: string, scale = 1): void {
    const place = this.places.get(id) ?? this.places.values().next().value;
    if (!place) return;
    const box = this.element.getBoundingClientRect();
    this.scale = scale;
    this.x = box.width / 2 - place.x * scale;
    this.y = box.height / 2 - place.y * scale;
    this.move();
  }
  idOf(selected: string): string {
    if (selected.startsWith("%")) {
      const node = this.report.producer.get(Number(selected.slice(1)));
      return node === undefined ? "" : this.boxOf(node);
    }
    const call = this.report.callByName(selected);
    if (!call) return "";
    for (const inner of this.report.below(call.id)) if (inner.nodes.length) return this.boxOf(inner.nodes[0]);
    return "";
  }
  zoom(factor: number, at?: { x: number; y: number }): void {
    const box = this.element.getBoundingClientRect();
    const [cx, cy] = at ? [at.x - box.left, at.y - box.top] : [box.width / 2, box.height / 2];
    const next = Math.min(3, Math.max(0.05, this.scale * factor));
    this.x = cx - ((cx - this.x) * next) / this.scale;
    this.y = cy - ((cy - this.y) * next) / this.scale;
    this.scale = next;
    this.move();
  }
  private move(): void {
    this.world.setAttribute("transform", `translate(${this.x},${this.y}) scale(${this.scale})`);
  }

  private listen(): void {
    const element = this.element as unknown as HTMLElement;
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || !event.shiftKey) this.zoom(Math.exp(-event.deltaY / 400), { x: event.clientX, y: event.clientY });
    }, { passive: false });
    let last: PointerEvent | undefined;
    let moved = false;
    element.addEventListener("pointerdown", (event) => {
      last = event;
      moved = false;
    });
    addEventListener("pointermove", (event) => {
      if (!last) return;
      if (Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY) > 2) moved = true;
      this.x += event.clientX - last.clientX;
      this.y += event.clientY - last.clientY;
      last = event;
      this.move();
    });
    addEventListener("pointerup", () => (last = undefined));
    element.addEventListener("click", (event) => moved && event.stopPropagation(), true);
    element.addEventListener("keydown", (event) => {
      const step: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      if (event.key in step) {
        this.x += step[event.key][0];
        this.y += step[event.key][1];
        this.move();
      } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(0.8);
      else return;
      event.preventDefault();
    });
  }
}

export function graph(report: Report): Tab {
  let selected = "";
  const info = h("div", { class: "graph-info", "aria-live": "polite" });
  const drawing = new Drawing(report, (id) => go("graph", id));
  let ready = false;
  const describe = () => {
    const call = report.callByName(selected);
    const made = selected.startsWith("%") ? report.producer.get(Number(selected.slice(1))) : undefined;
    if (call) {
      const isOpen = drawing.opened.has(call.id);
      replace(info, sign(call.worst), " ", name(report.callTitle(call.id)), " ", h("span", { class: "dim" }, call.class.split(".").pop() ?? ""), " ",
        h("button", { type: "button", class: "small", onclick: () => (isOpen ? fold(call.id) : unfold(call.id)) }, isOpen ? "fold" : "open"), " ",
        h("a", { href: link("model", report.callName(call.id)) }, "source"));
    } else if (made !== undefined) {
      const node = report.nodes[made];
      replace(info, h("code", {}, node.text), " ",
        h("button", { type: "button", class: "small", onclick: () => go("graph", report.callName(node.call)) }, "module around it"), " ",
        h("a", { href: link("model", report.callName(node.call)) }, "source"));
    } else replace(info, "Click a box to select it. A box with + is a module: + opens it.");
  };
  const redraw = () => {
    drawing.draw(selected);
    drawing.centre(drawing.idOf(selected));
    describe();
  };
  const unfold = (id: number) => {
    for (const call of report.above(id)) drawing.opened.add(call.id);
    if (drawing.count() > MOST) {
      drawing.opened.delete(id);
      replace(info, `Opening it would show more than ${MOST} boxes: fold other modules first.`);
      return;
    }
    redraw();
  };
  const fold = (id: number) => {
    for (const call of report.below(id)) drawing.opened.delete(call.id);
    redraw();
  };
  drawing.onOpen = unfold;
  const input = search("find a module", "", (text) => {
    const found = text && report.calls.find((call) => call.path.toLowerCase().includes(text.toLowerCase()));
    if (found) {
      keep({ selected: report.callName(found.id) });
      selected = report.callName(found.id);
      redraw();
    }
  });
  const button = (text: string, label: string, run: () => void) => h("button", { type: "button", "aria-label": label, title: label, onclick: run }, text);
  return {
    element: h("div", { class: "column" },
      h("div", { class: "bar" }, input,
        h("div", { class: "choice", role: "group", "aria-label": "zoom" }, button("+", "zoom in", () => drawing.zoom(1.25)), button("\u2212", "zoom out", () => drawing.zoom(0.8)), button("1:1", "actual size", () => drawing.centre(drawing.idOf(selected))),
          button("fold all", "fold all modules", () => { drawing.opened.clear(); drawing.openSome(30); redraw(); }))),
      info,
      drawing.element),
    show: (id) => {
      selected = id || (report.wrong()[0] ? report.callName(report.wrong()[0].call) : "");
      if (!ready) drawing.openSome(40);
      ready = true;
      const call = report.callByName(selected);
      if (call && call.parent >= 0) for (const above of report.above(call.parent)) drawing.opened.add(above.id);
      if (drawing.count() > MOST) {
        drawing.opened.clear();
        drawing.openSome(40);
      }
      redraw();
    },
  };
}
