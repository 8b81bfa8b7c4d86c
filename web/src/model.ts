// Model: the module tree, and beside it Python, C++ and program of what is selected.
import { h, name, replace } from "./dom";
import { type Call, type GraphNode, rank, type Report } from "./document";
import { bytes, flops, milliseconds, plural } from "./format";
import { cause } from "./detail";
import { List } from "./list";
import { choice, facts, layerLink, matcher, search, sign, type Tab, verdict } from "./parts";
import { go, keep, link } from "./route";
import { source } from "./source";

interface Row {
  call: Call;
  depth: number;
}

// Module names of the whole path are long: a row shows what its parent does not say.
function shortName(report: Report, call: Call): string {
  const parent = call.parent >= 0 ? report.calls[call.parent].path : "";
  const rest = parent && call.path.startsWith(parent + ".") ? call.path.slice(parent.length + 1) : call.path;
  return (rest || "(root)") + (call.call > 0 ? ` (call ${call.call + 1})` : "");
}

function nodesOf(report: Report, call: Call): GraphNode[] {
  const ids: number[] = [];
  for (const inner of report.below(call.id)) ids.push(...inner.nodes);
  return ids.sort((a, b) => a - b).map((id) => report.nodes[id]);
}

// Values that cross the module's boundary, with where they come from or go to.
function crossing(report: Report, nodes: GraphNode[]): { from: HTMLElement[]; to: HTMLElement[] } {
  const inside = new Set(nodes.map((n) => n.id));
  const from = new Map<number, HTMLElement>();
  const to = new Map<string, HTMLElement>();
  const item = (value: number, node: number) => {
    const call = node >= 0 ? report.nodes[node].call : -1;
    const where = node < 0 ? name(report.given.get(value) ?? "constant")
      : h("a", { href: link("model", report.callName(call)) }, name(report.callTitle(call)));
    return h("div", {}, h("code", {}, `%${value}`), " ", where, " ", h("code", { class: "dim" }, report.type(value)));
  };
  for (const node of nodes) {
    for (const value of node.operands) {
      if (value < 0 || from.has(value)) continue;
      const made = report.producer.get(value) ?? -1;
      if (!inside.has(made)) from.set(value, item(value, made));
    }
    for (const value of node.results) {
      const output = report.returned.get(value);
      if (output !== undefined) to.set(`${value}`, h("div", {}, h("code", {}, `%${value}`), " ", name(output), " ", h("code", { class: "dim" }, report.type(value))));
      for (const user of report.users.get(value) ?? []) {
        const key = `${value}:${report.nodes[user].call}`;
        if (!inside.has(user) && !to.has(key)) to.set(key, item(value, user));
      }
    }
  }
  const most = 12;
  const cut = (list: HTMLElement[]) => (list.length > most ? [...list.slice(0, most), h("div", { class: "dim" }, `and ${list.length - most} more`)] : list);
  return { from: cut([...from.values()]), to: cut([...to.values()]) };
}

function callDetail(report: Report, call: Call): HTMLElement {
  const nodes = nodesOf(report, call);
  const { from, to } = crossing(report, nodes);
  const weights = report.weights.filter((w) => call.path === "" || w.name.startsWith(call.path + "."));
  const memory = nodes.reduce((sum, node) => sum + node.results.reduce((s, v) => s + report.bytes(v), 0), 0);
  const judged = call.layers.map((id) => report.layers[id]).sort((a, b) => rank(b.verdict) - rank(a.verdict));
  const wrong = [...report.below(call.id)].flatMap((c) => c.layers.map((id) => report.layers[id])).filter((l) => l.verdict === "wrong here");
  return h(
    "div",
    { class: "detail" },
    h("h2", {}, name(report.callTitle(call.id))),
    h("p", { class: "dim" }, name(call.class), call.file >= 0 ? [" \u00b7 ", h("span", { class: "place" }, report.place(call.file, call.line))] : ""),
    wrong.slice(0, 3).map((layer) => [h("p", {}, verdict(layer.verdict), " ", layerLink(layer)), cause(layer)]),
    source(report, nodes),
    facts([
      ["judged", judged.slice(0, 8).map((layer) => h("div", {}, verdict(layer.verdict), " ", layerLink(layer)))],
      ["from", from],
      ["to", to],
      ["parameters", weights.length ? h("a", { href: link("weights", "", { q: call.path ? call.path + "." : "" }) }, `${plural(weights.length, "tensor")}, ${bytes(weights.reduce((s, w) => s + w.bytes, 0))}`) : "none"],
      ["work", flops(call.flops)],
      ["values", `${bytes(memory)} written by ${plural(nodes.length, "node")}`],
      ["time", call.ms > 0 ? milliseconds(call.ms) : ""],
      ["around it", call.parent >= 0 ? h("a", { href: link("model", report.callName(call.parent)) }, name(report.callTitle(call.parent))) : ""],
    ]),
    h("p", {}, h("a", { href: link("graph", report.callName(call.id)) }, "Show it in the graph \u2192")),
  );
}

export function model(report: Report): Tab {
  const open = new Set<number>();
  let query = "";
  let colour = report.layers.length ? "drift" : "time";
  let selected = 0;
  const depthOf = (call: Call) => [...report.above(call.id)].length - 1;
  for (const call of report.calls) if (report.calls.length <= 60 || depthOf(call) < 2) open.add(call.id);
  const total = report.calls[0]?.ms || 1;

  const rows = (): Row[] => {
    const matches = matcher(query);
    const found: Row[] = [];
    const visit = (call: Call, depth: number): void => {
      if (!query) found.push({ call, depth });
      else if (matches(`${call.path} ${call.class}`)) found.push({ call, depth: 0 });
      if (query || open.has(call.id)) for (const child of call.children) visit(report.calls[child], depth + 1);
    };
    for (const call of report.calls) if (call.parent < 0) visit(call, 0);
    return found;
  };
  const detail = h("div", { class: "side", "aria-live": "polite" });
  const tree = new List<Row>({
    label: "modules",
    role: "tree",
    height: 26,
    select: ({ call }) => go("model", report.callName(call.id), { q: query }),
    open: ({ call }, wanted) => {
      if (wanted && !open.has(call.id)) open.add(call.id);
      else if (!wanted && open.has(call.id)) open.delete(call.id);
      else if (!wanted && call.parent >= 0) return go("model", report.callName(call.parent));
      refresh();
    },
    row: ({ call, depth }, now) => {
      const folds = !query && call.children.length > 0;
      const heat = colour === "time" && call.ms > 0 ? h("span", { class: "heat", style: `width:${Math.max(2, (48 * call.ms) / total)}px`, title: milliseconds(call.ms) }) : "";
      return h(
        "div",
        { class: `tree-row ${now ? "selected" : ""}`, style: `padding-left:${6 + depth * 14}px`, "aria-level": depth + 1, "aria-expanded": folds ? String(open.has(call.id)) : null },
        h("button", { class: "fold", type: "button", tabindex: -1, "aria-label": "fold", style: folds ? "" : "visibility:hidden",
          onclick: (e) => { e.stopPropagation(); if (!open.delete(call.id)) open.add(call.id); refresh(); } }, open.has(call.id) ? "\u25be" : "\u25b8"),
        colour === "drift" ? sign(call.worst) : heat || h("span", { class: "heat none" }),
        name(query ? call.path || "(root)" : shortName(report, call)),
        h("span", { class: "dim cls" }, call.class.split(".").pop() ?? ""),
      );
    },
  });
  const refresh = () => {
    const list = rows();
    tree.set(list, list.findIndex((row) => row.call.id === selected));
  };
  const input = search("find a module or class", "", (text) => {
    query = text;
    keep({ options: { q: text } });
    refresh();
  });
  const colours: [string, string][] = [];
  if (report.layers.length) colours.push(["drift", "verdict"]);
  if (report.profiles.length) colours.push(["time", "time"]);
  return {
    element: h("div", { class: "split" },
      h("div", { class: "master" }, h("div", { class: "bar" }, input, colours.length > 1 ? choice("colour by", colours, colour, (c) => { colour = c; refresh(); }) : ""), tree.element),
      detail),
    show: (name_, options) => {
      const call = report.callByName(name_) ?? report.calls[report.wrong()[0]?.call ?? 0] ?? report.calls[0];
      if ((options.q ?? "") !== query) input.value = query = options.q ?? "";
      if (!call) return replace(detail, h("p", {}, "The recording has no modules."));
      selected = call.id;
      for (const above of report.above(call.parent)) open.add(above.id);
      refresh();
      tree.show();
      replace(detail, callDetail(report, call));
      detail.scrollTop = 0;
    },
  };
}
