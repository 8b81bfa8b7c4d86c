// The plan's buffers: where activations lie, and for how long, along the time of the run.
import { h, svg } from "./dom";
import type { Profile } from "./document";
import { bytes, milliseconds } from "./format";

const WIDTH = 1000;
const HEIGHT = 180;

const MOST = 4000; // rectangles

export function memory(profile: Profile, range: [number, number]): HTMLElement | "" {
  const { steps, buffers } = profile;
  if (!buffers.length) return "";
  const [begin, end] = range;
  const x = (t: number) => (WIDTH * (Math.min(Math.max(t, begin), end) - begin)) / (end - begin);
  const highest = Math.max(...buffers.map(([offset, size]) => offset + size));
  const y = (at: number) => HEIGHT * (1 - at / highest);
  const boxes = buffers.slice(0, MOST).flatMap(([offset, size, first, last]) => {
    const from = x(steps[first].start);
    const to = x(steps[last].start + steps[last].ms);
    if (to - from < 0.05) return [];
    const step = steps[first];
    const box = svg("rect", { class: "buffer", x: from.toFixed(2), y: y(offset + size).toFixed(2), width: Math.max(0.4, to - from - 0.3).toFixed(2), height: Math.max(0.4, y(offset) - y(offset + size) - 0.3).toFixed(2) });
    box.append(svg("title", {}, `${bytes(size)} at ${bytes(offset)}: made by ${step.op} of ${step.layer || "(root)"}, kept for ${milliseconds(steps[last].start + steps[last].ms - step.start)}`));
    return [box];
  });
  return h("figure", {},
    h("div", { class: "scroll", tabindex: 0 }, svg("svg", { class: "memory", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `buffers of the plan over the time of the run, ${bytes(highest)} in all` }, boxes)),
    h("figcaption", {}, `${buffers.length} buffers share ${bytes(highest)}; without sharing they would take ${bytes(buffers.reduce((sum, b) => sum + b[1], 0))}. From left to right: time. From bottom to top: place.`));
}
