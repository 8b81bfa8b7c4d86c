// What is folded in the graph: modules, and runs of parts where a module has too many to look at together.
import type { Report } from "./document";

const MOST_PARTS = 48; // of a module, before runs of them are folded
const MOST_RUNS = 60;

// A module call or a node, as what its module consists of.
type Part = string;
const partOf = (kind: "c" | "n", id: number): Part => `${kind}${id}`;

export interface Run {
  id: string;
  parts: Part[];
}

export class Folding {
  private readonly parts = new Map<number, Part[]>(); // of each module call, in the order of the program; -1: of none
  private readonly places = new Map<Part, { parent: number; index: number }>();
  private calls = new Set<number>();
  private runs = new Set<string>();

  constructor(private readonly report: Report) {
    for (const node of report.nodes) {
      let part = partOf("n", node.id);
      for (const call of report.above(node.call)) {
        this.add(call.id, part);
        part = partOf("c", call.id);
      }
      this.add(-1, part);
    }
  }

  private add(parent: number, part: Part): void {
    if (this.places.has(part)) return;
    const siblings = this.parts.get(parent) ?? [];
    this.places.set(part, { parent, index: siblings.length });
    siblings.push(part);
    this.parts.set(parent, siblings);
  }

  private lengthOf(parent: number): number {
    const count = this.parts.get(parent)?.length ?? 0;
    return count <= MOST_PARTS ? count : Math.max(MOST_PARTS - 8, Math.ceil(count / MOST_RUNS));
  }
  // The run that a part is in; empty: its module has few parts.
  private runOf(part: Part): string {
    const { parent, index } = this.places.get(part)!;
    const length = this.lengthOf(parent);
    return length === this.parts.get(parent)!.length ? "" : `r${parent}:${Math.floor(index / length)}`;
  }
  run(id: string): Run {
    const [parent, index] = id.slice(1).split(":").map(Number);
    const length = this.lengthOf(parent);
    return { id, parts: this.parts.get(parent)!.slice(index * length, (index + 1) * length) };
  }

  // The box that shows a node: itself, or the outermost folded module or run around it.
  boxOf(node: number): string {
    const around = [...this.report.above(this.report.nodes[node].call)].reverse();
    for (const call of around) {
      const run = this.runOf(partOf("c", call.id));
      if (run && !this.runs.has(run)) return run;
      if (!this.calls.has(call.id)) return partOf("c", call.id);
    }
    const run = this.runOf(partOf("n", node));
    return run && !this.runs.has(run) ? run : partOf("n", node);
  }

  get key(): string {
    return [...this.calls, ...this.runs].sort().join();
  }
  isOpen(call: number): boolean {
    return this.calls.has(call);
  }
  open(call: number): void {
    this.calls.add(call);
  }
  openRun(id: string): void {
    this.runs.add(id);
  }
  // Everything around a call is opened, so that its own box is in the picture.
  reveal(call: number): void {
    for (const around of this.report.above(call)) {
      const part = partOf("c", around.id);
      const run = this.places.has(part) ? this.runOf(part) : "";
      if (run) this.runs.add(run);
      if (around.id !== call) this.calls.add(around.id);
    }
  }
  fold(call: number): void {
    for (const inner of this.report.below(call)) {
      this.calls.delete(inner.id);
      for (const run of [...this.runs]) if (run.startsWith(`r${inner.id}:`)) this.runs.delete(run);
    }
  }
  foldAll(): void {
    this.calls.clear();
    this.runs.clear();
  }
  // What is done is undone when the picture would have too many boxes.
  tryTo(change: () => void, most: number): boolean {
    const [calls, runs] = [new Set(this.calls), new Set(this.runs)];
    change();
    if (this.count() <= most) return true;
    [this.calls, this.runs] = [calls, runs];
    return false;
  }
  count(): number {
    return new Set(this.report.nodes.map((node) => this.boxOf(node.id))).size;
  }
  // Opens modules level by level while the picture stays small.
  openSome(most: number): void {
    let level = this.report.calls.filter((call) => call.parent < 0);
    while (level.length && this.tryTo(() => level.forEach((call) => this.calls.add(call.id)), most))
      level = level.flatMap((call) => call.children.map((id) => this.report.calls[id]));
  }
}
