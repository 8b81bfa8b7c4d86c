// Summary: the verdict in a sentence, what to do next, and the facts.
import { h, name } from "./dom";
import { layerName, type Report, VERDICTS } from "./document";
import { bytes, count, flops, plural, short } from "./format";
import { card, command, facts, layerLink, type Tab, verdict } from "./parts";
import { link } from "./route";

const KINDS: Record<string, string> = { passed: "good", wrong: "bad", "no evidence": "unsure", "not verified": "unsure" };

function banner(report: Report): HTMLElement {
  const { summary } = report.raw;
  const wrong = report.wrong()[0];
  return h(
    "section",
    { class: `banner ${KINDS[summary.status] ?? "unsure"}` },
    h("h2", {}, summary.status),
    h("p", {}, summary.sentence),
    wrong
      ? h("p", {}, h("a", { class: "button", href: link("model", report.callName(wrong.call)) }, "Show the wrong layer's source"), " ",
          h("a", { class: "button", href: link("drift", layerName(wrong)) }, "Show its errors"))
      : "",
  );
}

function counts(report: Report): HTMLElement | "" {
  const found = report.raw.result?.counts;
  if (!found) return "";
  const total = report.layers.length;
  return card(
    "Layers by verdict",
    h(
      "div",
      { class: "stack", "aria-hidden": "true" },
      VERDICTS.filter((v) => found[v.name]).map((v) => h("span", { class: v.cls, style: `flex-grow:${found[v.name]}`, title: v.name })),
    ),
    h(
      "table",
      {},
      VERDICTS.filter((v) => found[v.name]).map((v) =>
        h("tr", {}, h("td", {}, h("a", { href: link("drift", "", { v: v.name }) }, verdict(v.name))), h("td", { class: "number" }, String(found[v.name])),
          h("td", { class: "number dim" }, `${((100 * found[v.name]) / total).toFixed(0)} %`)),
      ),
    ),
    report.raw.result.skipped.length ? h("p", { class: "dim" }, `${report.raw.result.skipped.length} not judged`) : "",
  );
}

function wrongLayers(report: Report): HTMLElement | "" {
  const wrong = report.wrong();
  if (!wrong.length) return "";
  const most = 12;
  return card(
    "Wrong here",
    wrong.slice(0, most).map((layer) =>
      h("div", { class: "wrong" }, h("div", {}, layerLink(layer), " ", h("span", { class: "dim" }, layer.op)),
        h("div", {}, layer.diagnosis?.cause ?? layer.why), h("div", { class: "place" }, layer.python, " ", h("code", {}, layer.source)),
        layer.cpp ? h("div", { class: "place" }, layer.cpp, " ", h("code", {}, layer.cpp_source)) : ""),
    ),
    wrong.length > most ? h("p", {}, h("a", { href: link("drift", "", { v: "wrong here" }) }, `${wrong.length - most} more`)) : "",
  );
}

function baseline(report: Report): HTMLElement | "" {
  const found = report.raw.baseline;
  if (!found) return "";
  const rows = found.changes.slice(0, 50).map((c: any) =>
    h("tr", {}, h("td", {}, c.change), h("td", {}, h("a", { href: link("drift", c.tap) }, name(c.tap))), h("td", {}, c.what)));
  return card("Since the baseline", found.notes.map((note: string) => h("p", {}, note)),
    rows.length ? h("div", { class: "scroll", tabindex: 0 }, h("table", {}, rows)) : h("p", {}, "Nothing became better or worse."),
    found.changes.length > 50 ? h("p", {}, `and ${found.changes.length - 50} more`) : "");
}

function coverage(report: Report): HTMLElement {
  const { nodes, supported, gaps } = report.raw.coverage;
  return card(
    "Coverage",
    h("p", {}, supported === nodes ? `All ${plural(nodes, "recorded node")} are supported.` : `${supported} of ${plural(nodes, "recorded node")} are supported.`),
    gaps.map((gap: any) => h("div", { class: "wrong" }, h("div", {}, name(gap.op), ` ${gap.count} times`), h("div", {}, gap.reason), h("div", {}, gap.suggestion),
      h("div", { class: "place" }, gap.places[0] ?? ""))),
    report.raw.notes.map((note: string) => h("p", {}, note)),
  );
}

export function summary(report: Report): Tab {
  const { raw } = report;
  const p = raw.program;
  const result = raw.result;
  const next = raw.summary.next.map((step: any) => h("div", { class: "next" }, h("p", {}, step.why), command(step.command)));
  const outputs = (result?.outputs ?? []).map((o: any) => h("div", {}, name(o.name), o.input ? ` (${o.input})` : "", `: at most ${short(o.max_abs)} from PyTorch's`));
  return {
    element: h(
      "div",
      { class: "page" },
      banner(report),
      h(
        "div",
        { class: "cards" },
        wrongLayers(report),
        counts(report),
        baseline(report),
        next.length ? card("Next", next) : "",
        card("Model", facts([
          ["name", name(raw.name)],
          ["class", name(raw.class)],
          ["inputs", p.inputs.map((i: any) => h("div", {}, name(i.name), " ", h("code", {}, report.type(i.value))))],
          ["outputs", p.outputs.map((o: any) => h("div", {}, name(o.name), " ", h("code", {}, report.type(o.value))))],
          ["sizes", p.symbols.map((s: any) => h("div", {}, `${s.name}: ${s.min} \u2026 ${s.max ?? "any"}, ${s.example} in the recording`))],
          ["parameters", `${count(p.parameter_elements)}, ${bytes(p.parameter_bytes)}`],
          ["work", `${flops(p.flops)} at the recorded sizes`],
          ["activations", `${bytes(p.peak_activation_bytes)} at the peak`],
          ["program", `${plural(report.nodes.length, "node")}, ${plural(report.calls.length, "module call")}`],
        ])),
        result ? card("Verification", facts([
          ["backend", result.backend + (result.against ? ` against ${result.against}` : "")],
          ["threads", String(result.threads ?? "")],
          ["weights", result.weights],
          ["whole run", outputs],
          ["disabled passes", (result.disabled_passes ?? []).join(", ")],
          ["pycandle", result.pycandle],
        ])) : "",
        coverage(report),
        card("Provenance", facts([
          ["recorded with", raw.torch ? `PyTorch ${raw.torch}` : ""],
          ["seed", raw.seed],
          ["soundness", raw.soundness],
          ["report by", `pycandle ${raw.pycandle}`],
          ...Object.entries(result?.hashes ?? {}).map(([key, value]): [string, HTMLElement] => [`hash of ${key}`, h("code", { class: "hash" }, String(value))]),
        ])),
      ),
    ),
  };
}
