// The page: tabs, keys, theme. Data stands in the page itself; nothing is loaded.
import { layerName, Report } from "./document";
import { h, name, replace } from "./dom";
import { drift } from "./drift";
import { graph } from "./graph";
import { model } from "./model";
import type { MakeTab, Tab } from "./parts";
import { performance } from "./performance";
import { go, link, read, type TabName, TABS } from "./route";
import { summary } from "./summary";
import { weights } from "./weights";

const MAKE: Record<TabName, MakeTab> = { summary, model, graph, drift, performance, weights };
const KEYS: [string, string][] = [
  ["/", "search"],
  ["\u2191 \u2193", "move in a list"],
  ["\u2190 \u2192", "fold and open a module"],
  ["g then s m g d p w", "go to a tab: Summary, Model, Graph, Drift, Performance, Weights"],
  ["n", "next wrong layer"],
  ["t", "dark or light"],
  ["+ \u2212 0", "zoom the graph, or show all of it"],
  ["?", "this list"],
  ["Esc", "close, leave the search"],
];

function remember(theme: string): void {
  try {
    localStorage.setItem("pycandle-theme", theme);
  } catch {
    // a page opened as a file may have no storage
  }
}

function remembered(): string | null {
  try {
    return localStorage.getItem("pycandle-theme");
  } catch {
    return null;
  }
}

// The person's choice, or else the system's.
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = remembered();

function showTheme(): void {
  const known = chosen === "dark" || chosen === "light";
  document.documentElement.dataset.theme = known ? chosen! : system.matches ? "dark" : "light";
}

function toggleTheme(): void {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remember(chosen);
  showTheme();
}

function help(): HTMLDialogElement {
  const dialog = h("dialog", { class: "help", "aria-label": "keys" },
    h("h2", {}, "Keys"),
    h("table", {}, KEYS.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what)))),
    h("form", { method: "dialog" }, h("button", {}, "close"))) as HTMLDialogElement;
  return dialog;
}

function start(report: Report): void {
  const tabs = new Map<TabName, Tab>();
  const main = h("main", { id: "main", tabindex: -1 });
  const dialog = help();
  const links = TABS.map((tab) => h("a", { href: link(tab.name), "data-tab": tab.name }, tab.title));
  const status: string = report.raw.summary.status;
  const cls = { passed: "good", wrong: "bad" }[status] ?? "unsure";
  replace(
    document.getElementById("app")!,
    h("a", { class: "skip", href: "#main", onclick: (e) => { e.preventDefault(); main.focus(); } }, "skip to the content"),
    h("header", {},
      h("div", { class: "brand" }, h("span", { class: "logo", "aria-hidden": "true" }, "\u25b2"), h("h1", {}, name(report.raw.name, "model-name")), h("span", { class: `chip ${cls}` }, status)),
      h("nav", { "aria-label": "tabs" }, links),
      h("div", { class: "tools" },
        h("button", { type: "button", onclick: toggleTheme, "aria-label": "dark or light", title: "dark or light (t)" }, "\u25d0"),
        h("button", { type: "button", onclick: () => dialog.showModal(), "aria-label": "keys", title: "keys (?)" }, "?"))),
    main,
    dialog,
  );

  const show = () => {
    const { tab, selected, options } = read();
    let made = tabs.get(tab);
    if (!made) tabs.set(tab, (made = MAKE[tab](report)));
    if (main.firstChild !== made.element) replace(main, made.element);
    main.className = tab;
    for (const a of links) {
      a.toggleAttribute("aria-current", false);
      if (a.dataset.tab !== tab) continue;
      a.setAttribute("aria-current", "page");
      a.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    made.show?.(selected, options);
  };
  addEventListener("hashchange", show);
  listen(report, dialog, main);
  show();
}

function listen(report: Report, dialog: HTMLDialogElement, main: HTMLElement): void {
  let pending = false; // after g
  let wrong = -1;
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const typing = target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) return target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const tab = TABS.find((t) => t.key === event.key);
    if (pending && tab) go(tab.name);
    else if (event.key === "g") return void (pending = true);
    else if (event.key === "/") main.querySelector<HTMLInputElement>(".search")?.focus();
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "t") toggleTheme();
    else if (event.key === "n" && report.wrong().length) {
      wrong = (wrong + 1) % report.wrong().length;
      const layer = report.wrong()[wrong];
      if (read().tab === "model") go("model", report.callName(layer.call));
      else go("drift", layerName(layer));
    } else {
      pending = false;
      return;
    }
    pending = false;
    event.preventDefault();
  });
}

showTheme();
system.addEventListener("change", showTheme);
const report = new Report(JSON.parse(document.getElementById("data")!.textContent!));
document.title = `${report.raw.name} \u00b7 PyCandle report`;
start(report);
