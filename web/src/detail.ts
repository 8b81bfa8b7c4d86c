// What is known of one layer: its verdict, its cause, its numbers.
import { h, name } from "./dom";
import type { Layer, Report } from "./document";
import { short, size } from "./format";
import { heatmap, histograms } from "./heat";
import { command, facts, verdict } from "./parts";
import { link } from "./route";

function times(layer: Layer): string {
  const floor = size(layer.floor_rms);
  const error = size(layer.error_rms);
  return floor > 0 && error > 0 ? `${short(error / floor)} \u00d7 the rounding floor` : "";
}

export function cause(layer: Layer): HTMLElement | "" {
  const d = layer.diagnosis;
  if (!d) return "";
  const where = d.python || layer.python;
  return h(
    "div",
    { class: "cause" },
    h("p", {}, h("b", {}, "Cause: "), d.cause || "no single cause fits"),
    where ? h("p", {}, h("span", { class: "place" }, where), " ", h("code", {}, d.source || layer.source)) : "",
    d.cpp || layer.cpp
      ? h("p", {}, h("span", { class: "place" }, d.cpp || layer.cpp), " ", h("code", {}, d.cpp_source || layer.cpp_source))
      : "",
    d.parameter ? h("p", {}, "The stored values of ", h("a", { href: link("weights", d.parameter) }, name(d.parameter)), " differ.") : "",
    d.pass ? h("p", {}, "It is right without the pass ", h("code", {}, d.pass), ".") : "",
  );
}

export function layerDetail(report: Report, layer: Layer): HTMLElement {
  return h(
    "div",
    { class: "detail" },
    h("h2", {}, name(layer.tap)),
    h("p", {}, verdict(layer.verdict), layer.input ? ` at ${layer.input}` : ""),
    layer.why ? h("p", {}, layer.why) : "",
    cause(layer),
    heatmap(layer),
    histograms(layer),
    facts([
      ["op", layer.op],
      ["value", `${layer.dtype}[${layer.shape.join(", ")}]`],
      ["Python", layer.python ? [h("span", { class: "place" }, layer.python), " ", h("code", {}, layer.source)] : ""],
      ["C++", layer.cpp ? [h("span", { class: "place" }, layer.cpp), " ", h("code", {}, layer.cpp_source)] : ""],
      ["error (rms)", `${short(layer.error_rms)}, floor ${short(layer.floor_rms)}`],
      ["", times(layer)],
      ["error (max)", `${short(layer.error_max)}, floor ${short(layer.floor_max)}`],
      ["ours against PyTorch's", `max ${short(layer.max_abs)}, rms ${short(layer.rms)}, relative ${short(layer.max_rel)}`],
      ["in the whole run", layer.whole_rms === undefined ? "inside a fused kernel" : `max ${short(layer.whole_max)}, rms ${short(layer.whole_rms)}`],
      ["differing elements", layer.differing ? layer.differing.toLocaleString("en-US") : "none"],
      ["most at", layer.largest_difference ? `[${layer.largest_difference.join(", ")}]` : ""],
      ["NaN mismatches", layer.nan_mismatches ? String(layer.nan_mismatches) : ""],
      ["decisions", layer.decisions],
    ]),
    layer.replay ? h("div", { class: "next" }, h("h3", {}, "Run this layer alone"), layer.replay.map(command)) : "",
    layer.call >= 0 ? h("p", {}, h("a", { href: link("model", report.callName(layer.call)) }, "Show its source and program \u2192")) : "",
  );
}
