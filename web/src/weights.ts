// Weights: every parameter with its size, what its values look like, and what is odd about it.
import { h, name, replace } from "./dom";
import type { Report, Weight } from "./document";
import { bytes, count, percent, short } from "./format";
import { List } from "./list";
import { bars, facts, matcher, search, sorted, sortHead, type Tab } from "./parts";
import { go, keep, link } from "./route";

const COLUMNS = [
  { key: "name", title: "name", cls: "c-name" },
  { key: "type", title: "type", cls: "c-type" },
  { key: "bytes", title: "size", cls: "number" },
  { key: "min", title: "min", cls: "number wide" },
  { key: "mean", title: "mean", cls: "number wide" },
  { key: "max", title: "max", cls: "number wide" },
  { key: "std", title: "std", cls: "number wide" },
  { key: "notes", title: "notes", cls: "c-notes" },
];

function notes(w: Weight): string {
  return [w.fate && w.fate !== "used as is" ? w.fate : "", w.odd, w.dead_rows ? `${w.dead_rows[0]} of ${w.dead_rows[1]} rows are zero` : "", w.same_as ? `same values as ${w.same_as}` : "", w.tied ? `tied to ${w.tied.join(", ")}` : ""].filter(Boolean).join(", ");
}

function detail(report: Report, w: Weight): HTMLElement {
  const users = new Set((report.users.get(w.value) ?? []).map((node) => report.nodes[node].call));
  return h("div", { class: "detail" },
    h("h2", {}, name(w.name)),
    notes(w) ? h("p", { class: "cause" }, notes(w)) : "",
    w.histogram ? h("figure", {}, bars(w.histogram, `histogram of ${w.elements} values`, 260, 80), h("figcaption", {}, `from ${short(w.min)} to ${short(w.max)}`)) : "",
    facts([["fate", w.fate ?? ""], ["made of", w.source && w.source !== w.name ? h("code", {}, w.source) : ""], ["why", w.note ?? ""],
      ["type", h("code", {}, w.type)], ["kind", w.kind], ["elements", w.elements.toLocaleString("en-US")], ["size", bytes(w.bytes)],
      ["range", w.min === undefined ? "" : `${short(w.min)} \u2026 ${short(w.max)}`], ["mean", w.mean === undefined ? "" : short(w.mean)], ["standard deviation", w.std === undefined ? "" : short(w.std)],
      ["zeros", w.zeros ? `${w.zeros.toLocaleString("en-US")}, ${percent(w.zeros / w.elements)}` : ""], ["NaN", w.nan ? String(w.nan) : ""],
      ["used by", users.size ? [...users].map((call) => h("div", {}, h("a", { href: link("model", report.callName(call)) }, name(report.callTitle(call))))) : "nobody"]]));
}

interface Left { name: string; fate: string }

// The ledger in a sentence, and the tensors that are no parameter's own.
function ledgerLine(report: Report): HTMLElement | string {
  const ledger = report.raw.weights.ledger;
  if (!ledger) return "";
  const counts = Object.entries(ledger.counts as Record<string, number>).map(([fate, n]) => `${n} ${fate === "unused" ? "not needed" : fate}`);
  const left: Left[] = ledger.left;
  const sentence = `Parameters: ${counts.join(", ")}. ${ledger.tensors} tensors in the files${left.length ? ", of which are no parameter's own:" : ", each is a parameter's own."}`;
  return h("p", { class: "dim note", id: "ledger" }, sentence, left.length ? ` ${left.map((t) => `${t.name} (${t.fate})`).join(", ")}` : "");
}

export function weights(report: Report): Tab {
  if (!report.weights.length) return { element: h("div", { class: "page" }, h("div", { class: "card" }, h("p", {}, "This model has no parameters."))) };
  const why: string = report.raw.weights.no_statistics;
  let options: Record<string, string> = {};
  let selected: Weight | undefined;
  const side = h("div", { class: "side", "aria-live": "polite" });
  const head = h("div", {});
  const status = h("span", { class: "dim", role: "status" });
  const list = new List<Weight>({
    label: "parameters",
    role: "listbox",
    height: 26,
    select: (w) => go("weights", w.name, options),
    row: (w, now) => h("div", { class: `row ${now ? "selected" : ""}` },
      h("span", { class: "cell c-name" }, name(w.name)), h("span", { class: "cell c-type" }, w.type), h("span", { class: "cell number" }, bytes(w.bytes)),
      (["min", "mean", "max", "std"] as const).map((key) => h("span", { class: "cell number wide" }, w[key] === undefined ? "" : short(w[key]))),
      h("span", { class: "cell c-notes" }, notes(w) ? h("span", { class: w.odd ? "note-odd" : "dim", title: notes(w) }, notes(w)) : bars(w.histogram ?? [], "histogram"))),
  });
  const refresh = () => {
    const matches = matcher(options.q ?? "");
    const shown = sorted(report.weights.filter((w) => (!options.odd || notes(w) !== "") && matches(`${w.name} ${w.type} ${w.kind} ${notes(w)}`)), options.sort ?? "",
      (w, key) => (key === "notes" ? notes(w) : ((w as any)[key] ?? -Infinity)));
    replace(head, sortHead(COLUMNS, options.sort ?? "", (sort) => change({ sort })));
    list.set(shown, selected ? shown.indexOf(selected) : -1);
    status.textContent = `${shown.length} tensors, ${count(shown.reduce((s, w) => s + w.elements, 0))} elements, ${bytes(shown.reduce((s, w) => s + w.bytes, 0))}`;
  };
  const change = (some: Record<string, string>) => {
    options = { ...options, ...some };
    keep({ options: some });
    refresh();
  };
  const input = search("find a parameter", "", (q) => change({ q }));
  const odd = h("input", { type: "checkbox", onchange: () => change({ odd: odd.checked ? "1" : "" }) }) as HTMLInputElement;
  return {
    element: h("div", { class: "split" },
      h("div", { class: "master wide-master" }, why ? h("p", { class: "dim note" }, `No statistics: ${why}.`) : "", ledgerLine(report),
        h("div", { class: "bar" }, input, h("label", {}, odd, " with notes only"), status), head, list.element), side),
    show: (id, given) => {
      options = { ...given };
      input.value = options.q ?? "";
      odd.checked = options.odd === "1";
      selected = report.weights.find((w) => w.name === id) ?? report.weights[0];
      refresh();
      list.show();
      replace(side, detail(report, selected));
    },
  };
}
