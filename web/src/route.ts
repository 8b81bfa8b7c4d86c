// What is shown, as the address says it: #drift/h.0.mlp%400%2Foutput?q=gelu&sort=-error. A link keeps tab, selection, search and order.
export type TabName = "summary" | "model" | "graph" | "drift" | "performance" | "weights";
export const TABS: { name: TabName; title: string; key: string }[] = [
  { name: "summary", title: "Summary", key: "s" },
  { name: "model", title: "Model", key: "m" },
  { name: "graph", title: "Graph", key: "g" },
  { name: "drift", title: "Drift", key: "d" },
  { name: "performance", title: "Performance", key: "p" },
  { name: "weights", title: "Weights", key: "w" },
];

export interface Route {
  tab: TabName;
  selected: string;
  options: Record<string, string>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export function read(): Route {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [tab, selected = ""] = path.split("/");
  const known = TABS.find((t) => t.name === tab);
  return {
    tab: known ? known.name : "summary",
    selected: decode(selected),
    options: Object.fromEntries(new URLSearchParams(query)),
  };
}

export function link(tab: TabName, selected = "", options: Record<string, string> = {}): string {
  const query = new URLSearchParams(Object.entries(options).filter(([, value]) => value !== "")).toString();
  return `#${tab}${selected ? "/" + encodeURIComponent(selected) : ""}${query ? "?" + query : ""}`;
}

export function go(tab: TabName, selected = "", options: Record<string, string> = {}): void {
  location.hash = link(tab, selected, options);
}

// Changes the address without a new entry in the history: typing and sorting.
export function keep(change: Partial<Route>): void {
  const now = read();
  const options = { ...now.options, ...(change.options ?? {}) };
  history.replaceState(null, "", link(change.tab ?? now.tab, change.selected ?? now.selected, options));
}
