// The page: what is looked at, and how the panes follow it.

import { type Address, read, written } from "./address";
import { Canvas, type Focus, NO_FOCUS, type Viewport } from "./canvas";
import { changesBetween, neighbors } from "./changes";
import type { Data } from "./data";
import { DetailsPane } from "./details";
import { html } from "./elements";
import { Help, type Key } from "./help";
import { inflated } from "./inflate";
import { linesOf } from "./lines";
import { PassList } from "./passes";
import { exported, saved } from "./picture";
import { ProgramPane } from "./program";
import { sceneOf } from "./scene";
import { find, type Hit } from "./search";
import { History, type Op } from "./state";
import { type Overlay, overlaysOf } from "./overlay";
import { isGroup, Tree } from "./tree";

const ON_TAKEN = new Set(["+", "-", "?", "/"]); // keys that mean in the search box, once a match was taken, what they mean elsewhere

class Page {
  private readonly history: History;
  private readonly address: Address;
  private readonly canvas: Canvas;
  private readonly passes: PassList;
  private readonly program: ProgramPane;
  private readonly details: DetailsPane;
  private readonly help: Help;
  private readonly bound: Map<string, () => void>; // what keys do
  private readonly search = html("input", { type: "search", role: "searchbox", placeholder: "Search  /", "aria-label": "search operators and values", autocomplete: "off", spellcheck: "false" });
  private readonly hits = html("ol", { class: "hits", "aria-label": "matches" });
  private readonly tabs = html("nav", { class: "tabs" });
  private readonly colors = html("button", { type: "button", class: "tool", "aria-label": "color by", title: "color by cost or time (t)", click: () => this.nextColor() }, "◐");
  private readonly status = html("div", { class: "status", role: "status" });
  private found: Hit[] = [];
  private hit = 0;
  private isTaken = false; // the best match was taken, and nothing typed since
  private tree!: Tree;
  private writing = 0;

  constructor(private readonly data: Data) {
    this.history = new History(data);
    this.address = read(location.hash || data.start);
    this.canvas = new Canvas({
      onSelect: (key, value) => this.select(value >= 0 && this.address.selection !== `v${value}` ? `v${value}` : key),
      onHover: (key) => this.hover(key),
      onToggle: (key) => this.toggle(key),
      onMove: () => this.remember(),
    });
    this.passes = new PassList(this.history, { onPass: (frame) => this.go(frame, -1), onRewrite: (rewrite) => this.go(this.address.pass, rewrite) });
    this.program = new ProgramPane(
      (op) => this.select(`o${op}`, true),
      (op) => this.hover(op === null ? null : (this.tree.visible(op)?.key ?? null)),
    );
    this.details = new DetailsPane(
      (op) => this.select(`o${op}`, true),
      (value) => this.select(`v${value}`, true),
      (key) => this.toggle(key),
    );
    const keys = this.keys();
    this.help = new Help(keys);
    this.bound = new Map(keys.flatMap(({ keys, run }) => keys.map((key): [string, () => void] => [key, run])));
    this.build();
    if (!location.hash && !data.start) this.address.pass = Math.max(data.frames.findIndex((frame) => frame.error), 0); // a failure is what is looked for
    this.address.pass = Math.min(Math.max(this.address.pass, 0), data.frames.length - 1);
    this.address.step = Math.min(this.address.step, data.frames[this.address.pass]!.rewrites.length - 1);
    const view = this.address.view;
    this.rebuild(false);
    this.look(view);
    if (this.address.color) this.color(this.address.color);
    this.show(this.address.selection, view === null);
    const isSelected = this.address.selection !== "";
    if (view === null && (this.isStep || (!isSelected && !this.seesChange))) this.toChange(0);
    else if (!isSelected) this.program.toFirstChange();
  }

  /** Whether something that was changed is in sight. */
  private get seesChange(): boolean {
    return [...this.tree.changes.ops.keys()].some((op) => this.canvas.sees(this.tree.visible(op)?.key ?? ""));
  }

  // -- the frame of the page ----------------------------------------------------------------------

  private build(): void {
    const button = (text: string, label: string, run: () => void): HTMLElement => html("button", { type: "button", class: "tool", title: label, "aria-label": label, click: run }, text);
    const tools = html(
      "div",
      { class: "tools" },
      button("−", "zoom out (-)", this.canvas.zoomOut),
      button("+", "zoom in (+)", this.canvas.zoomIn),
      button("⤢", "fit (f)", () => this.canvas.fit()),
      button("⊞", "open all groups (o)", () => this.openAll(true)),
      button("⊟", "close all groups (c)", () => this.openAll(false)),
      this.colors,
      button("⤓", "save the picture as SVG (s)", () => this.export()),
      button("?", "keys (?)", () => this.help.toggle()),
    );
    const header = html("header", {}, html("h1", {}, this.data.title), html("div", { class: "search" }, this.search, this.hits), tools);
    const side = html("div", { class: "side" }, this.program.pane, this.details.pane);
    this.canvas.pane.append(this.status);
    document.body.replaceChildren(header, html("main", {}, this.passes.pane, this.canvas.pane, side), this.tabs, this.help.dialog);
    for (const name of ["passes", "program", "details"]) this.tabs.append(html("button", { type: "button", click: () => this.tab(name) }, name));
    this.tab("passes");
    this.search.addEventListener("focus", () => this.lookFor(this.search.value));
    this.search.addEventListener("input", () => this.lookFor(this.search.value));
    this.search.addEventListener("keydown", (event) => this.searchKey(event));
    this.search.addEventListener("blur", () => setTimeout(() => this.hits.replaceChildren(), 150));
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.restore());
    if (this.data.watched) addEventListener("focus", () => location.reload());
  }

  /** On narrow screens one pane at a time is below the graph. */
  private tab(name: string): void {
    document.body.dataset.tab = name;
    for (const button of this.tabs.children) button.setAttribute("aria-pressed", String(button.textContent === name));
  }

  /** Look where the address says; of a scale alone, at the same place as at first sight. */
  private look(view: Viewport | null): void {
    if (view === null || Number.isNaN(view.x) || Number.isNaN(view.y)) this.canvas.fit(true);
    if (view === null) return;
    if (Number.isNaN(view.x) || Number.isNaN(view.y)) this.canvas.zoom(view.scale / this.canvas.view.scale);
    else this.canvas.move(view);
  }

  /** Color the boxes by a measure, by its name; empty: by the part of the program. */
  private color(name: string): void {
    const overlay = this.overlays().find((each) => each.name === name) ?? null;
    this.address.color = overlay?.name ?? "";
    this.colors.setAttribute("aria-pressed", String(overlay !== null));
    this.canvas.paint(overlay);
    this.remember();
  }

  private nextColor(): void {
    const names = ["", ...this.overlays().map((each) => each.name)];
    this.color(names[(names.indexOf(this.address.color) + 1) % names.length]!);
  }

  private overlays(): Overlay[] {
    return overlaysOf(this.data, this.costs());
  }

  /** What operators cost after the pass that is shown. */
  private costs(): Map<number, [number, number, number]> {
    const costs = new Map<number, [number, number, number]>();
    for (const frame of this.data.frames.slice(0, this.address.pass + 1)) for (const [id, cost] of Object.entries(frame.costs)) costs.set(Number(id), cost);
    return costs;
  }

  // -- what is shown ------------------------------------------------------------------------------

  private get isStep(): boolean {
    return this.address.step >= 0;
  }

  private rebuild(isAnchored: boolean): void {
    const { pass, step } = this.address;
    const before = pass === 0 ? this.history.after(0) : this.isStep ? this.history.within(pass, step) : this.history.after(pass - 1);
    const after = this.isStep ? this.history.within(pass, step + 1) : this.history.after(pass);
    this.tree = new Tree(before, after, changesBetween(before, after), this.address.groups);
    const scene = sceneOf(this.tree);
    if (isAnchored) this.canvas.anchor(scene, this.selectedKey());
    this.canvas.overlay = this.address.color ? (this.overlays().find((each) => each.name === this.address.color) ?? null) : null;
    this.canvas.show(this.tree, scene);
    this.program.show(linesOf(this.history, before, after, this.tree.changes));
    this.passes.select(pass, step);
    this.say("");
  }

  /** Go to a pass, or to one of its rewrites. */
  private go(pass: number, step: number): void {
    if (pass < 0 || pass >= this.data.frames.length || (pass === this.address.pass && step === this.address.step)) return;
    this.address.pass = pass;
    this.address.step = step;
    this.rebuild(true);
    const isThere = this.selectedKey() !== null && this.address.selection !== "";
    if (!isThere) this.address.selection = "";
    if (this.isStep) this.toChange(0);
    else if (!isThere) this.program.toFirstChange();
    this.show(this.address.selection, false);
  }

  /** Bring an operator that was changed into sight: the first one, or the next. */
  private toChange(at: number): void {
    const changed = [...this.tree.changes.ops.keys()];
    const op = changed[at % Math.max(changed.length, 1)];
    const key = op === undefined ? undefined : this.tree.visible(op)?.key;
    if (op === undefined || key === undefined) return;
    this.canvas.reveal(key);
    this.program.scrollTo(op);
  }

  private nextChange(): void {
    const changed = [...this.tree.changes.ops.keys()];
    const at = changed.indexOf(Number(this.address.selection.slice(1)));
    const next = changed[(at + 1) % Math.max(changed.length, 1)];
    if (next !== undefined) this.select(`o${next}`, true);
  }

  private neighbor(by: number): void {
    const { pass, step } = this.address;
    const count = this.data.frames[pass]!.rewrites.length;
    if (!this.isStep) this.go(this.passes.next(pass, by), -1);
    else if (step + by >= 0 && step + by < count) this.go(pass, step + by);
    else this.go(by > 0 ? this.passes.next(pass, 1) : pass, -1);
  }

  // -- selection ----------------------------------------------------------------------------------

  private select(key: string, isRevealing = false): void {
    const op = key.startsWith("o") ? Number(key.slice(1)) : this.opOf(key);
    if (isRevealing && op !== null && this.tree.reveal(op)) this.rebuild(true);
    this.address.selection = key;
    this.canvas.look(NO_FOCUS); // until the mouse moves, what is selected counts
    this.show(key, true);
    if (isRevealing) {
      const shape = this.selectedKey();
      if (shape !== null) this.canvas.reveal(shape);
    }
    if (key) this.tab("details");
  }

  /** Of a value, the operator that writes it, or else one that reads it. */
  private opOf(key: string): number | null {
    if (!key.startsWith("v")) return null;
    const value = Number(key.slice(1));
    const { after, before } = this.tree;
    return after.writers(value)[0] ?? before.writers(value)[0] ?? after.readers(value)[0] ?? null;
  }

  /** The shape that is visible for what is selected; null where there is none. */
  private selectedKey(): string | null {
    return this.shapeOf(this.address.selection);
  }

  private shapeOf(key: string): string | null {
    if (this.canvas.scene.shapes.has(key)) return key;
    const op = key.startsWith("o") ? Number(key.slice(1)) : this.opOf(key);
    return op === null ? null : (this.tree.visible(op)?.key ?? null);
  }

  private show(key: string, isScrolling: boolean): void {
    const { tree } = this;
    const context = { history: this.history, tree, frame: this.address.pass, rewrite: this.address.step, costs: this.costs() };
    const id = Number(key.slice(1));
    const group = tree.groups.get(key);
    const op = key.startsWith("o") ? (tree.after.ops.get(id) ?? tree.before.ops.get(id)) : undefined;
    if (op !== undefined) this.details.showOp(context, op);
    else if (key.startsWith("v")) this.details.showValue(context, id);
    else if (group !== undefined) this.details.showGroup(context, group);
    else this.details.showPass(context);
    this.canvas.highlight(key ? this.focusOn(key) : NO_FOCUS);
    this.program.select(new Set(op ? [op.id] : group ? group.ops : key.startsWith("v") ? [...tree.after.writers(id)] : []), isScrolling && key !== "");
    this.remember();
  }

  /** Show what is around a shape that the mouse is over, and say it. */
  private hover(key: string | null): void {
    this.canvas.look(key === null ? NO_FOCUS : this.focusOn(key));
    const op = key?.startsWith("o") ? Number(key.slice(1)) : null;
    this.program.hover(op);
    this.say(op === null || !this.tree.homes.has(op) ? "" : this.around(this.tree.op(op)));
  }

  private around(op: Op): string {
    const { producers, consumers } = neighbors(this.tree.stateOf(op), op);
    const named = (ids: Set<number>): string => {
      const types = [...ids].map((id) => this.tree.op(id).type);
      return types.length > 4 ? `${types.slice(0, 3).join(", ")} and ${types.length - 3} more` : types.join(", ") || "none";
    };
    return `${op.type}: producers ${named(producers)}; consumers ${named(consumers)}`;
  }

  /** A line below the graph: what is said, or else what the pass changed. */
  private say(text: string): void {
    const counts = Object.entries(this.tree.changes.counts).filter(([, count]) => count > 0);
    this.status.textContent = text || counts.map(([mark, count]) => `${count} ${mark}`).join(", ");
  }

  private focusOn(key: string): Focus {
    if (key.startsWith("v")) {
      const shape = this.shapeOf(key); // of a value without a box of its own that of the operator that names it
      return { keys: new Set(shape === null ? [] : [shape]), value: Number(key.slice(1)), partners: new Set() };
    }
    const item = this.canvas.scene.shapes.get(key)?.item;
    const op = key.startsWith("o") ? Number(key.slice(1)) : null;
    const seen = item === undefined && op !== null ? this.tree.visible(op)?.key : key;
    const ops = item !== undefined && isGroup(item) && item.op === null ? item.ops : op === null ? [] : [op];
    return { keys: new Set(seen ? [seen] : []), value: -1, partners: new Set(ops.flatMap((each) => this.partners(each)).filter((each) => each !== seen)) };
  }

  private partners(id: number): string[] {
    const op: Op | undefined = this.tree.homes.has(id) ? this.tree.op(id) : undefined;
    if (op === undefined) return [];
    const state = this.tree.stateOf(op);
    return [op.forward, ...state.gradients(id)].map((other) => this.tree.visible(other)?.key).filter((key) => key !== undefined);
  }

  // -- groups -------------------------------------------------------------------------------------

  private toggle(key: string): void {
    const group = this.tree.groups.get(key);
    if (group === undefined || key === "root") return;
    this.address.groups.set(key, !group.isOpen);
    this.rebuild(true);
    this.show(this.address.selection, false);
  }

  private openAll(isOpen: boolean): void {
    for (const key of this.tree.groups.keys()) if (key !== "root" && !(isOpen && key.startsWith("y"))) this.address.groups.set(key, isOpen);
    this.rebuild(true);
    this.canvas.fit(true);
    this.show(this.address.selection, false);
  }

  // -- search -------------------------------------------------------------------------------------

  private lookFor(query: string): void {
    this.isTaken = false;
    this.found = find(this.history, this.tree.after, query);
    this.hit = 0;
    const items = this.found.slice(0, 12).map((hit, i) => {
      const button = html("button", { type: "button", tabindex: -1, "aria-current": String(i === 0) }, html("b", {}, hit.title), html("span", { class: "note" }, ` ${hit.note}`));
      button.addEventListener("pointerdown", () => this.take(i));
      return html("li", {}, button);
    });
    const none = query.trim() && this.found.length === 0 ? [html("li", { class: "note" }, "nothing found")] : [];
    this.hits.replaceChildren(...items, ...none);
  }

  /** Go to the search box; what is typed there replaces what was looked for before. */
  private toSearch(): void {
    this.search.focus();
    this.search.select();
  }

  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.search.value = "";
      this.lookFor("");
      this.search.blur();
    } else if (this.isTaken && ON_TAKEN.has(event.key)) {
      event.preventDefault();
      this.bound.get(event.key)!();
    } else if (event.key === "Enter") {
      this.take(this.hit);
      this.isTaken = this.found.length > 0;
      this.hit = this.found.length ? (this.hit + 1) % this.found.length : 0; // Enter again takes the next one
      this.hits.replaceChildren();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const count = Math.min(this.found.length, 12);
      this.hit = count ? (this.hit + (event.key === "ArrowDown" ? 1 : count - 1)) % count : 0;
      [...this.hits.querySelectorAll("button")].forEach((button, i) => button.setAttribute("aria-current", String(i === this.hit)));
    }
    event.stopPropagation();
  }

  private take(i: number): void {
    const hit = this.found[i];
    if (hit === undefined) return;
    this.select(hit.value >= 0 ? `v${hit.value}` : `o${hit.op}`, true);
  }

  // -- keys ---------------------------------------------------------------------------------------

  private keys(): Key[] {
    const pan = (dx: number, dy: number) => (): void => this.canvas.pan(dx, dy);
    return [
      { keys: ["/"], shown: "/", does: "search: type, name, attribute, shape; Enter takes the best match, Enter again the next", run: () => this.toSearch() },
      { keys: ["ArrowLeft"], shown: "←", does: "previous pass, or previous rewrite within one", run: () => this.neighbor(-1) },
      { keys: ["ArrowRight"], shown: "→", does: "next pass, or next rewrite within one", run: () => this.neighbor(1) },
      { keys: ["]", "n"], shown: "]", does: "go into the rewrites of a pass, and to the next one", run: () => this.rewrite(1) },
      { keys: ["[", "p"], shown: "[", does: "the rewrite before", run: () => this.rewrite(-1) },
      { keys: ["Escape"], shown: "Esc", does: "the whole pass; then nothing selected", run: () => this.escape() },
      { keys: ["f", "0"], shown: "f", does: "fit the whole drawing into the pane", run: () => this.canvas.fit() },
      { keys: ["1"], shown: "1", does: "as at first sight: large enough to read", run: () => this.canvas.fit(true) },
      { keys: ["+", "="], shown: "+", does: "zoom in", run: this.canvas.zoomIn },
      { keys: ["-", "_"], shown: "-", does: "zoom out", run: this.canvas.zoomOut },
      { keys: ["w"], shown: "w", does: "pan up", run: pan(0, 80) },
      { keys: ["a"], shown: "a", does: "pan to the left", run: pan(80, 0) },
      { keys: ["d"], shown: "d", does: "pan to the right", run: pan(-80, 0) },
      { keys: ["x"], shown: "x", does: "pan down", run: pan(0, -80) },
      { keys: ["ArrowUp"], shown: "↑", does: "select the operator before", run: () => this.along(-1) },
      { keys: ["ArrowDown"], shown: "↓", does: "select the operator after", run: () => this.along(1) },
      { keys: ["Enter", " "], shown: "Enter", does: "open or close the selected group", run: () => this.toggle(this.selectedKey() ?? "") },
      { keys: ["e"], shown: "e", does: "to the next operator that the pass or rewrite changed", run: () => this.nextChange() },
      { keys: ["g"], shown: "g", does: "to the partner: from a forward operator to its gradient, and back", run: () => this.toPartner() },
      { keys: ["t"], shown: "t", does: "color the operators by what they cost, by the time they took; again: the next", run: () => this.nextColor() },
      { keys: ["o"], shown: "o", does: "open all groups", run: () => this.openAll(true) },
      { keys: ["c"], shown: "c", does: "close all groups", run: () => this.openAll(false) },
      { keys: ["s"], shown: "s", does: "save the present picture as SVG", run: () => this.export() },
      { keys: ["?"], shown: "?", does: "these keys", run: () => this.help.toggle() },
    ];
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target instanceof HTMLElement ? event.target : document.body;
    if (target.tagName === "INPUT" && (target as HTMLInputElement).type !== "checkbox") return;
    if ((event.key === "Enter" || event.key === " ") && (target.tagName === "BUTTON" || target.tagName === "INPUT")) return;
    if (this.help.dialog.open && event.key !== "?") return;
    const run = (target.getAttribute("role") === "listbox" ? this.inList(event.key) : undefined) ?? this.bound.get(event.key);
    if (run === undefined) return;
    event.preventDefault();
    run();
  }

  /** What keys do while the list of passes has the focus, as in any list. */
  private inList(key: string): (() => void) | undefined {
    const steps: Record<string, () => void> = {
      ArrowUp: () => this.neighbor(-1),
      ArrowDown: () => this.neighbor(1),
      Home: () => this.go(0, -1),
      End: () => this.go(this.passes.next(this.data.frames.length, -1), -1),
    };
    return steps[key];
  }

  private rewrite(by: number): void {
    const { pass, step } = this.address;
    const count = this.data.frames[pass]!.rewrites.length;
    const next = this.isStep ? step + by : by > 0 ? 0 : count - 1;
    if (next >= 0 && next < count) this.go(pass, next);
  }

  private escape(): void {
    if (this.isStep) this.go(this.address.pass, -1);
    else this.select("");
  }

  /** Select the operator before or after the selected one, in the order of the program. */
  private along(by: number): void {
    const order = this.tree.after.order(this.tree.after.root);
    const at = order.indexOf(Number(this.address.selection.slice(1)));
    const next = order[at < 0 ? 0 : Math.min(Math.max(at + by, 0), order.length - 1)];
    if (next !== undefined) this.select(`o${next}`, true);
  }

  private toPartner(): void {
    const id = Number(this.address.selection.slice(1));
    const op = this.address.selection.startsWith("o") ? this.tree.after.ops.get(id) : undefined;
    const partner = op === undefined ? undefined : (this.tree.after.gradients(id)[0] ?? (this.tree.after.ops.has(op.forward) ? op.forward : undefined));
    if (partner !== undefined) this.select(`o${partner}`, true);
  }

  private export(): void {
    const text = this.canvas.whole((canvas) => exported(canvas, this.canvas.scene, getComputedStyle(document.body).backgroundColor));
    saved(text, `${this.data.title.replace(/[^\w.-]+/g, "-")}-${this.data.frames[this.address.pass]!.name}.svg`, "image/svg+xml");
  }

  // -- address ------------------------------------------------------------------------------------

  private remember(): void {
    if (this.writing) return;
    this.writing = window.setTimeout(() => {
      this.writing = 0;
      this.address.view = this.canvas.view;
      try {
        history.replaceState(null, "", written(this.address));
      } catch {
        // a frame in a notebook has no address of its own
      }
    }, 60);
  }

  /** The address was changed by hand, or by the browser's buttons. */
  private restore(): void {
    const next = read(location.hash);
    Object.assign(this.address, next, { pass: Math.min(Math.max(next.pass, 0), this.data.frames.length - 1) });
    this.rebuild(false);
    if (next.view !== null) this.look(next.view);
    this.color(next.color);
    this.show(next.selection, true);
  }
}

const stored = document.getElementById("data")!;
const { deflated } = stored.dataset; // of how many bytes it was made, if it is compressed
new Page(JSON.parse(deflated ? inflated(stored.textContent!, Number(deflated)) : stored.textContent!) as Data);
