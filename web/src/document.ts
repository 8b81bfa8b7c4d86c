// The document that the program wrote, decoded: modules, nodes and layers that know each other.
import type { Num } from "./format";

interface Table {
  fields: string[];
  rows: any[][];
}
export interface Group {
  name: string;
  ms: number;
  steps: number;
  gflops: number;
  gbs: number;
}
export interface Step {
  kernel: string;
  op: string;
  layer: string;
  start: number;
  ms: number;
  gflop: number;
  bytes: number;
}
export interface Profile {
  file: string;
  backend: string;
  ms: number;
  accounted: number;
  threads: number;
  peaks: { gflops: number; read_gbs: number };
  weight_bytes: number;
  arena_bytes: number;
  kernels: Group[];
  ops: Group[];
  layers: Group[];
  steps: Step[];
  buffers: [offset: number, bytes: number, first: number, last: number][]; // steps, both included
}
export interface Weight {
  name: string;
  type: string;
  kind: string;
  value: number;
  elements: number;
  bytes: number;
  tied?: string[];
  same_as?: string;
  fate?: string;
  source?: string;
  note?: string;
  odd?: string;
  dead_rows?: [number, number]; // of how many
  zeros?: number;
  nan?: number;
  min?: number;
  max?: number;
  mean?: number;
  std?: number;
  histogram?: number[];
}
export interface Diagnosis {
  op?: string;
  path?: string;
  python?: string;
  source?: string;
  pass?: string;
  cause?: string;
  parameter?: string;
  cpp?: string;
  cpp_source?: string;
}
// Where a value differs: a letter a cell, as docs/result-file.md says.
export interface Picture {
  rows: number;
  columns: number;
  cells: string;
  largest: number;
}
export interface Layer {
  id: number;
  tap: string;
  node: number;
  call: number;
  verdict: string;
  op: string;
  python: string;
  source: string;
  dtype: string;
  input: string;
  why: string;
  decisions: string;
  cpp: string;
  cpp_source: string;
  shape: number[];
  ulps: number[];
  largest_difference?: number[];
  picture?: Picture;
  errors?: { first: number; counts: number[] }; // elements by the power of ten of their error
  max_abs?: Num;
  max_rel?: Num;
  rms?: Num;
  cosine?: Num;
  error_rms?: Num;
  error_max?: Num;
  floor_rms?: Num;
  floor_max?: Num;
  whole_rms?: Num;
  whole_max?: Num;
  differing?: number;
  nan_mismatches?: number;
  diagnosis?: Diagnosis;
  replay?: string[]; // commands
}
export interface Call {
  id: number;
  path: string;
  call: number;
  class: string;
  parent: number;
  file: number;
  line: number;
  forward: number;
  children: number[];
  nodes: number[]; // its own
  layers: number[]; // what it gives and takes
  flops: number; // with everything below
  ms: number;
  worst: number; // the worst verdict below, as its place in VERDICTS; -1: nothing was judged
}
export interface GraphNode {
  id: number;
  op: string;
  call: number;
  file: number;
  line: number;
  operands: number[];
  results: number[];
  flops: number;
  text: string;
  layer: number; // that judges its value; -1: none
}

// From good to bad: sign and colour class. The sign says it without the colour.
export const VERDICTS: { name: string; sign: string; cls: string }[] = [
  { name: "exact", sign: "\u2713", cls: "good" },
  { name: "within rounding", sign: "\u2713", cls: "good" },
  { name: "within tolerance", sign: "\u2713", cls: "good" },
  { name: "accumulated rounding", sign: "~", cls: "good" },
  { name: "reference unstable", sign: "?", cls: "unsure" },
  { name: "no evidence", sign: "\u25cb", cls: "unsure" },
  { name: "wrong upstream", sign: "\u2191", cls: "upstream" },
  { name: "wrong here", sign: "\u2717", cls: "bad" },
];
// One tap is judged at several inputs: of a second call, or at others that were recorded.
export const layerName = (layer: Layer): string => (layer.input ? `${layer.tap} (${layer.input})` : layer.tap);
export const rank = (verdict: string): number => VERDICTS.findIndex((v) => v.name === verdict);

function decoded(table: Table, texts: string[], shared: string[]): any[] {
  return table.rows.map((row, id) => {
    const item: any = { id };
    table.fields.forEach((field, i) => (item[field] = shared.includes(field) ? texts[row[i]] : row[i]));
    return item;
  });
}

export class Report {
  readonly raw: any;
  readonly calls: Call[];
  readonly nodes: GraphNode[];
  readonly layers: Layer[];
  readonly weights: Weight[];
  readonly profiles: Profile[];
  private readonly named = new Map<string, Call>(); // blocks.0@0
  readonly producer = new Map<number, number>(); // value -> node
  readonly users = new Map<number, number[]>(); // value -> nodes
  readonly given = new Map<number, string>(); // value -> the name of an input, parameter or state

  readonly returned = new Map<number, string>(); // value -> the name of an output

  constructor(raw: any) {
    this.raw = raw;
    const texts: string[] = raw.texts;
    this.calls = decoded(raw.program.calls, texts, ["class"]);
    for (const call of this.calls) Object.assign(call, { children: [], nodes: [], layers: [], flops: 0, ms: 0, worst: -1 });
    this.nodes = decoded(raw.program.nodes, texts, ["op"]);
    for (const node of this.nodes) node.layer = -1;
    const shared = ["op", "python", "source", "dtype", "input", "why", "judged", "cpp", "cpp_source", "decisions", "verdict"];
    this.layers = (raw.result?.layers ?? []).map((row: any, id: number) => {
      const layer: any = { shape: [], ulps: [], ...row, id };
      for (const key of shared) layer[key] = row[key] === undefined ? "" : texts[row[key]];
      return layer;
    });
    // A result of compiled code names its lines; otherwise they are where codegen says.
    for (const layer of this.layers) {
      const line = layer.cpp || layer.node < 0 ? undefined : this.codeLine(layer.node);
      if (line?.place) [layer.cpp, layer.cpp_source] = [line.place, line.text];
    }
    this.weights = raw.weights.rows;
    this.profiles = raw.profiles.map((p: any) => ({
      ...p,
      steps: decoded({ fields: p.fields, rows: p.steps }, texts, ["kernel", "op", "layer"]),
    }));
    this.connect();
  }

  private connect(): void {
    for (const call of this.calls) if (call.parent >= 0) this.calls[call.parent].children.push(call.id);
    for (const list of [this.raw.program.inputs, this.raw.program.states, this.weights])
      for (const item of list) this.given.set(item.value, item.name);
    for (const output of this.raw.program.outputs) this.returned.set(output.value, output.name);
    for (const node of this.nodes) {
      for (const value of node.results) this.producer.set(value, node.id);
      for (const value of new Set(node.operands)) {
        const users = this.users.get(value);
        if (users) users.push(node.id);
        else this.users.set(value, [node.id]);
      }
      if (node.call >= 0) this.calls[node.call].nodes.push(node.id);
      for (const call of this.above(node.call)) call.flops += node.flops;
    }
    for (const layer of this.layers) {
      if (layer.node >= 0) {
        const known = this.nodes[layer.node].layer;
        if (known < 0 || rank(this.layers[known].verdict) < rank(layer.verdict)) this.nodes[layer.node].layer = layer.id;
      }
      if (layer.call >= 0) this.calls[layer.call].layers.push(layer.id);
      for (const call of this.above(layer.call)) call.worst = Math.max(call.worst, rank(layer.verdict));
    }
    for (const call of this.calls) this.named.set(this.callName(call.id), call);
    const firstOfPath = new Map<string, number>();
    for (const call of this.calls) if (!firstOfPath.has(call.path)) firstOfPath.set(call.path, call.id);
    for (const step of this.profiles[0]?.steps ?? []) {
      const id = this.named.get(step.layer)?.id ?? firstOfPath.get(step.layer.replace(/@\d+$/, ""));
      for (const call of this.above(id ?? -1)) call.ms += step.ms;
    }
  }

  // A call and all around it.
  *above(id: number): Generator<Call> {
    for (; id >= 0; id = this.calls[id].parent) yield this.calls[id];
  }
  // A call and all below it.
  *below(id: number): Generator<Call> {
    yield this.calls[id];
    for (const child of this.calls[id].children) yield* this.below(child);
  }
  type(value: number): string {
    return this.raw.texts[this.raw.program.values.types[value]];
  }
  bytes(value: number): number {
    return this.raw.program.values.bytes[value];
  }
  callName(id: number): string {
    return id < 0 ? "" : `${this.calls[id].path}@${this.calls[id].call}`;
  }
  // For people: the root has a name too.
  callTitle(id: number): string {
    return this.calls[id]?.path ? this.callName(id) : "(root)";
  }
  // By its whole name, or the first of this tap.
  layerByName(text: string): Layer | undefined {
    return this.layers.find((layer) => layerName(layer) === text) ?? this.layers.find((layer) => layer.tap === text);
  }
  callByName(text: string): Call | undefined {
    return this.named.get(text);
  }
  place(file: number, line: number): string {
    return file < 0 ? "" : `${this.raw.program.files[file].path}:${line}`;
  }
  // Where emitted code computes a node: "emitted/src/model.hpp:12" and the line; empty: nobody knows.
  codeLine(node: number): { place: string; text: string } {
    const line: number = this.raw.code?.lines[node] ?? 0;
    return line > 0 ? { place: `${this.raw.code.path}:${line}`, text: this.raw.code.text[line - 1].trim() } : { place: "", text: "" };
  }
  sourceLine(file: number, line: number): string {
    if (file < 0) return "";
    return this.raw.program.files[file].lines.find((l: [number, string]) => l[0] === line)?.[1] ?? "";
  }
  wrong(): Layer[] {
    return this.layers.filter((layer) => layer.verdict === "wrong here");
  }
}
