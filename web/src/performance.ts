// Performance: where the time of a run goes, by module, kernel and op, beside what the machine can do.
import { h, name, replace, svg } from "./dom";
import type { Group, Profile, Report, Step } from "./document";
import { bytes, milliseconds, percent } from "./format";
import { memory } from "./memory";
import { card, choice, facts, howTo, matcher, press, search, sorted, type Tab } from "./parts";
import { keep, link } from "./route";

interface Span {
  path: string;
  depth: number;
  start: number;
  end: number;
}

// Steps in a row that belong to the same module are one bar, on every level.
function spans(steps: Step[]): Span[] {
  const found: Span[] = [];
  const open: Span[] = [];
  for (const step of steps) {
    const parts = step.layer === "" ? [] : step.layer.replace(/@\d+$/, "").split(".");
    const paths = [...parts.map((_, i) => parts.slice(0, i + 1).join(".")), `${step.layer}\u0000${step.op}`];
    paths.forEach((path, depth) => {
      const last = open[depth];
      if (last && last.path === path && depth < paths.length - 1) last.end = step.start + step.ms;
      else {
        open.length = depth;
        open[depth] = { path, depth, start: step.start, end: step.start + step.ms };
        found.push(open[depth]);
      }
    });
    open.length = Math.min(open.length, paths.length - 1);
  }
  return found;
}

const WIDTH = 1000;
const ROW = 19;

function hue(text: string): number {
  let value = 0;
  for (const c of text) value = (value * 31 + c.charCodeAt(0)) % 360;
  return value;
}

const RULER = 16; // above the bars

// 0, 0.5 ms, 1 ms, …: at most nine times, in round numbers.
function ruler([begin, end]: [number, number], height: number): SVGElement[] {
  const rough = (end - begin) / 8;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * (1 - 1e-9))!;
  const [unit, scale] = end >= 1 ? ["ms", 1] : ["\u00b5s", 1000];
  const digits = Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9));
  const marks: SVGElement[] = [];
  for (let i = Math.ceil(begin / step); i * step < end; ++i) {
    const x = ((WIDTH * (i * step - begin)) / (end - begin)).toFixed(2);
    marks.push(svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height }));
    if (Number(x) < WIDTH - 60) marks.push(svg("text", { class: "axis", x: Number(x) + 3, y: RULER - 5 }, `${(i * step * scale).toFixed(digits)} ${unit}`));
  }
  return marks;
}

interface Looking {
  tell: (span: Span | undefined) => void; // what the pointer or the focus is on
  zoom?: (span: Span) => void;
}

// Module names repeat with numbers in them: the colour is of the name without them.
function flame(profile: Profile, range: [number, number], { tell, zoom }: Looking): SVGElement {
  const all = spans(profile.steps);
  const [begin, end] = range;
  const x = (t: number) => (WIDTH * (t - begin)) / (end - begin);
  const seen = all.filter((s) => s.end > begin && s.start < end && x(s.end) - x(s.start) > 0.4);
  const height = RULER + (Math.max(0, ...seen.map((s) => s.depth)) + 1) * ROW;
  const bars = seen.map((s) => {
    const left = Math.max(0, x(s.start));
    const width = Math.min(WIDTH, x(s.end)) - left;
    const [layer, op] = s.path.split("\u0000");
    const title = op ?? layer.split(".").pop() ?? layer;
    const letters = Math.floor((width - 6) / 6.4);
    const shown = title.length > letters ? title.slice(0, letters - 1) + "\u2026" : title;
    const look = zoom && (() => zoom(s));
    // Those that can be read can be reached by Tab; the table below has all.
    const reached = look && letters >= 3 && { tabindex: 0, role: "button", "aria-label": `${shown}: ${layer || "(root)"}, ${milliseconds(s.end - s.start)}`, onfocus: () => tell(s), onkeydown: (e: KeyboardEvent) => e.key === "Enter" && look() };
    return svg("g", { class: "span", onclick: look, onmouseenter: () => tell(s), ...reached },
      svg("rect", { x: left.toFixed(2), y: RULER + s.depth * ROW, width: Math.max(0.5, width - 0.6).toFixed(2), height: ROW - 1, style: `fill:hsl(${hue(title.replace(/\d+/g, ""))} 55% var(--flame))` }),
      letters >= 3 ? svg("text", { x: left + 3, y: RULER + s.depth * ROW + 13 }, shown) : "");
  });
  return svg("svg", { class: "flame", viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": "time of a run by module, from left to right", onmouseleave: () => tell(undefined) }, ruler(range, height), bars);
}

function bound(group: Group, profile: Profile): string {
  const compute = group.gflops / profile.peaks.gflops;
  const memory = group.gbs / profile.peaks.read_gbs;
  if (compute >= 0.4 && compute >= memory) return "compute";
  return memory >= 0.4 ? "memory" : "";
}

type By = "kernels" | "ops" | "layers";

function table(report: Report, profile: Profile, other: Profile | undefined, by: By, query: string, sort: string, change: (sort: string) => void): HTMLElement {
  const matches = matcher(query);
  const before = new Map((other?.[by] ?? []).map((g) => [g.name, g.ms]));
  const key = (g: Group, k: string): number | string => (k === "other" ? (before.get(g.name) ?? 0) : (g as any)[k]);
  const groups = sorted(profile[by].filter((g) => matches(g.name)), sort || "-ms", key);
  const most = 100;
  const columns: [string, string][] = [["name", by.slice(0, -1)], ["ms", "time"], ["steps", "steps"], ["gflops", "GFLOP/s"], ["gbs", "GB/s"]];
  if (other) columns.splice(2, 0, ["other", other.file]);
  const longest = Math.max(...profile[by].map((g) => g.ms), 1e-9);
  const rate = (value: number, peak: number) => (value > 0 ? [value.toFixed(1), h("span", { class: "dim" }, peak > 0 ? ` ${percent(value / peak)}` : "")] : "");
  return h("div", { class: "scroll", tabindex: 0 }, h("table", { class: "perf" },
    h("thead", {}, h("tr", {}, columns.map(([k, title]) => h("th", { "aria-sort": sort === k ? "ascending" : (sort || "-ms") === `-${k}` ? "descending" : null, class: k === "name" ? "" : "number" },
      h("button", { type: "button", "aria-label": `sort by ${title}`, onclick: () => change(sort === `-${k}` ? k : `-${k}`) }, title))), h("th", {}, "bound by"))),
    h("tbody", {}, groups.slice(0, most).map((g) => h("tr", {},
      h("td", {}, by === "layers" && report.callByName(g.name) ? h("a", { href: link("model", g.name) }, name(g.name)) : name(g.name)),
      h("td", { class: "number" }, h("span", { class: "meter", style: `width:${((60 * g.ms) / longest).toFixed(1)}px` }), milliseconds(g.ms), h("span", { class: "dim" }, ` ${percent(g.ms / profile.ms)}`)),
      other ? h("td", { class: "number" }, before.has(g.name) ? [milliseconds(before.get(g.name)!), h("span", { class: "dim" }, ` ${(before.get(g.name)! / g.ms).toFixed(2)}\u00d7`)] : "\u2014") : "",
      h("td", { class: "number" }, String(g.steps)),
      h("td", { class: "number" }, rate(g.gflops, profile.peaks.gflops)),
      h("td", { class: "number" }, rate(g.gbs, profile.peaks.read_gbs)),
      h("td", {}, bound(g, profile)))))),
    groups.length > most ? h("p", { class: "dim" }, `and ${groups.length - most} more: search for them`) : "");
}

export function performance(report: Report): Tab {
  if (!report.profiles.length) {
    const step = report.raw.summary.next.find((s: any) => s.command.includes("--profile"));
    return { element: h("div", { class: "page" }, howTo("Performance shows where the time of a run goes. Measure it, then give the file to report with --profile profile.json:", step?.command ?? "")) };
  }
  let options: Record<string, string> = {};
  const index = () => Math.min(report.profiles.length - 1, Number(options.profile ?? 0) || 0);
  const chart = h("div", {});
  const buffers = h("div", {});
  const list = h("div", {});
  const head = h("div", {});
  const whole = (p: Profile): [number, number] => [0, Math.max(p.ms, ...p.steps.slice(-1).map((s) => s.start + s.ms))];
  // The chosen one first, the others below it on the same scale of time.
  const info = h("p", { class: "dim" });
  const drawFlame = (range: [number, number], inside?: Span) => {
    const p = report.profiles[index()];
    const all = whole(p);
    const tellOf = (profile: Profile) => (pointed: Span | undefined) => {
      const span = pointed ?? inside;
      if (!span) return replace(info, "Click a bar to look into it.");
      const [layer, op] = span.path.split("\u0000");
      const call = report.callByName(op === undefined ? `${layer}@0` : layer);
      const title = name(layer || "(root)");
      replace(info, call ? h("a", { href: link("model", report.callName(call.id)) }, title) : title, op ? ` \u00b7 ${op}` : "",
        `: ${milliseconds(span.end - span.start)}, ${percent((span.end - span.start) / profile.ms)} of the run, from ${milliseconds(span.start)} on`);
    };
    const zoomed = range[0] > all[0] || range[1] < all[1];
    const others = zoomed ? [] : report.profiles.filter((other) => other !== p);
    const scale: [number, number] = zoomed ? range : [0, Math.max(all[1], ...others.map((other) => whole(other)[1]))];
    const titled = (profile: Profile) => (report.profiles.length > 1 ? h("h3", {}, name(profile.file), ` ${milliseconds(profile.ms)}, ${profile.backend}`) : "");
    replace(chart, zoomed ? h("button", { type: "button", class: "small", onclick: () => drawFlame(all) }, "show the whole run") : "",
      [p, ...others].map((profile) => [titled(profile), h("div", { class: "scroll", tabindex: 0 }, flame(profile, scale, { tell: tellOf(profile), zoom: profile === p ? (span) => drawFlame([span.start, span.end], span) : undefined }))]));
    tellOf(p)(undefined);
    replace(buffers, memory(p, zoomed ? range : all) || h("p", { class: "dim" }, "This profile does not say where activations lie."));
  };
  const refresh = () => {
    const p = report.profiles[index()];
    const other = report.profiles.length > 1 ? report.profiles[index() === 0 ? 1 : 0] : undefined;
    replace(head, facts([["run", `${milliseconds(p.ms)} on ${p.backend} with ${p.threads} threads, ${percent(p.accounted)} of it accounted for`],
      ["machine", `at most ${p.peaks.gflops.toFixed(0)} GFLOP/s and ${p.peaks.read_gbs.toFixed(1)} GB/s, as measured`],
      ["memory", `weights ${bytes(p.weight_bytes)}, activations ${bytes(p.arena_bytes)}`],
      ["file", name(p.file)],
      ["beside", other ? [name(other.file), ` ${milliseconds(other.ms)} on ${other.backend}, ${(other.ms / p.ms).toFixed(2)}\u00d7`] : ""]]));
    replace(list, table(report, p, other, (options.by as By) || "kernels", options.q ?? "", options.sort ?? "", (sort) => change({ sort })));
  };
  const change = (some: Record<string, string>) => {
    options = { ...options, ...some };
    keep({ options: some });
    refresh();
  };
  const input = search("find a kernel, op or layer", "", (q) => change({ q }));
  const groups = choice("group by", [["kernels", "kernel"], ["ops", "op"], ["layers", "layer"]], "kernels", (by) => change({ by }));
  const files: [string, string][] = report.profiles.map((p, i) => [String(i), `${i + 1}. ${p.backend}`]);
  const profiles = choice("profile", files, "0", (profile) => { change({ profile }); drawFlame(whole(report.profiles[index()])); });
  return {
    element: h("div", { class: "page" }, card("Run", head,
        files.length > 1 ? profiles : ""),
      card("By module, in the order of the run", chart, info),
      card("Memory of activations", buffers),
      card("By part", h("div", { class: "bar" }, groups, input), list)),
    show: (_, given) => {
      options = { ...given };
      input.value = options.q ?? "";
      press(groups, options.by || "kernels");
      press(profiles, String(index()));
      refresh();
      drawFlame(whole(report.profiles[index()]));
    },
  };
}
