// Graph: the program as boxes and arrows. Modules are folded until they are opened, so that a large model stays readable.
import dagre from "@dagrejs/dagre";
import { h, name, replace, svg } from "./dom";
import { type Call, rank, type Report, VERDICTS } from "./document";
import { Folding } from "./folding";
import { search, sign, type Tab } from "./parts";
import { go, keep, link } from "./route";

const MOST = 400; // boxes at a time: more is not readable, and takes the layout seconds
const FEW = 64; // boxes at first
const LONGEST = 26;

interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}
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
  readonly folding: Folding;
  readonly element = svg("svg", { class: "graph", tabindex: 0, role: "group", "aria-label": "graph of the program: arrows move it, plus and minus zoom, Tab goes from box to box" });
  private readonly world = svg("g");
  private scale = 1;
  private x = 0;
  private y = 0;
  private readonly places = new Map<string, Place>();
  private readonly shapes = new Map<string, SVGElement>();
  private drawn = ""; // which modules were open

  constructor(
    private readonly report: Report,
    private readonly select: (id: string) => void,
  ) {
    this.folding = new Folding(report);
    this.element.append(this.world);
    this.listen();
  }

  private boxes(): Map<string, Box> {
    const found = new Map<string, Box>();
    for (const node of this.report.nodes) {
      const id = this.folding.boxOf(node.id);
      if (found.has(id)) continue;
      if (id[0] === "r") {
        found.set(id, this.runBox(id));
      } else if (id[0] === "n") {
        const layer = node.layer >= 0 ? rank(this.report.layers[node.layer].verdict) : -1;
        found.set(id, { id, title: node.op, note: node.results.length ? this.report.type(node.results[0]) : "", worst: layer, call: -1, node: node.id });
      } else {
        const call = this.report.calls[Number(id.slice(1))];
        found.set(id, { id, title: this.shortName(call), note: call.class.split(".").pop() ?? "", worst: call.worst, call: call.id, node: -1 });
      }
    }
    return found;
  }

  private shortName(call: Call): string {
    const parent = call.parent >= 0 ? this.report.calls[call.parent].path : "";
    return parent && call.path.startsWith(parent + ".") ? call.path.slice(parent.length + 1) : call.path || "(root)";
  }

  private runBox(id: string): Box {
    const { parts } = this.folding.run(id);
    const [first, last] = [parts[0], parts[parts.length - 1]].map((part) => {
      const number = Number(part.slice(1));
      return part[0] === "c" ? this.shortName(this.report.calls[number]) : this.report.nodes[number].op;
    });
    const verdicts = parts.map((part) => {
      const number = Number(part.slice(1));
      if (part[0] === "c") return this.report.calls[number].worst;
      const layer = this.report.nodes[number].layer;
      return layer >= 0 ? rank(this.report.layers[layer].verdict) : -1;
    });
    return { id, title: `${first} \u2026 ${last}`, note: `${parts.length} parts`, worst: Math.max(...verdicts), call: -1, node: -1 };
  }

  // Whether the layout is another one now; it takes long, so a selection alone does not repeat it.
  draw(selected: string): boolean {
    const opened = this.folding.key;
    const isNew = opened !== this.drawn || !this.shapes.size;
    if (isNew) this.layout();
    this.drawn = opened;
    const chosen = this.chosen(selected);
    for (const [id, shape] of this.shapes) shape.classList.toggle("selected", chosen.has(id));
    return isNew;
  }

  private layout(): void {
    const boxes = this.boxes();
    const graph = new dagre.graphlib.Graph({ multigraph: false, compound: false });
    graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 20, marginy: 20, ranker: boxes.size > 150 ? "longest-path" : "network-simplex" });
    graph.setDefaultEdgeLabel(() => ({}));
    const width = (text: string) => 30 + 7.2 * Math.min(LONGEST, text.length);
    for (const box of boxes.values()) graph.setNode(box.id, { width: Math.max(width(box.title) + (box.node < 0 ? 20 : 0), width(box.note) * 0.9, 70), height: 42 });
    for (const node of this.report.nodes) {
      const to = this.folding.boxOf(node.id);
      for (const value of node.operands) {
        const made = this.report.producer.get(value);
        if (made === undefined) continue;
        const from = this.folding.boxOf(made);
        if (from !== to) graph.setEdge(from, to);
      }
    }
    dagre.layout(graph);
    this.places.clear();
    const edges = graph.edges().map((edge: any) => {
      const points = graph.edge(edge).points as { x: number; y: number }[];
      return svg("path", { class: "edge", "marker-end": "url(#arrow)", d: points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("") });
    });
    this.shapes.clear();
    for (const box of boxes.values()) {
      const place = graph.node(box.id);
      this.places.set(box.id, place);
      this.shapes.set(box.id, this.shape(box, place));
    }
    replace(this.world, svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "tip", d: "M0 0L8 4L0 8z" }))), edges, [...this.shapes.values()]);
  }

  private nameOf(box: Box): string {
    if (box.node < 0 && box.call < 0) return "";
    return box.call >= 0 ? this.report.callName(box.call) : `%${this.report.nodes[box.node].results[0] ?? ""}`;
  }

  private shape(box: Box, place: Place): SVGElement {
    const cls = VERDICTS[box.worst]?.cls ?? "none";
    const title = `${VERDICTS[box.worst]?.sign ?? ""} ${cut(box.title)}`.trim();
    const folded = box.node < 0;
    const isRun = folded && box.call < 0;
    const whole = isRun ? `${box.title}: open them` : folded ? this.report.callName(box.call) : this.report.nodes[box.node].text;
    const choose = () => (isRun ? this.open(box) : this.select(this.nameOf(box)));
    const shape = svg(
      "g",
      { class: `box ${cls} ${folded ? "folded" : ""}`, transform: `translate(${place.x - place.width / 2},${place.y - place.height / 2})`,
        tabindex: 0, role: "button", "aria-label": `${title} ${cut(box.note)} ${whole} ${VERDICTS[box.worst]?.name ?? ""}`,
        onclick: choose, ondblclick: () => folded && this.open(box),
        onkeydown: (e: KeyboardEvent) => {
          if (e.key !== "Enter" && !(e.key === " " && folded)) return;
          if (e.key === "Enter") choose();
          else this.open(box);
          e.preventDefault();
        } },
      svg("rect", { width: place.width, height: place.height, rx: folded ? 8 : 3 }),
      svg("text", { class: "title", x: 10, y: 18 }, title), " ", // for those who hear it
      svg("text", { class: "note", x: 10, y: 33 }, cut(box.note)), " ",
      folded
        ? svg("text", { class: "plus", "aria-hidden": "true", x: place.width - 14, y: 18, onclick: (e) => { e.stopPropagation(); this.open(box); } }, "+")
        : "",
    );
    shape.append(svg("title", {}, whole));
    return shape;
  }

  get hasFocus(): boolean {
    return this.element.contains(document.activeElement);
  }
  focus(id: string): void {
    (this.shapes.get(id) ?? this.element).focus({ preventScroll: true });
  }

  onOpen: (change: () => void) => void = () => {};
  private open(box: Box): void {
    this.onOpen(() => (box.call >= 0 ? this.folding.open(box.call) : this.folding.openRun(box.id)));
  }

  // Whether all of a box is in sight.
  shows(id: string): boolean {
    const place = this.places.get(id);
    if (!place) return true; // nothing to look for
    const view = this.element.getBoundingClientRect();
    const inside = (at: number, half: number, from: number, size: number) => (at - half) * this.scale + from >= 0 && (at + half) * this.scale + from <= size;
    return inside(place.x, place.width / 2, this.x, view.width) && inside(place.y, place.height / 2, this.y, view.height);
  }
  // The whole picture, no larger than it is.
  fit(): void {
    const box = this.element.getBoundingClientRect();
    const all = [...this.places.values()];
    if (!all.length || !box.width) return;
    const [left, right] = [Math.min(...all.map((p) => p.x - p.width / 2)), Math.max(...all.map((p) => p.x + p.width / 2))];
    const [top, bottom] = [Math.min(...all.map((p) => p.y - p.height / 2)), Math.max(...all.map((p) => p.y + p.height / 2))];
    this.scale = Math.min(1, (box.width - 40) / (right - left), (box.height - 40) / (bottom - top));
    this.x = (box.width - (left + right) * this.scale) / 2;
    this.y = (box.height - (top + bottom) * this.scale) / 2;
    this.move();
  }
  // Puts a box into the middle, but leaves no room above the first one.
  centre(id: string): void {
    const place = this.places.get(id) ?? this.places.values().next().value;
    if (!place) return;
    const box = this.element.getBoundingClientRect();
    const scale = (this.scale = 1);
    this.x = box.width / 2 - place.x * scale;
    const top = Math.min(...[...this.places.values()].map((p) => p.y - p.height / 2));
    this.y = Math.min(box.height / 2 - place.y * scale, 24 - top * scale);
    this.move();
  }
  // The boxes of what is selected: of an open module, all in it.
  private chosen(selected: string): Set<string> {
    const call = this.report.callByName(selected);
    if (!call || call.parent < 0 || !this.folding.isOpen(call.id)) return new Set([this.idOf(selected)]);
    return new Set([...this.report.below(call.id)].flatMap((inner) => inner.nodes.map((node) => this.folding.boxOf(node))));
  }
  idOf(selected: string): string {
    if (selected.startsWith("%")) {
      const node = this.report.producer.get(Number(selected.slice(1)));
      return node === undefined ? "" : this.folding.boxOf(node);
    }
    const call = this.report.callByName(selected);
    if (!call) return "";
    for (const inner of this.report.below(call.id)) if (inner.nodes.length) return this.folding.boxOf(inner.nodes[0]);
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
      else if (event.key === "0") this.fit();
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
      const isOpen = drawing.folding.isOpen(call.id);
      replace(info, sign(call.worst), " ", name(report.callTitle(call.id)), " ", h("span", { class: "dim" }, call.class.split(".").pop() ?? ""), " ",
        h("button", { type: "button", class: "small", onclick: () => (isOpen ? fold(call.id) : unfold(() => open(call.id))) }, isOpen ? "fold" : "open"), " ",
        h("a", { href: link("model", report.callName(call.id)) }, "source"));
    } else if (made !== undefined) {
      const node = report.nodes[made];
      replace(info, h("code", {}, node.text), " ",
        h("button", { type: "button", class: "small", onclick: () => go("graph", report.callName(node.call)) }, "module around it"), " ",
        h("a", { href: link("model", report.callName(node.call)) }, "source"));
    } else replace(info, "Click a box to select it. A box with + is a module: + opens it.");
  };
  const redraw = () => {
    const hadFocus = drawing.hasFocus;
    const id = () => drawing.idOf(selected);
    if (drawing.draw(selected) || !drawing.shows(id())) drawing.centre(id());
    if (hadFocus) drawing.focus(id());
    describe();
  };
  const open = (id: number) => {
    drawing.folding.reveal(id);
    drawing.folding.open(id);
  };
  // When the picture becomes too large, everything else is folded.
  const unfold = (change: () => void) => {
    const { folding } = drawing;
    if (!folding.tryTo(change, MOST)) {
      folding.foldAll();
      folding.openSome(FEW);
      const call = report.callByName(selected);
      if (call) folding.reveal(call.id);
      change();
    }
    redraw();
  };
  const fold = (id: number) => {
    drawing.folding.fold(id);
    redraw();
  };
  drawing.onOpen = unfold;
  const input = search("find a module", "", (text) => {
    const found = text && report.calls.find((call) => call.path.toLowerCase().includes(text.toLowerCase()));
    if (!found) return;
    selected = report.callName(found.id);
    keep({ selected });
    unfold(() => drawing.folding.reveal(found.id));
  });
  const button = (text: string, label: string, run: () => void) => h("button", { type: "button", "aria-label": text.length > 1 ? `${text}: ${label}` : label, title: label, onclick: run }, text);
  return {
    element: h("div", { class: "column" },
      h("div", { class: "bar" }, input,
        h("div", { class: "choice", role: "group", "aria-label": "zoom" }, button("+", "zoom in", () => drawing.zoom(1.25)), button("\u2212", "zoom out", () => drawing.zoom(0.8)), button("1:1", "actual size", () => drawing.centre(drawing.idOf(selected))), button("fit", "all of it", () => drawing.fit()),
          button("fold all", "fold all modules", () => { drawing.folding.foldAll(); drawing.folding.openSome(FEW); redraw(); }))),
      info,
      drawing.element),
    show: (id) => {
      selected = id || (report.wrong()[0] ? report.callName(report.wrong()[0].call) : "");
      const { folding } = drawing;
      if (!ready) folding.openSome(FEW);
      ready = true;
      const call = report.callByName(selected);
      if (call) unfold(() => folding.reveal(call.id));
      else redraw();
    },
  };
}
