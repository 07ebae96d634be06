// The keys, and the window that lists them.

import { html } from "./elements";

export interface Key {
  keys: string[];
  shown: string;
  does: string;
  run: () => void;
}

const LEGEND: Record<string, string> = { "order-2": "backward of order 2", "order-3": "of order 3 or more" };

export class Help {
  readonly dialog = html("dialog", { class: "help", "aria-label": "keys" });

  constructor(keys: Key[]) {
    const rows = keys.map((key) => html("tr", {}, html("th", {}, html("kbd", {}, key.shown)), html("td", {}, key.does)));
    const mouse = [
      ["wheel, pinch", "zoom; with shift the wheel pans"],
      ["drag", "pan"],
      ["click", "select: what it reads and writes, and its partners in forward and backward, are highlighted"],
      ["double click, ⊕", "open or close a group"],
      ["↑ ↓ Home End", "in the list of passes: to the previous, next, first and last one"],
    ].map(([what, does]) => html("tr", {}, html("th", {}, what!), html("td", {}, does!)));
    const legend = html(
      "p",
      { class: "legend" },
      ...["forward", "backward", "order-2", "order-3", "optimize", "added", "removed", "changed"].map((name) => html("span", { class: `swatch ${name}` }, LEGEND[name] ?? name)),
    );
    const close = html("button", { type: "button", class: "plain", click: () => this.dialog.close() }, "Close");
    this.dialog.append(html("h2", {}, "Keys"), html("table", {}, html("tbody", {}, ...rows, ...mouse)), html("h2", {}, "Colors"), legend, close);
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  toggle(): void {
    if (this.dialog.open) this.dialog.close();
    else this.dialog.showModal();
  }
}
