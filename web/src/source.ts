// Python, C++ and program side by side: pointing at a line marks what belongs to it.
import { h, name } from "./dom";
import { type GraphNode, rank, type Report } from "./document";
import { sign } from "./parts";

const MOST_LINES = 400; // of a module's program
const AROUND = 2; // lines of C++ shown before and after those that compute something

const worstOf = (report: Report, nodes: GraphNode[]): number =>
  Math.max(-1, ...nodes.map((node) => (node.layer >= 0 ? rank(report.layers[node.layer].verdict) : -1)));

// A line with what it computes.
class Lines {
  private readonly all: { element: HTMLElement; nodes: Set<number> }[] = [];
  constructor(private readonly report: Report) {}

  line(nodes: GraphNode[], number: string, text: string): HTMLElement {
    const worst = worstOf(this.report, nodes);
    const wrong = worst >= 0 && worst === rank("wrong here");
    const element = h("div", { class: `line ${wrong ? "wrong-line" : ""} ${nodes.length ? "" : "dim"}`, tabindex: nodes.length ? 0 : null },
      sign(nodes.length ? worst : -2), number ? h("span", { class: "no" }, number) : "", h("code", {}, text));
    this.all.push({ element, nodes: new Set(nodes.map((node) => node.id)) });
    return element;
  }
  mark(event: Event): void {
    const target = (event.target as HTMLElement).closest(".line");
    const chosen = this.all.find((line) => line.element === target)?.nodes ?? new Set<number>();
    for (const line of this.all) line.element.classList.toggle("marked", [...line.nodes].some((node) => chosen.has(node)));
  }
}

function grouped<K>(nodes: GraphNode[], key: (node: GraphNode) => K): Map<K, GraphNode[]> {
  const groups = new Map<K, GraphNode[]>();
  for (const node of nodes) groups.set(key(node), [...(groups.get(key(node)) ?? []), node]);
  return groups;
}

function python(report: Report, nodes: GraphNode[], lines: Lines): HTMLElement[] {
  const groups = [...grouped(nodes.filter((n) => n.file >= 0), (n) => `${n.file}:${n.line}`).values()];
  groups.sort(([a], [b]) => a.file - b.file || a.line - b.line);
  let file = -1;
  return groups.flatMap((group) => {
    const place = group[0];
    const title = place.file === file ? [] : [h("div", { class: "file" }, name(report.raw.program.files[place.file].path))];
    file = place.file;
    return [...title, lines.line(group, String(place.line), report.sourceLine(place.file, place.line) || "(source was left out)")];
  });
}

function cpp(report: Report, nodes: GraphNode[], lines: Lines): HTMLElement[] {
  const code = report.raw.code;
  const groups = grouped(nodes.filter((n) => code.lines[n.id] > 0), (n) => code.lines[n.id] as number);
  const shown = new Set<number>();
  for (const line of groups.keys()) for (let i = line - AROUND; i <= line + AROUND; ++i) if (i >= 1 && i <= code.text.length) shown.add(i);
  const drawn = [h("div", { class: "file" }, name(code.path), code.edited ? " (edited)" : "")];
  let last = 0;
  for (const line of [...shown].sort((a, b) => a - b)) {
    if (line > last + 1 && last > 0) drawn.push(h("div", { class: "gap dim", "aria-hidden": "true" }, "\u22ef"));
    drawn.push(lines.line(groups.get(line) ?? [], String(line), code.text[line - 1]));
    last = line;
  }
  return drawn;
}

const pane = (title: string, content: HTMLElement[], none: string): HTMLElement =>
  h("div", { class: "pane" }, h("h3", {}, title), h("div", { class: "lines" }, content.length ? content : h("p", { class: "dim note" }, none)));

export function source(report: Report, nodes: GraphNode[]): HTMLElement {
  const shown = nodes.slice(0, MOST_LINES);
  const lines = new Lines(report);
  const box = h("div", { class: "code" }, pane("Python", python(report, shown, lines), "No source was recorded."));
  if (report.raw.code) box.append(pane("C++", cpp(report, shown, lines), "No line computes this."));
  box.append(pane("Program (PTIR)", shown.map((node) => lines.line([node], "", node.text)), "Nothing is computed here."));
  box.addEventListener("mouseover", (event) => lines.mark(event));
  box.addEventListener("focusin", (event) => lines.mark(event));
  if (nodes.length > MOST_LINES) box.append(h("p", { class: "dim" }, `The first ${MOST_LINES} of ${nodes.length} nodes; open a module inside it for the rest.`));
  return box;
}
