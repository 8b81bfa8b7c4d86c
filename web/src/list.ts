// A list of any length: only the rows in sight are elements. Arrows, Page, Home and End move the selection.
import { h } from "./dom";

export interface ListOptions<T> {
  label: string;
  role: "listbox" | "tree";
  height: number; // of a row
  row: (item: T, selected: boolean) => HTMLElement;
  select: (item: T, index: number) => void;
  open?: (item: T, open: boolean) => void; // right and left
}

let serial = 0;

export class List<T> {
  readonly element: HTMLElement;
  private items: T[] = [];
  private current = -1;
  private readonly body: HTMLElement;
  private readonly id = `list${++serial}`;
  private all = false; // for paper
  private readonly drawn = new Map<number, HTMLElement>(); // rows that are elements now

  constructor(private readonly options: ListOptions<T>) {
    this.body = h("div", { class: "list-body", role: "presentation" });
    this.element = h(
      "div",
      { class: "list", tabindex: 0, role: options.role, "aria-label": options.label, onkeydown: (e) => this.key(e) },
      this.body,
    );
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.element);
    addEventListener("beforeprint", () => this.forPaper(true));
    addEventListener("afterprint", () => this.forPaper(false));
  }

  set(items: T[], current: number): void {
    this.items = items;
    this.current = current;
    this.body.style.height = `${items.length * this.options.height}px`;
    this.drawAgain();
  }

  // Scrolls to the selection when it is out of sight.
  show(): void {
    if (this.current < 0) return;
    const top = this.current * this.options.height;
    const view = this.element;
    if (top < view.scrollTop || top + this.options.height > view.scrollTop + view.clientHeight)
      view.scrollTop = Math.max(0, top - view.clientHeight / 2);
    this.draw();
  }

  get rows(): number {
    return this.items.length;
  }

  private forPaper(all: boolean): void {
    if (!this.element.isConnected) return;
    this.all = all;
    this.draw();
  }

  private drawAgain(): void {
    for (const element of this.drawn.values()) element.remove();
    this.drawn.clear();
    this.draw();
  }

  private draw(): void {
    const { height, row } = this.options;
    // A head above the list leaves room for the scrollbar too.
    this.element.parentElement?.style.setProperty("--scrollbar", `${this.element.offsetWidth - this.element.clientWidth}px`);
    const spare = 8;
    const first = this.all ? 0 : Math.max(0, Math.floor(this.element.scrollTop / height) - spare);
    const shown = this.all ? this.items.length : Math.ceil(this.element.clientHeight / height) + 2 * spare;
    const end = Math.min(this.items.length, first + shown);
    for (const [i, element] of this.drawn) {
      if (i >= first && i < end) continue;
      element.remove();
      this.drawn.delete(i);
    }
    const fresh = document.createDocumentFragment();
    for (let i = first; i < end; ++i) {
      if (this.drawn.has(i)) continue;
      const element = row(this.items[i], i === this.current);
      element.id = `${this.id}-${i}`;
      element.style.transform = `translateY(${i * height}px)`;
      element.style.height = `${height}px`;
      element.setAttribute("role", this.options.role === "tree" ? "treeitem" : "option");
      element.setAttribute("aria-selected", String(i === this.current));
      element.setAttribute("aria-posinset", String(i + 1));
      element.setAttribute("aria-setsize", String(this.items.length));
      element.addEventListener("click", () => this.choose(i));
      this.drawn.set(i, element);
      fresh.append(element);
    }
    this.body.append(fresh);
    if (this.current >= 0) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.current}`);
  }

  private choose(index: number): void {
    if (index < 0 || index >= this.items.length) return;
    this.current = index;
    this.drawAgain();
    this.show();
    this.options.select(this.items[index], index);
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.height) - 1);
    const moves: Record<string, number> = {
      ArrowDown: this.current + 1,
      ArrowUp: this.current - 1,
      PageDown: Math.min(this.items.length - 1, this.current + page),
      PageUp: Math.max(0, this.current - page),
      Home: 0,
      End: this.items.length - 1,
    };
    if (event.key in moves) this.choose(moves[event.key]);
    else if (this.options.open && this.current >= 0 && (event.key === "ArrowRight" || event.key === "ArrowLeft"))
      this.options.open(this.items[this.current], event.key === "ArrowRight");
    else return;
    event.preventDefault();
  }
}
