// Small pieces that several tabs show.
import { type Child, h, name } from "./dom";
import { type Layer, layerName, rank, type Report, VERDICTS } from "./document";
import { link } from "./route";

export function verdict(text: string): HTMLElement {
  const found = VERDICTS[rank(text)];
  return h("span", { class: `verdict ${found?.cls ?? ""}` }, h("b", { "aria-hidden": "true" }, found?.sign ?? "\u00b7"), " ", text);
}

// Of a place in VERDICTS; -1: nothing was judged, -2: there is nothing to judge.
export function sign(place: number): HTMLElement {
  const found = VERDICTS[place];
  if (place < -1) return h("span", { class: "sign" });
  if (!found) return h("span", { class: "sign" }, "\u00b7");
  return h("span", { class: `sign ${found.cls}`, title: found.name, "aria-label": found.name }, found.sign);
}

export function facts(rows: [string, Child][]): HTMLElement {
  const shown = rows.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0));
  return h("dl", { class: "facts" }, shown.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

export function card(title: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

// A command with a button that copies it.
export function command(text: string): HTMLElement {
  const button = h("button", { class: "small", type: "button", "aria-label": "copy the command" }, "copy");
  button.addEventListener("click", () => {
    navigator.clipboard?.writeText(text).then(
      () => (button.textContent = "copied"),
      () => (button.textContent = "select it to copy"),
    );
  });
  return h("div", { class: "command" }, h("code", {}, text), button);
}

// In place of a tab without data: what it would show, and how to get it.
export function howTo(what: string, text: string): HTMLElement {
  return h("div", { class: "empty card" }, h("p", {}, what), command(text));
}

export function search(label: string, value: string, change: (text: string) => void): HTMLInputElement {
  const input = h("input", {
    type: "search",
    class: "search",
    placeholder: `${label} ( / )`,
    "aria-label": label,
    spellcheck: "false",
    oninput: () => change(input.value),
  }) as HTMLInputElement;
  input.value = value;
  return input;
}

// Buttons of which one is pressed.
export function choice(label: string, values: [string, string][], chosen: string, change: (value: string) => void): HTMLElement {
  const group = h("div", { class: "choice", role: "group", "aria-label": label });
  for (const [value, title] of values)
    group.append(
      h(
        "button",
        {
          type: "button",
          "data-value": value,
          onclick: () => {
            press(group, value);
            change(value);
          },
        },
        title,
      ),
    );
  press(group, chosen);
  return group;
}
export function press(group: HTMLElement, value: string): void {
  for (const button of group.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.value === value));
}

export function layerLink(layer: Layer): HTMLElement {
  return h("a", { href: link("drift", layerName(layer)) }, name(layer.tap), layer.input ? ` at ${layer.input}` : "");
}

// Every word of the search is somewhere in the text.
export function matcher(query: string): (text: string) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => {
    const lower = text.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
}

// A table's head whose cells sort: "-error" is descending.
export function sortHead(
  columns: { key: string; title: string; cls?: string }[],
  now: string,
  change: (sort: string) => void,
): HTMLElement {
  return h(
    "div",
    { class: "row head" },
    columns.map((column) => {
      const down = now === `-${column.key}`;
      const up = now === column.key;
      return h(
        "button",
        {
          type: "button",
          class: `cell ${column.cls ?? ""}`,
          "aria-label": `sort by ${column.title}`,
          "aria-description": down ? "descending" : up ? "ascending" : null,
          onclick: () => change(down ? column.key : up ? "" : `-${column.key}`),
        },
        column.title,
        h("span", { "aria-hidden": "true" }, down ? " \u2193" : up ? " \u2191" : ""),
      );
    }),
  );
}

export function sorted<T>(items: T[], sort: string, value: (item: T, key: string) => number | string): T[] {
  if (!sort) return items;
  const down = sort.startsWith("-");
  const key = down ? sort.slice(1) : sort;
  const keyed = items.map((item, place) => ({ item, place, value: value(item, key) }));
  keyed.sort((a, b) => {
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
    return (down ? -order : order) || a.place - b.place;
  });
  return keyed.map((k) => k.item);
}

export function bars(counts: number[], label: string, width = 96, height = 20): SVGElement | "" {
  if (!counts.length) return "";
  const most = Math.max(...counts);
  const step = width / counts.length;
  const path = counts
    .map((n, i) => {
      const tall = n === 0 ? 0 : Math.max(1, (height * n) / most);
      return `M${(i * step).toFixed(1)} ${height}v${(-tall).toFixed(1)}h${Math.max(0.5, step - 0.5).toFixed(1)}V${height}z`;
    })
    .join("");
  const element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  element.setAttribute("viewBox", `0 0 ${width} ${height}`);
  element.setAttribute("class", "bars");
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", label);
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", path);
  element.append(shape);
  return element;
}

export interface Tab {
  element: HTMLElement;
  show?: (selected: string, options: Record<string, string>) => void;
}
export type MakeTab = (report: Report) => Tab;
